import pytest

from scaling.breakdown import breakdown
from scaling.breakdown import is_judged
from scaling.curve import curves
from scaling.verdict import NO_CURVE
from scaling.verdict import verdict


def say(measurements, predictions=None, **options):
    found = curves(measurements, predictions)
    judged = [breakdown(curve) for curve in found if is_judged(curve)]
    return verdict(judged, curves=found, **options)


def test_none_in_range(lab):
    assert say(lab.scaled({"1/1": 1, "1/data=2": 0.86}, noise=0.02)) == (
        "Vertical (strong): no break in range: 1 → 2 devices keeps 0.86 [0.84, 0.88] "
        "of the throughput per device."
    )


def test_beyond_the_cores_nothing_is_measurable(lab):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.86}, noise=0.02, chip="cpu")
    beyond = "; beyond 2 not measurable here"
    assert beyond not in say(runs)
    assert beyond not in say(runs, num_cores=4)
    assert say(runs, num_cores=2).endswith(f"{beyond} (2 cores).")
    simulated = lab.scaled({"1/data=4": 0.3}, chip="cpu", provenance="simulated")
    assert say([*runs, *simulated]).endswith(f"{beyond}.")
    assert say([*runs, *simulated], num_cores=2).endswith(f"{beyond} (2 cores).")


def test_cores_do_not_bound_other_chips(lab):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.86})
    assert "not measurable" not in say(runs, num_cores=2)


def test_only_simulated(lab):
    runs = lab.scaled({"1/1": 1}, chip="cpu")
    runs += lab.scaled({"1/data=2": 0.5}, chip="cpu", provenance="simulated")
    assert say(runs, num_cores=1) == (
        "No verdict: no curve has a result to compare with. "
        "Vertical (strong): not measurable here (1 core); devices that share cores "
        "are simulated, which is shown and not judged."
    )


def test_breaks(lab):
    assert say(lab.scaled({"1/1": 1, "1/data=2": 0.95, "1/data=4": 0.7})) == (
        "Vertical (strong): stops paying at 4 devices: 1 → 4 devices keeps 0.70 "
        "[0.69, 0.71] of the throughput per device, below 0.8; pays up to 2 devices."
    )
    assert say(lab.scaled({"1/1": 1, "1/data=2": 0.7})).endswith(
        "below 0.8; nothing above 1 device surely pays."
    )
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.9, "1/data=4": 0.8, "1/data=8": 0.6})
    assert say(runs).endswith("pays up to 2 devices, undecided between.")


def test_retrograde(lab):
    assert say(lab.scaled({"1/1": 1, "1/data=2": 0.95, "1/data=4": 0.4})) == (
        "Vertical (strong): total throughput falls from 2 devices to 4 devices: 1 → 4 "
        "devices keeps 0.40 [0.39, 0.41] of the throughput per device; pays up to 2 "
        "devices."
    )


def test_undecided_says_what_would_settle_it(lab):
    # The half-width 1.86 * 0.02 * sqrt(2 / 5) is 0.0235, log(0.82 / 0.8) is 0.0247;
    # at 0.81 it is 0.0124, and (0.0235 / 0.0124)² * 5 runs are 18 (13 more).
    assert say(lab.scaled({"1/1": 1, "1/data=2": 0.81}, noise=0.02)) == (
        "Vertical (strong): undecided at 0.8: 1 → 2 devices keeps 0.81 [0.79, 0.83] of "
        "the throughput per device; about 13 more runs a point would settle it."
    )
    assert say(lab.scaled({"1/1": 1, "1/data=2": 0.8001}, noise=0.02)).endswith(
        "too close to 0.8 for 100 more runs a point to settle."
    )


def test_the_number_of_runs_that_it_names_does_settle_it(lab):
    plan = {"1/1": 1, "1/data=2": 0.81}
    assert "about 13 more runs" in say(lab.scaled(plan, noise=0.02, runs=5))
    assert "no break" in say(lab.scaled(plan, noise=0.02, runs=18))


def test_one_run_is_undecided(lab):
    said = say(lab.scaled({"1/1": 1, "1/data=2": 0.5}, runs=1))
    assert "undecided at 0.8: 1 → 2 devices keeps 0.50 of the throughput" in said
    assert "a single run gives no interval" in said
    assert "[" not in said


def test_no_runs_are_asked_of_what_is_not_measured(lab):
    plan = {"1/data=2": {"compute": 1.0}, "1/data=4": {"compute": 0.5, "ici": 0.12}}
    said = say(lab.compiled(plan), lab.predictions)
    assert "; the band of the prediction spans 0.8; " in said
    assert "run" not in said


def test_what_was_compiled_says_so_and_where_the_time_goes(lab):
    plan = {
        "1/fsdp=64": {"compute": 1.0},
        "data=2/fsdp=64": {"compute": 0.5, "dcn": 0.02},
        "data=4/fsdp=64": {"compute": 0.25, "ici": 0.03, "dcn": 0.1},
    }
    # The network a quarter slower takes 0.4125 s, a fifth faster 0.354 s.
    assert say(lab.compiled(plan), lab.predictions) == (
        "tiny compiled for v5e, horizontal (strong): stops paying at 4 slices of 64 "
        "devices: 1 → 4 slices of 64 devices keeps 0.66 [0.61, 0.71] of the throughput "
        "per device, below 0.8; pays up to 2 slices of 64 devices; at 4 slices of 64 "
        "devices a step loses 130 ms, most of it to dcn."
    )


def test_measured_and_compiled_speak_beside_each_other(lab):
    compiled = lab.compiled({f"1/data={n}": {"compute": 1 / n} for n in (2, 4)})
    measured = lab.scaled({"1/data=2": 1, "1/data=4": 0.5})
    said = say([*compiled, *measured], lab.predictions)
    measured_says, beside = said.split(" tiny compiled for v5e, ")
    assert measured_says.startswith(
        "tiny on v5e, vertical (strong): stops paying at 4 devices"
    )
    assert beside == (
        "vertical (strong): no break in range: 2 → 4 devices keeps 1.00 [1.00, 1.00] "
        "of the throughput per device."
    )


def test_memory_ends_a_compiled_curve_at_both_ends(lab, point):
    runs = lab.compiled({f"1/data={n}": {"compute": 1 / n} for n in (4, 8)})
    for mesh in ("1/1", "1/data=2", "1/data=16"):
        runs.append(
            lab.failed(point(mesh=mesh), "out_of_memory", provenance="compiled")
        )
    said = say(runs, lab.predictions)
    assert said.endswith(
        "; 2 devices are too few, out of memory; ends at 16 devices: out of memory."
    )


def test_too_few_slices_are_said_to_be(lab, point):
    runs = lab.scaled({"data=2/data=2": 1, "data=4/data=2": 0.9})
    runs.append(lab.failed(point(mesh="1/data=2"), "out_of_memory"))
    said = say(runs)
    assert said.endswith("; 1 slice of 2 devices is too few, out of memory.")
    # One that failed otherwise says nothing about fewer devices.
    runs[-1] = lab.failed(point(mesh="1/data=2"), "crash")
    assert "too few" not in say(runs)


def test_how_a_curve_ends(lab, point):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.95})
    runs.append(lab.failed(point(mesh="1/data=4"), "out_of_memory"))
    assert say(runs).endswith("; ends at 4 devices: out of memory.")


def test_what_was_not_tried_does_not_end_a_curve(lab, point):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.95})
    runs.append(lab.failed(point(mesh="1/data=3"), "invalid"))
    assert "ends at" not in say(runs)
    runs.append(lab.failed(point(mesh="1/data=4"), "out_of_memory"))
    assert say(runs).endswith("; ends at 4 devices: out of memory.")


def test_a_failure_amid_the_curve(lab, point):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.95, "1/data=8": 0.9})
    runs.append(lab.failed(point(mesh="1/data=4"), "hang"))
    assert say(runs) == (
        "Vertical (strong): undecided at 0.8; pays up to 2 devices; at 4 devices "
        "there is no figure (hang)."
    )


def test_nothing_but_failures(lab, point):
    runs = [lab.failed(point(mesh=f"1/data={n}"), "error") for n in (1, 2)]
    assert say(runs) == (
        "No verdict: no curve has a result to compare with. "
        "Vertical (strong): undecided, no point has a result; "
        "ends at 1 device: error."
    )


def test_horizontal_counts_slices(lab):
    runs = lab.scaled({"1/data=4": 1, "data=2/data=4": 0.9})
    assert say(runs).startswith(
        "Horizontal (strong): no break in range: 1 → 2 slices of 4 devices keeps 0.90"
    )
    runs = lab.scaled({"1/1": 1, "data=2/1": 0.9})
    assert "1 → 2 slices keeps 0.90" in say(runs)


def test_a_sentence_for_each_direction_and_regime(lab):
    runs = []
    for regime in ("weak", "strong"):
        for mesh in ("data=2/1", "1/1", "1/data=2"):
            n = 2 if "2" in mesh and regime == "weak" else 1
            runs += lab.scaled({mesh: 0.9}, regime=regime, global_batch_size=8 * n)
    said = say(runs)
    starts = [
        f"{direction} ({regime}):"
        for direction in ("Vertical", "Horizontal")
        for regime in ("strong", "weak")
    ]
    places = [said.index(start) for start in starts]
    assert places == sorted(places)
    assert said.count(".") >= len(starts)


def test_several_models_are_named(lab):
    runs = [
        run
        for model in ("tiny", "small")
        for run in lab.scaled({"1/1": 1, "1/data=2": 0.9}, model=model)
    ]
    said = say(runs)
    assert said.startswith("small on v5e, vertical (strong): ")
    assert " tiny on v5e, vertical (strong): " in said


def test_the_best_meshes_speak_and_are_named(lab):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.5, "1/fsdp=2": 0.9})
    said = say(runs)
    assert "1 → 2 devices (mesh 1/fsdp=2) keeps 0.90" in said
    assert said.endswith("; 1 of 2 other curves of this kind do break.")


def test_several_batches_are_told_apart(lab):
    runs = [
        run
        for batch in (8, 16)
        for run in lab.scaled({"1/1": 1, "1/data=2": 0.9}, global_batch_size=batch)
    ]
    assert say(runs).startswith("Vertical (strong, global batch 16): ")


def test_the_newest_environment_speaks(lab):
    old = lab.environment.model_copy(update={"code_hash": "1" * 64})
    runs = [
        run.model_copy(update={"environment": old})
        for run in lab.scaled({"1/1": 1, "1/data=2": 0.6})
    ]
    runs += lab.scaled({"1/1": 1, "1/data=2": 0.9})
    for ordered in (runs, runs[::-1]):
        assert "keeps 0.90" in say(ordered)
        assert "break in range" in say(ordered)


def test_an_environment_without_results_does_not_speak(lab, point):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.9})
    other = lab.environment.model_copy(update={"device_kind": "cpu"})
    for mesh in ("1/1", "1/data=2"):
        failed = lab.failed(point(mesh=mesh), "wrong_platform")
        runs.append(failed.model_copy(update={"environment": other}))
    assert "1 → 2 devices keeps 0.90" in say(runs)
    assert "No verdict" not in say(runs)


def test_no_curve(lab, point):
    assert say([lab.run(point())]) == NO_CURVE
    assert say([]) == NO_CURVE


def test_every_judged_curve_needs_its_breakdown(lab):
    found = curves(lab.scaled({"1/1": 1, "1/data=2": 0.9}))
    with pytest.raises(ValueError, match="shorter"):
        verdict([], curves=found)
