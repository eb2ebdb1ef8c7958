import pytest

from scaling.breakdown import beginning
from scaling.breakdown import breakdown
from scaling.breakdown import is_judged
from scaling.curve import curves


def judge(measurements, **options):
    (curve,) = (each for each in curves(measurements) if each.kind == "scaling")
    return breakdown(curve, **options)


def vertical(lab, *efficiencies, **options):
    meshes = [f"1/data={2**n}" for n in range(len(efficiencies))]
    return lab.scaled(dict(zip(meshes, efficiencies, strict=True)), **options)


def test_a_break_is_placed(lab):
    found = judge(vertical(lab, 1, 0.95, 0.9, 0.7, 0.5))
    assert (found.direction, found.regime, found.growth) == (
        "vertical",
        "strong",
        "ici:data",
    )
    assert (found.model, found.chip, found.threshold) == ("tiny", "v5e", 0.8)
    assert found.outcome == "breaks"
    assert found.last_good_devices == 4
    assert found.first_bad_devices == 8
    # A step of 1/(8 * 0.7) s, of which 30 % are lost.
    assert found.lost_time_s == pytest.approx(1 / (8 * 0.7) * 0.3)
    assert found.causes is None
    assert found.first_cause is None
    assert found.ended_by is None


def test_none_in_range(lab):
    found = judge(vertical(lab, 1, 0.95, 0.9))
    assert found.outcome == "none_in_range"
    assert (found.last_good_devices, found.first_bad_devices) == (4, None)
    # Lost at the largest count.
    assert found.lost_time_s == pytest.approx(1 / (4 * 0.9) * 0.1)


def test_between_good_and_bad_lies_what_is_undecided(lab):
    found = judge(vertical(lab, 1, 0.95, 0.8, 0.6))
    assert found.outcome == "breaks"
    assert (found.last_good_devices, found.first_bad_devices) == (2, 8)
    found = judge(vertical(lab, 1, 0.95, 0.8))
    assert found.outcome == "undecided"
    assert (found.last_good_devices, found.first_bad_devices) == (2, None)


def test_last_good_is_up_to_which_all_are_good(lab):
    found = judge(vertical(lab, 1, 0.8, 0.95))
    assert found.outcome == "undecided"
    assert found.last_good_devices == 1


def test_noise_decides_how_much_is_claimed(lab):
    outcomes = [
        judge(vertical(lab, 1, 0.75, noise=noise)).outcome
        for noise in (0.001, 0.02, 0.2)
    ]
    assert outcomes == ["breaks", "breaks", "undecided"]


def test_the_threshold_is_an_option(lab):
    runs = vertical(lab, 1, 0.7)
    assert judge(runs, threshold=0.6).outcome == "none_in_range"
    assert judge(runs, threshold=0.9).outcome == "breaks"
    for outside in (0.0, 1.0, 80):
        with pytest.raises(ValueError, match="between 0 and 1"):
            judge(runs, threshold=outside)


def test_retrograde_is_a_sure_fall_of_total_throughput(lab):
    # Throughputs 1, 1.9, 3.2, 2.4.
    found = judge(vertical(lab, 1, 0.95, 0.8, 0.3))
    assert found.outcome == "retrograde"
    assert found.first_bad_devices == 8
    # Throughputs 1, 1.9, 1.9: no fall that is sure.
    assert judge(vertical(lab, 1, 0.95, 0.474)).outcome == "breaks"


def test_retrograde_needs_no_break(lab):
    found = judge(vertical(lab, 1, 0.4, noise=0.01), threshold=0.3)
    assert found.outcome == "retrograde"
    assert found.first_bad_devices is None


def test_retrograde_is_found_between_distant_points(lab):
    # Each step falls by less than its noise, three of them by more.
    noisy = {"noise": 0.03, "runs": 5}
    runs = vertical(lab, 1, 0.5, 0.245, 0.12, 0.0588, **noisy)
    assert judge(runs, threshold=0.05).outcome == "retrograde"


def test_one_run_a_point_is_undecided(lab):
    found = judge(vertical(lab, 1, 0.9, 0.1, runs=1))
    assert found.outcome == "undecided"
    assert found.last_good_devices is None
    assert found.first_bad_devices is None
    # An estimate, not a claim.
    assert found.lost_time_s == pytest.approx(1 / (4 * 0.1) * 0.9)


def test_a_baseline_of_one_run_is_undecided(lab):
    runs = vertical(lab, 1, 0.6)
    assert judge(runs).outcome == "breaks"
    assert judge(runs[4:]).outcome == "undecided"


def test_a_curve_of_one_measured_point_is_undecided(lab, point):
    runs = vertical(lab, 1)
    runs.append(lab.failed(point(mesh="1/data=2"), "out_of_memory"))
    found = judge(runs)
    assert found.outcome == "undecided"
    assert (found.last_good_devices, found.first_bad_devices) == (1, None)
    assert found.lost_time_s is None
    assert found.ended_by == "out_of_memory"


def test_a_curve_of_failures_is_undecided(lab, point):
    found = judge([lab.failed(point(mesh=f"1/data={n}"), "error") for n in (1, 2)])
    assert found.outcome == "undecided"
    assert (found.last_good_devices, found.lost_time_s) == (None, None)
    assert found.ended_by == "error"


def test_a_failure_ends_the_curve(lab, point):
    runs = vertical(lab, 1, 0.9)
    runs.append(lab.failed(point(mesh="1/data=4"), "hang"))
    runs.append(lab.failed(point(mesh="1/data=8"), "crash"))
    found = judge(runs)
    assert found.outcome == "none_in_range"
    assert found.ended_by == "hang"


@pytest.mark.parametrize("status", ["invalid", "skipped"])
def test_what_was_not_tried_does_not_end_the_curve(lab, point, status):
    runs = vertical(lab, 1, 0.9)
    runs.append(lab.failed(point(mesh="1/data=3"), status))
    assert judge(runs).ended_by is None
    runs.append(lab.failed(point(mesh="1/data=4"), "out_of_memory"))
    assert judge(runs).ended_by == "out_of_memory"


def test_a_failed_mesh_does_not_end_the_best_curve_where_another_ran(lab, point):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.9, "1/fsdp=2": 0.9, "1/fsdp=4": 0.85})
    runs.append(lab.failed(point(mesh="1/data=4"), "hang"))

    def best(measurements):
        found = [each for each in curves(measurements) if each.growth == "best"]
        return breakdown(found[0]).ended_by

    assert best(runs) is None
    # A run without a single block: it is `ok`, and has no figure to show.
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.9, "1/fsdp=2": 0.9})
    runs.append(lab.failed(point(mesh="1/data=4"), "hang"))
    runs.append(lab.run(point(mesh="1/fsdp=4"), ()))
    assert best(runs) is None


def test_a_failure_amid_the_curve_is_not_known_to_be_good(lab, point):
    runs = lab.scaled({"1/data=1": 1, "1/data=2": 0.95, "1/data=8": 0.9})
    without = judge(runs)
    assert without.outcome == "none_in_range"
    found = judge([*runs, lab.failed(point(mesh="1/data=4"), "hang")])
    assert found.outcome == "undecided"
    assert found.last_good_devices == 2
    assert found.ended_by is None
    # What cannot be built on the devices was never asked of them.
    invalid = lab.failed(point(mesh="1/data=4"), "invalid")
    assert judge([*runs, invalid]) == without


def test_a_failure_below_the_baseline_does_not_count(lab, point):
    runs = lab.scaled({"1/data=2": 1, "1/data=4": 0.9})
    runs.append(lab.failed(point(mesh="1/data=1"), "out_of_memory"))
    found = judge(runs)
    assert found.outcome == "none_in_range"
    assert (found.last_good_devices, found.ended_by) == (4, None)


def test_a_newest_run_that_failed_takes_the_claim_away(lab, point):
    runs = vertical(lab, 1, 0.5)
    assert judge(runs).outcome == "breaks"
    runs.append(lab.failed(point(mesh="1/data=2"), "hang"))
    found = judge(runs)
    assert found.outcome == "undecided"
    assert found.ended_by == "hang"


def test_simulated_devices_are_never_judged(lab):
    (curve,) = curves(vertical(lab, 1, 0.9, 0.1, provenance="simulated"))
    assert not is_judged(curve)
    with pytest.raises(ValueError, match="simulated scaling curve is shown, never"):
        breakdown(curve)


def test_a_load_curve_has_no_breakdown(lab, point):
    runs = [lab.run(point(global_batch_size=batch)) for batch in (8, 16)]
    (curve,) = curves(runs)
    assert not is_judged(curve)
    with pytest.raises(ValueError, match="load curve"):
        breakdown(curve)


def test_horizontally_and_weak(lab):
    runs = [
        run
        for n, efficiency in ((1, 1.0), (2, 0.9), (4, 0.6))
        for run in lab.scaled(
            {f"data={n}/1": efficiency}, regime="weak", global_batch_size=8 * n
        )
    ]
    found = judge(runs)
    assert (found.direction, found.regime, found.growth) == (
        "horizontal",
        "weak",
        "dcn:data",
    )
    assert found.outcome == "breaks"
    assert (found.last_good_devices, found.first_bad_devices) == (2, 4)


def compiled(lab, *plans):
    plan = {f"1/data={2**n}": seconds for n, seconds in enumerate(plans, 1)}
    runs = lab.compiled(plan)
    (curve,) = curves(runs, lab.predictions)
    return breakdown(curve)


def test_a_predicted_break_is_placed_by_its_band(lab):
    # Efficiencies 1, 0.91 [0.88, 0.93], 0.79 [0.75, 0.83], 0.60 [0.55, 0.66].
    found = compiled(
        lab,
        {"compute": 1.0},
        {"compute": 0.5, "ici": 0.05},
        {"compute": 0.25, "ici": 0.065},
        {"compute": 0.125, "ici": 0.085},
    )
    assert found.outcome == "breaks"
    assert (found.last_good_devices, found.first_bad_devices) == (4, 16)


def test_a_band_around_the_threshold_is_undecided(lab):
    found = compiled(lab, {"compute": 1.0}, {"compute": 0.5, "ici": 0.12})
    assert found.outcome == "undecided"
    assert (found.last_good_devices, found.first_bad_devices) == (2, None)


def test_a_predicted_curve_may_have_no_break(lab):
    found = compiled(lab, {"compute": 1.0}, {"compute": 0.55}, {"compute": 0.3})
    assert found.outcome == "none_in_range"
    assert found.last_good_devices == 8


def test_a_predicted_fall_is_one_beyond_its_band(lab):
    # A step of 0.6 s after one of 0.5 s; with the network a quarter slower or a fifth
    # faster the later takes 0.55 s at least.
    falls = ({"compute": 1.0}, {"compute": 0.5}, {"compute": 0.35, "ici": 0.25})
    assert compiled(lab, *falls).outcome == "retrograde"
    # Here it may be 0.48 s.
    unsure = ({"compute": 1.0}, {"compute": 0.5}, {"compute": 0.28, "ici": 0.25})
    assert compiled(lab, *unsure).outcome == "breaks"


def test_memory_that_is_too_small_at_both_ends(lab, point):
    runs = lab.compiled({f"1/data={n}": {"compute": 1 / n} for n in (4, 8)})
    for mesh in ("1/data=2", "1/data=16"):
        runs.append(
            lab.failed(point(mesh=mesh), "out_of_memory", provenance="compiled")
        )
    (curve,) = curves(runs, lab.predictions)
    found = breakdown(curve)
    assert (found.outcome, found.ended_by) == ("none_in_range", "out_of_memory")
    small = beginning(curve)
    assert small is not None
    assert (small.num_devices, small.status) == (2, "out_of_memory")
    assert curve.points[1].efficiency == 1
