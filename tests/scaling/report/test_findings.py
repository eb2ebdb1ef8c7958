import csv
import io
import subprocess
import sys

import pytest

from scaling.report.families import families
from scaling.report.findings import find
from scaling.report.panels import scaling_figure
from scaling.report.tables import point_rows
from scaling.report.tables import write_points


def test_every_curve_is_there_and_only_real_devices_are_judged(findings):
    assert len(findings.judged) == len(findings.curves)
    for each in findings.judged:
        real = each.curve.kind == "scaling" and each.curve.provenance != "simulated"
        assert (each.breakdown is not None) == real
    assert {each.growth for each in findings.breakdowns} > {"best", "ici:data"}


def test_the_verdict_knows_the_cores_of_the_machine_that_measured(findings):
    assert "beyond 2 not measurable here (2 cores)" in findings.verdict


@pytest.mark.parametrize(
    ("threshold", "outcome"), [(0.8, "none_in_range"), (0.9, "breaks")]
)
def test_the_threshold_decides(findings, threshold, outcome):
    found = find(findings.measurements, threshold=threshold)
    judged = next(each for each in found.breakdowns if each.growth == "ici:data")
    assert (judged.outcome, judged.threshold) == (outcome, threshold)


def test_reasons_are_those_of_the_newest_run(new_story):
    story = new_story()
    for reason in ("first", "second"):
        story.run("1/1", 16, status="error", reason=reason, repeats=1)
    in_reverse = find(story.measurements[::-1])
    (reason,) = in_reverse.reasons.values()
    assert reason == "second"


def test_each_environment_keeps_its_own_reason(new_story):
    old = new_story()
    environment = old.environment.model_copy(update={"code_hash": "f" * 16})
    new = new_story(environment)
    for story, reason in ((old, "the old one"), (new, "the new one")):
        story.run("1/1", 16, status="error", reason=reason, repeats=1)
        story.run("1/data=2", 16, status="error", reason=reason, repeats=1)
    found = find([*old.measurements, *new.measurements])
    file = io.StringIO()
    write_points(found, file)
    in_file = [
        (row["series"], row["reason"])
        for row in csv.DictReader(io.StringIO(file.getvalue()))
    ]
    listed = [(row.series, row.reason) for row in point_rows(found)]
    reasons = {"f" * 16: "the new one", "0123456789abcdef": "the old one"}
    expected = {
        (runs.series, reasons[run.environment.code_hash])
        for runs in found.runs
        for run in runs.runs
    }
    assert len(expected) == 2
    assert set(in_file) == set(listed) == expected
    drawn = [
        (judged.curve.series, mark.text.rpartition(", ")[2])
        for family in families(found.judged, found.points)
        for row in scaling_figure(
            family, name="x", reasons=found.reasons, threshold=0.8
        ).rows
        for panel in row
        for mark in panel.marks
        for judged in family.series[0].judged
    ]
    assert set(drawn) == expected


def test_the_verdict_and_the_document_need_no_drawing_library():
    # `scaling --help` and `scaling report --json` must not wait for them.
    code = (
        "import sys; import scaling.report.document, scaling.report.terminal; "
        "print({'altair', 'vl_convert', 'jinja2', 'pandas', 'jax'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
