import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.breakdown import breakdown
from scaling.causes import causes
from scaling.causes import first_cause
from scaling.curve import curves

WEAK = {"regime": "weak"}


def points_of(lab, plan, **fields):
    (curve,) = curves(lab.compiled(plan, **fields), lab.predictions)
    return curve.points


def test_weak_scaling_loses_what_is_beyond_the_baselines_seconds(lab):
    one = lab.compiled(
        {"1/data=2": {"compute": 0.8, "ici": 0.1}}, global_batch_size=64, **WEAK
    )
    two = lab.compiled(
        {"1/data=4": {"compute": 0.8, "ici": 0.2, "dcn": 0.3}},
        global_batch_size=128,
        **WEAK,
    )
    (curve,) = curves([*one, *two], lab.predictions)
    baseline, point = curve.points
    found = causes(point, baseline)
    expected = {"compute": 0.0, "hbm": 0.0, "ici": 0.1, "dcn": 0.3}
    assert found == pytest.approx(expected)
    assert first_cause(found) == "dcn"
    assert sum(found.values()) == pytest.approx(1.3 - 0.9)


def test_strong_scaling_loses_what_is_beyond_the_share_of_the_tokens(lab):
    baseline, point = points_of(
        lab,
        {
            "1/data=2": {"compute": 0.8, "hbm": 0.2, "ici": 0.1},
            "1/data=8": {"compute": 0.2, "hbm": 0.1, "ici": 0.05},
        },
    )
    # A quarter of the baseline's is 0.2, 0.05 and 0.025.
    found = causes(point, baseline)
    expected = {"compute": 0.0, "hbm": 0.05, "ici": 0.025, "dcn": 0.0}
    assert found == pytest.approx(expected)
    assert first_cause(found) == "hbm"


def test_the_judgement_has_them_where_it_breaks(lab):
    plan = {
        "1/data=2": {"compute": 1.0},
        "1/data=4": {"compute": 0.5, "ici": 0.5},
        "1/data=8": {"compute": 0.25, "hbm": 0.75},
    }
    (curve,) = curves(lab.compiled(plan), lab.predictions)
    found = breakdown(curve)
    assert found.first_bad_devices == 4
    assert found.first_cause == "ici"
    assert found.lost_time_s == pytest.approx(0.5)
    assert found.causes == pytest.approx({"compute": 0, "hbm": 0, "ici": 0.5, "dcn": 0})


def test_without_a_loss_there_is_no_first_cause(lab):
    plan = {"1/data=2": {"compute": 1.0}, "1/data=4": {"compute": 0.4, "ici": 0.05}}
    (curve,) = curves(lab.compiled(plan), lab.predictions)
    found = breakdown(curve)
    assert found.causes == pytest.approx(
        {"compute": -0.1, "hbm": 0, "ici": 0.05, "dcn": 0}
    )
    assert found.first_cause is None


def test_measured_points_have_none(lab):
    (curve,) = curves(lab.scaled({"1/data=2": 1, "1/data=4": 0.5}))
    found = breakdown(curve)
    assert found.causes is None
    assert found.first_cause is None


seconds = st.fixed_dictionaries(
    dict.fromkeys(("compute", "hbm", "ici", "dcn"), st.floats(0.001, 10))
)


@given(plans=st.lists(seconds, min_size=2, max_size=5), weak=st.booleans())
def test_they_sum_to_the_lost_time(plans, weak, lab):
    runs = []
    for n, plan in enumerate(plans):
        batch = 64 * 2**n if weak else 64
        regime = "weak" if weak else "strong"
        runs += lab.compiled(
            {f"1/data={2**n}": plan}, global_batch_size=batch, regime=regime
        )
    (curve,) = curves(runs, lab.predictions)
    found = breakdown(curve)
    assert found.causes is not None
    largest = max(sum(plan.values()) for plan in plans)
    assert sum(found.causes.values()) == pytest.approx(
        found.lost_time_s, abs=1e-9 * largest
    )
