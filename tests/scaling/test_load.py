import math

import pytest

from scaling.curve import curves
from scaling.load import load


def load_curve(lab, point, throughputs, *, noise=0.002, runs=5, **fields):
    """Returns the load curve of these throughputs in sequences per second, by batch."""
    made = []
    for batch, throughput in throughputs.items():
        each = point(global_batch_size=batch)
        offsets = [noise * (i - (runs - 1) / 2) for i in range(runs)]
        made += [
            lab.run(each, batch / throughput * math.exp(offset), **fields)
            for offset in offsets
        ]
    return made


def judge(measurements, **options):
    (curve,) = curves(measurements)
    return load(curve, **options)


def test_saturation_is_the_smallest_batch_surely_near_the_best(lab, point):
    found = judge(load_curve(lab, point, {8: 50, 16: 80, 32: 97, 64: 100}))
    assert found.saturation_batch_size == 32
    assert found.best_batch_size == 64
    assert found.limit_batch_size is None
    assert (found.mesh, found.num_devices, found.fraction) == ("1/1", 1, 0.95)


def test_what_is_near_the_best_but_not_surely_is_no_saturation(lab, point):
    throughputs = {8: 50, 16: 80, 32: 97, 64: 100}
    # The half-width must be below log(0.97 / 0.95) = 0.021.
    found = judge(load_curve(lab, point, throughputs, noise=0.02))
    assert found.saturation_batch_size == 64
    # With more noise not even the largest is surely the best.
    found = judge(load_curve(lab, point, throughputs, noise=0.2))
    assert found.saturation_batch_size is None


def test_the_fraction_is_an_option(lab, point):
    runs = load_curve(lab, point, {8: 50, 16: 80, 32: 97, 64: 100})
    assert judge(runs, fraction=0.75).saturation_batch_size == 16


def test_throughput_may_fall_with_the_batch(lab, point):
    found = judge(load_curve(lab, point, {8: 50, 16: 100, 32: 70}))
    assert found.saturation_batch_size == 16
    assert found.best_batch_size == 16


def test_the_limit_is_the_first_batch_out_of_memory(lab, point):
    runs = load_curve(lab, point, {8: 50, 16: 80})
    runs.append(lab.failed(point(global_batch_size=32), "hang"))
    runs.append(lab.failed(point(global_batch_size=64), "out_of_memory"))
    runs.append(lab.failed(point(global_batch_size=128), "out_of_memory"))
    found = judge(runs)
    assert found.limit_batch_size == 64
    assert found.saturation_batch_size == 16


def test_one_run_a_batch_claims_nothing(lab, point):
    found = judge(load_curve(lab, point, {8: 50, 16: 100}, runs=1))
    assert found.saturation_batch_size is None
    assert found.best_batch_size == 16
    runs = load_curve(lab, point, {8: 50, 16: 100})
    runs.append(lab.run(point(global_batch_size=32), 0.3))
    assert judge(runs).saturation_batch_size is None


def test_nothing_measured(lab, point):
    runs = [lab.failed(point(global_batch_size=n), "out_of_memory") for n in (8, 16)]
    found = judge(runs)
    assert (found.best_batch_size, found.saturation_batch_size) == (None, None)
    assert found.limit_batch_size == 8


def test_only_real_load_curves_are_judged(lab, point):
    runs = load_curve(lab, point, {8: 50, 16: 100}, provenance="simulated")
    with pytest.raises(ValueError, match="simulated load curve"):
        judge(runs)
    with pytest.raises(ValueError, match="measured scaling curve"):
        judge(lab.scaled({"1/1": 1, "1/data=2": 0.9}))


def predicted(lab, steps):
    runs = []
    for batch, exposed_s in steps.items():
        runs += lab.compiled({"1/data=4": exposed_s}, global_batch_size=batch)
    (curve,) = curves(runs, lab.predictions)
    return load(curve)


def test_a_predicted_load_is_busy_by_its_band(lab):
    steps = {
        8: {"compute": 0.2, "ici": 0.02},
        16: {"compute": 0.4, "ici": 0.02},
        32: {"compute": 0.8, "ici": 0.02},
    }
    # Throughput 0.93 and 0.98 of the largest.
    found = predicted(lab, steps)
    assert (found.provenance, found.bounded) == ("compiled", True)
    assert found.saturation_batch_size == 16
    assert found.best_batch_size == 32
    # With three times the waiting the band of the second load begins below 0.95.
    waiting = {b: {**s, "ici": 0.06} for b, s in steps.items()}
    assert predicted(lab, waiting).saturation_batch_size == 32


def test_one_predicted_load_is_bounded_by_nothing(lab, point):
    runs = lab.compiled({"1/data=4": {"compute": 1.0}}, global_batch_size=8)
    runs.append(
        lab.failed(
            point(mesh="1/data=4", global_batch_size=16),
            "out_of_memory",
            provenance="compiled",
        )
    )
    (curve,) = curves(runs, lab.predictions)
    found = load(curve)
    assert (found.bounded, found.saturation_batch_size) == (False, None)
    assert found.limit_batch_size == 16
