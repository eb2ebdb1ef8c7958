"""How often the judgement is right: 2,000 seeded curves for each planted truth.

Six points of five runs; a run is ten blocks; runs differ by 2 % and one block in
twenty is disturbed. Everything from the median of the blocks to the breakdown is the
code that reads stored results.
"""

import math
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np
import pytest

from scaling.breakdown import Breakdown
from scaling.breakdown import breakdown
from scaling.curve import Curve
from scaling.curve import curves
from scaling.measurement import Block
from scaling.measurement import Measurement

NUM_CURVES = 2000
NUM_BLOCKS = 10
RUN_NOISE = 0.02
BLOCK_NOISE = 0.01
OUTLIER_SHARE = 0.05
MEDIAN_SHIFT = math.exp(BLOCK_NOISE * 0.066)
"""Of a block: the 50th percentile of all is the 52.6th of the undisturbed 95 %."""
DEVICES = (1, 2, 4, 8, 16, 32)
HEALTHY = (1.0, 0.98, 0.95, 0.92, 0.89)


def simulated_blocks(
    rng: np.random.Generator, true_step_times_s: Sequence[float], *, runs: int
) -> np.ndarray:
    """Returns step times of [curve, point, run, block] in seconds."""
    shape = (NUM_CURVES, len(true_step_times_s), runs)
    log_run = rng.normal(0, RUN_NOISE, shape)[..., None]
    log_block = rng.normal(0, BLOCK_NOISE, (*shape, NUM_BLOCKS))
    disturbed = rng.random((*shape, NUM_BLOCKS)) < OUTLIER_SHARE
    slowdown = np.where(disturbed, rng.uniform(1.5, 4, disturbed.shape), 1.0)
    truth = np.asarray(true_step_times_s)[:, None, None]
    return truth * np.exp(log_run + log_block) * slowdown


def judged(
    lab, point, *, last: float, runs: int = 5
) -> Iterator[tuple[Curve, Breakdown]]:
    """Yields curves whose last point has a true efficiency of `last`."""
    efficiencies = (*HEALTHY, last)
    points = [point(mesh=f"1/data={n}") for n in DEVICES]
    templates = [[lab.run(p) for _ in range(runs)] for p in points]
    truth = [1 / (n * e) for n, e in zip(DEVICES, efficiencies, strict=True)]
    rng = np.random.default_rng(20260101)
    for times_s in simulated_blocks(rng, truth, runs=runs).tolist():
        measurements = [
            with_blocks(template, blocks)
            for of_point, by_run in zip(templates, times_s, strict=True)
            for template, blocks in zip(of_point, by_run, strict=True)
        ]
        (curve,) = curves(measurements)
        yield curve, breakdown(curve)


@pytest.fixture(scope="module")
def at_the_threshold(lab, point) -> list[tuple[Curve, Breakdown]]:
    return list(judged(lab, point, last=0.80))


def with_blocks(template: Measurement, step_times_s: Sequence[float]) -> Measurement:
    blocks = tuple(Block(steps=1, elapsed_s=(time_s,)) for time_s in step_times_s)
    return template.model_copy(update={"blocks": blocks})


def claims(found: Breakdown) -> bool:
    return found.outcome in ("breaks", "retrograde")


def test_at_the_threshold_a_break_is_claimed_in_at_most_5_percent(
    at_the_threshold,
):
    found = [each for _, each in at_the_threshold]
    assert sum(map(claims, found)) <= 0.05 * NUM_CURVES
    # Nor is the opposite: surely good at exactly the threshold.
    good = sum(each.last_good_devices == 32 for each in found)
    assert good <= 0.05 * NUM_CURVES


def test_just_below_the_threshold_the_break_is_found_there_in_85_percent(lab, point):
    found = [each for _, each in judged(lab, point, last=0.76)]
    there = sum(
        each.outcome == "breaks" and each.first_bad_devices == 32 for each in found
    )
    assert there >= 0.85 * NUM_CURVES
    # A claim elsewhere would be false.
    assert sum(claims(each) and each.first_bad_devices != 32 for each in found) == 0


def test_just_above_the_threshold_a_break_is_claimed_in_at_most_1_percent(lab, point):
    found = [each for _, each in judged(lab, point, last=0.84)]
    assert sum(map(claims, found)) <= 0.01 * NUM_CURVES


@pytest.mark.parametrize("last", [0.84, 0.3])
def test_a_single_run_per_point_claims_nothing(lab, point, last):
    for curve, found in judged(lab, point, last=last, runs=1):
        assert found.outcome == "undecided"
        assert found.last_good_devices is None
        assert found.first_bad_devices is None
        assert all(p.efficiency_low is None for p in curve.points)


def test_the_bounds_hold_the_truth_at_all_points_at_once_in_90_percent(
    at_the_threshold,
):
    truth = (*HEALTHY, 0.80)
    all_held = 0
    step_time_held = 0
    for curve, _ in at_the_threshold:
        all_held += all(
            p.efficiency_low <= e <= p.efficiency_high
            for p, e in zip(curve.points, truth, strict=True)
        )
        first = curve.points[0]
        step_time_held += (
            first.step_time_low_s <= MEDIAN_SHIFT <= first.step_time_high_s
        )
    # Three standard errors of a share of 2,000 are 0.02.
    assert abs(all_held / NUM_CURVES - 0.90) < 0.02
    assert abs(step_time_held / NUM_CURVES - 0.90) < 0.02
