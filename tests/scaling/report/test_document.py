import json

from scaling.report.document import report_json
from scaling.report.findings import find

VERDICT = (
    "direction regime growth model chip outcome last_good_devices first_bad_devices "
    "threshold first_cause lost_time_s causes ended_by"
)
CURVE = "kind direction regime growth model chip provenance baseline_id points"
POINT = (
    "id mesh num_devices num_slices global_batch_size num_runs tokens_per_s "
    "step_time_s step_time_low_s step_time_high_s efficiency efficiency_low "
    "efficiency_high marginal_efficiency mfu status"
)


def keys(found):
    return set(found)


def test_the_document_has_the_keys_of_the_design_and_no_other(findings):
    document = json.loads(json.dumps(report_json(findings), allow_nan=False))
    assert keys(document) == {"verdict", "verdicts", "curves", "doubts"}
    assert document["verdicts"]
    for verdict in document["verdicts"]:
        assert keys(verdict) == set(VERDICT.split())
    for curve in document["curves"]:
        assert keys(curve) == set(CURVE.split())
        for point in curve["points"]:
            assert keys(point) == set(POINT.split())


def test_the_numbers_are_those_of_the_curves(findings):
    document = report_json(findings)
    for shown, curve in zip(document["curves"], findings.curves, strict=True):
        assert shown["points"] == [
            point.model_dump(mode="json", exclude={"exposed_s"})
            for point in curve.points
        ]
    assert document["verdict"] == findings.verdict


def test_every_point_with_a_doubt_is_named(new_story):
    story = new_story()
    for batch in range(1, 21):
        story.run("1/1", batch, step_time_s=0.1, repeats=1)
    doubts = report_json(find(story.measurements))["doubts"]
    assert len(doubts) == 20
    assert all("1 run has no interval" in doubt for doubt in doubts)


def test_simulated_curves_are_there_and_not_judged(findings):
    document = report_json(findings)
    provenances = [curve["provenance"] for curve in document["curves"]]
    scaling = [curve for curve in document["curves"] if curve["kind"] == "scaling"]
    simulated = [curve for curve in scaling if curve["provenance"] == "simulated"]
    assert "simulated" in provenances
    assert len(document["verdicts"]) == len(scaling) - len(simulated)


def test_nothing_measured_is_a_document_too():
    document = report_json(find([]))
    assert document["verdicts"] == document["curves"] == document["doubts"] == []
    assert document["verdict"].startswith("No verdict")
