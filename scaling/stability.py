"""Stability: what in the runs of a point makes its figures doubtful.

As in pyperf each warning is a symptom with its number, then the cure. No sample is
ever dropped: these sentences stand beside the figures.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from scaling.intervals import pool
from scaling.measurement import Measurement
from scaling.samples import in_time_order
from scaling.samples import run_statistic
from scaling.samples import step_times_s
from scaling.samples import usable
from scaling.utilisation import mfu

FEW_RUNS = 3
"""Fewer leave the interval to the other points of the curve, or leave none."""
SPREAD_FRACTION = 0.05
DRIFT_FRACTION = 0.05
WARM_UP_FRACTION = 0.30
OUTLIER_FRACTION = 0.10
OUTLIER_DEVIATIONS = 4.0
"""An outlier block is beyond both: this part of the run's median above it, and this
many standard deviations as the median absolute deviation estimates them."""


def stability_warnings(measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Returns one line for each doubtful thing about each point's usable runs.

    A line starts with what names the point. Runs of different environments or
    provenances are looked at apart.
    """
    groups: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for each in measurements:
        if usable(each):
            key = (each.id, each.provenance, each.environment.pooling_key)
            groups[key].append(each)
    return tuple(
        f"{_name(runs[0])}: {warning}"
        for runs in groups.values()
        for warning in point_warnings(runs)
    )


def point_warnings(runs: Sequence[Measurement]) -> tuple[str, ...]:
    """Returns the warnings about usable runs of one point, the gravest first."""
    ordered = in_time_order(runs)
    return tuple(filter(None, (check(ordered) for check in _CHECKS)))


def _name(run: Measurement) -> str:
    point = run.point
    return (
        f"{point.model} on {point.chip}, mesh {point.mesh}, "
        f"batch {point.global_batch_size} ({run.id})"
    )


def _above_peak(runs: Sequence[Measurement]) -> str | None:
    fractions = [
        mfu(run.point, time_s) or 0.0
        for run in runs
        for time_s in step_times_s(run)
        if time_s > 0
    ]
    above = [fraction for fraction in fractions if fraction > 1]
    if not above:
        return None
    return (
        f"{len(above)} of {len(fractions)} blocks imply up to {max(above):.2f} times "
        "the peak FLOP/s of the chip, which is impossible; check the chip, the dtype "
        "and that the timed window waits for the last step"
    )


def _few_runs(runs: Sequence[Measurement]) -> str | None:
    if len(runs) >= FEW_RUNS:
        return None
    number = "1 run has" if len(runs) == 1 else f"{len(runs)} runs have"
    consequence = "no interval" if len(runs) == 1 else "a wide interval"
    return f"{number} {consequence}; repeat with --repeats 5"


def _spread(runs: Sequence[Measurement]) -> str | None:
    spread = pool([[run_statistic(run) for run in runs]]).sd
    if spread is None or spread <= SPREAD_FRACTION:
        return None
    return (
        f"the standard deviation over {len(runs)} runs is {spread:.1%} of the step "
        "time; end other work on the machine, or repeat with more --repeats"
    )


def _drift(runs: Sequence[Measurement]) -> str | None:
    drifts = [drift for run in runs if (drift := _run_drift(run)) is not None]
    drifting = [drift for drift in drifts if abs(drift) > DRIFT_FRACTION]
    if not drifting:
        return None
    worst = max(drifting, key=abs)
    return (
        f"{len(drifting)} of {len(drifts)} runs drift: their last quarter of blocks is "
        f"up to {abs(worst):.1%} {'slower' if worst > 0 else 'faster'} than the first; "
        "warm up for longer, and look for throttling or a growing queue"
    )


def _run_drift(run: Measurement) -> float | None:
    """Returns last quarter over first quarter - 1; None with fewer than four blocks.

    The low median, because in a quarter of two blocks one may be an outlier.
    """
    times = step_times_s(run)
    quarter = len(times) // 4
    if not quarter or (first := statistics.median_low(times[:quarter])) <= 0:
        return None
    return statistics.median_low(times[-quarter:]) / first - 1


def _warm_up(runs: Sequence[Measurement]) -> str | None:
    fractions = [
        sum(run.warm_up_s) / sum(max(block.elapsed_s) for block in run.blocks)
        for run in runs
    ]
    if max(fractions) <= WARM_UP_FRACTION:
        return None
    return (
        f"warm-up took up to {max(fractions):.0%} of the timed window; time more or "
        "longer blocks, so that the window is what was paid for"
    )


def _outliers(runs: Sequence[Measurement]) -> str | None:
    excesses = [excess for run in runs for excess in _outlier_excesses(run)]
    if not excesses:
        return None
    blocks = sum(len(run.blocks) for run in runs)
    return (
        f"{len(excesses)} of {blocks} blocks are outliers, up to "
        f"{max(excesses):.1f} times their run's median; they are kept, the median "
        "bears them, but look for what disturbs the machine"
    )


def _outlier_excesses(run: Measurement) -> list[float]:
    """Returns outlier blocks of a run as multiples of its median step time."""
    times = step_times_s(run)
    median = statistics.median(times)
    # 1.4826 makes the median absolute deviation of a normal its standard deviation.
    deviation = 1.4826 * statistics.median(abs(time - median) for time in times)
    limit = median + max(OUTLIER_FRACTION * median, OUTLIER_DEVIATIONS * deviation)
    return [time / median for time in times if time > limit]


_CHECKS: tuple[Callable[[Sequence[Measurement]], str | None], ...] = (
    _above_peak,
    _few_runs,
    _spread,
    _drift,
    _warm_up,
    _outliers,
)
