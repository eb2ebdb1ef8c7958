import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.curve import curves
from scaling.predicted import NETWORK_ERROR
from scaling.predicted import Step
from scaling.predicted import efficiency

CAUSES = ("compute", "hbm", "ici", "dcn")


def a_step(tokens=1.0, *, low=0.9, high=1.2, **exposed_s):
    seconds = sum(exposed_s.values())
    return Step(tokens, low * seconds, seconds, high * seconds, exposed_s)


def test_the_middle_is_throughput_per_device_over_the_baselines():
    # A quarter of the tokens in 0.4 of the time.
    found = efficiency(a_step(256, compute=0.4), a_step(1024, compute=1.0))
    assert found.middle == pytest.approx(0.25 / 0.4)


def test_an_error_that_both_share_leaves_no_band():
    # Each alone is known to -10 and +20 %: a quotient of ends would be 0.56 to 1.11.
    found = efficiency(a_step(compute=1.25), a_step(compute=1.0))
    assert found == pytest.approx((0.8, 0.8, 0.8))


def test_the_band_spans_both_ends_of_the_walks():
    base = Step(1.0, 0.8, 1.0, 1.25, None)
    point = Step(1.0, 1.0, 1.2, 1.44, None)
    # Low over low 0.8 / 1.0, high over high 1.25 / 1.44.
    assert efficiency(point, base) == pytest.approx((0.8, 1 / 1.2, 1.25 / 1.44))


def test_waiting_for_a_network_widens_the_band_as_far_as_the_baseline_does_not():
    base = a_step(compute=1.0)
    found = efficiency(a_step(compute=1.0, ici=0.25), base)
    # The network a quarter slower: 1 / 1.3125; a fifth faster: 1 / 1.2.
    assert found == pytest.approx((1 / 1.3125, 0.8, 1 / 1.2))
    waiting = a_step(compute=0.8, ici=0.2)
    longer = a_step(compute=1.0, ici=0.25)
    assert efficiency(longer, waiting) == pytest.approx((0.8, 0.8, 0.8))


def test_the_networks_may_be_wrong_in_opposite_ways():
    found = efficiency(a_step(compute=1.0, dcn=0.25), a_step(compute=1.0, ici=0.25))
    more, less = 0.25 * NETWORK_ERROR, 0.25 / NETWORK_ERROR
    assert found.middle == pytest.approx(1)
    assert found.low == pytest.approx((1 + less) / (1 + more))
    assert found.high == pytest.approx((1 + more) / (1 + less))


def test_a_slower_network_may_show_what_was_hidden():
    base = a_step(compute=1.0)
    hiding = a_step(compute=0.99, ici=0.01)._replace(hidden_s={"ici": 0.99})
    found = efficiency(hiding, base)
    # A quarter of all of it more; less by no more than what is waited for.
    assert found == pytest.approx((1 / 1.25, 1, 1 / 0.99))


seconds = st.fixed_dictionaries(dict.fromkeys(CAUSES, st.floats(0.01, 10)))
ends = st.tuples(st.floats(0.5, 1), st.floats(1, 2))


@given(ours=seconds, theirs=seconds, our_ends=ends, their_ends=ends)
def test_the_middle_lies_within_and_a_step_is_as_good_as_itself(
    ours, theirs, our_ends, their_ends
):
    step = a_step(3.0, low=our_ends[0], high=our_ends[1], **ours)
    base = a_step(2.0, low=their_ends[0], high=their_ends[1], **theirs)
    found = efficiency(step, base)
    assert 0 < found.low <= found.middle <= found.high
    assert efficiency(step, step) == (1, 1, 1)
    back = efficiency(base, step)
    assert back == pytest.approx((1 / found.high, 1 / found.middle, 1 / found.low))


def test_a_compiled_curve_has_the_figures_of_its_predictions(lab):
    runs = lab.compiled({"1/data=2": {"compute": 1.0}, "1/data=4": {"compute": 0.625}})
    (curve,) = curves(runs, lab.predictions)
    first, second = curve.points
    assert (curve.provenance, curve.baseline_id) == ("compiled", first.id)
    assert (first.efficiency_low, first.efficiency, first.efficiency_high) == (1, 1, 1)
    assert first.marginal_efficiency is None
    assert second.efficiency == pytest.approx(0.8)
    assert second.marginal_efficiency == pytest.approx(0.8)
    assert second.step_time_low_s == pytest.approx(0.9 * 0.625)
    assert second.step_time_high_s == pytest.approx(0.625 / 0.9)
    assert second.tokens_per_s == pytest.approx(64 * 128 / 0.625)
    assert (second.mfu, second.num_runs) == (0.5, 0)
    assert second.exposed_s == {"compute": 0.625, "hbm": 0, "ici": 0, "dcn": 0}


def test_the_share_that_waits_for_networks(lab):
    plan = {"compute": 0.6, "hbm": 0.1, "ici": 0.2, "dcn": 0.1}
    runs = lab.compiled({"1/data=2": plan, "1/data=4": plan})
    (curve,) = curves(runs, lab.predictions)
    assert curve.points[0].exposed_fraction == pytest.approx(0.3)


def test_the_fastest_predicted_mesh_stands_for_its_count(lab):
    runs = lab.compiled(
        {
            "1/fsdp=2": {"compute": 1.0},
            "1/fsdp=4": {"compute": 0.7},
            "1/fsdp=2,tensor=2": {"compute": 0.6},
        }
    )
    best = next(c for c in curves(runs, lab.predictions) if c.growth == "best")
    assert [point.mesh for point in best.points] == ["1/fsdp=2", "1/fsdp=2,tensor=2"]
    assert best.warnings == ()


def test_measured_and_compiled_points_are_never_on_one_curve(lab):
    meshes = {"1/data=2": 1.0, "1/data=4": 0.9}
    compiled = lab.compiled({mesh: {"compute": 1.0} for mesh in meshes})
    found = curves([*lab.scaled(meshes), *compiled], lab.predictions)
    assert {each.provenance for each in found} == {"measured", "compiled"}
    for curve in found:
        measured = curve.provenance == "measured"
        assert [p.num_runs for p in curve.points] == [5 if measured else 0] * 2
        assert [p.exposed_s is None for p in curve.points] == [measured] * 2
    # One measured point gains no curve from a compiled one beside it.
    alone = [*lab.scaled({"1/data=2": 1.0}), *lab.compiled({"1/data=4": {"hbm": 1.0}})]
    assert curves(alone, lab.predictions) == ()


def test_a_point_that_could_not_be_read_has_no_figures_and_is_no_baseline(lab):
    runs = lab.compiled(
        {f"1/data={n}": {"compute": 1 / n} for n in (2, 4, 8)},
    )
    known = {key: lab.predictions[key] for key in ((r.id, r.run) for r in runs[1:])}
    (curve,) = curves(runs, known)
    assert [point.efficiency for point in curve.points] == [None, 1, 1]
    assert [point.status for point in curve.points] == ["ok"] * 3
    assert curve.baseline_id == runs[1].id


def test_a_slow_baseline_is_named_without_blaming_noise(lab):
    runs = lab.compiled({"1/data=2": {"compute": 1.0}, "1/data=4": {"compute": 0.4}})
    (curve,) = curves(runs, lab.predictions)
    (warning,) = curve.warnings
    assert "efficiency 1.25 is above 1" in warning
    assert "check what its step waits for" in warning


def test_a_failed_compilation_stands_on_the_curve_of_its_compiler(lab):
    # It ended before the worker had seen what it compiles for.
    blind = lab.environment.model_copy(update={"device_kind": None})
    runs = lab.compiled({f"1/data={n}": {"compute": 1 / n} for n in (2, 4)})
    (bad,) = lab.compiled({"1/data=8": {"compute": 1.0}})
    update = {"status": "invalid", "reason": "planted", "environment": blind}
    (curve,) = curves([*runs, bad.model_copy(update=update)], lab.predictions)
    assert [point.status for point in curve.points] == ["ok", "ok", "invalid"]


def test_a_band_without_causes_has_both_walks_only():
    step = Step(1.0, 0.5, 1.0, 2.0, None)
    assert efficiency(step, step) == (1, 1, 1)
    assert math.isclose(efficiency(step._replace(middle_s=2.0), step).low, 0.5)
