"""Stability: what in the runs of a point makes its figures doubtful.

As in pyperf each is a symptom with its number, then the cure. No sample is ever
dropped: these sentences stand beside the figures.
"""

import statistics
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scaling import quantity
from scaling.intervals import pool
from scaling.measurement import Measurement
from scaling.samples import LONG_WARM_UP_FRACTION
from scaling.samples import PointRuns
from scaling.samples import run_statistic
from scaling.samples import step_times_s
from scaling.samples import usable
from scaling.samples import warm_up_fraction
from scaling.utilisation import implied_mfu

FEW_RUNS = 3
"""Fewer leave the interval to the other points of the curve, or leave none."""
SPREAD_FRACTION = 0.05
DRIFT_FRACTION = 0.05
OUTLIER_FRACTION = 0.10
OUTLIER_DEVIATIONS = 4.0
"""An outlier block is beyond both: this part of the run's median above it, and this
many standard deviations as the median absolute deviation estimates them."""


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """One doubtful thing about the figures of one point."""

    kind: str
    """What it has in common with those of other points, as a plural."""
    point: str
    """Names the point."""
    severity: float
    """Larger is worse; to be compared within one kind only."""
    says: str

    def __str__(self):
        return f"{self.point}: {self.says}"


class _Found(NamedTuple):
    """What a check has found: how bad it is, and the sentence."""

    severity: float
    says: str


class _Timed(NamedTuple):
    """A usable run with its step times, which are worked out once for all checks."""

    run: Measurement
    times_s: list[float]


def symptoms(points: Iterable[PointRuns]) -> tuple[Symptom, ...]:
    """Returns every doubtful thing about the points with figures, the gravest first.

    Runs that gave no sample are not looked at: they have no part in the figures.
    """
    found = [each for runs in points if runs.samples for each in _of_point(runs)]
    kinds = list(_CHECKS)
    return tuple(sorted(found, key=lambda e: (kinds.index(e.kind), -e.severity)))


def summed_up(
    found: Iterable[Symptom], *, most: int | None, num_points: int | None = None
) -> tuple[str, ...]:
    """Returns the symptoms as sentences, of each kind the first `most`.

    After those stands how many more points have that kind; None leaves none out. What
    all `num_points` have is one sentence, with the worst of them.
    """
    by_kind: dict[str, list[Symptom]] = {}
    for each in found:
        by_kind.setdefault(each.kind, []).append(each)
    lines: list[str] = []
    for kind, members in by_kind.items():
        if most is not None and len(members) == num_points and len(members) > 1:
            lines.append(f"{kind} at all {len(members)} points; worst {members[0]}")
            continue
        lines += map(str, members[:most])
        if most is not None and len(members) > most:
            others = quantity.counted(len(members) - most, "more point")
            lines.append(f"{kind} at {others}")
    return tuple(lines)


def _of_point(runs: PointRuns) -> Iterator[Symptom]:
    timed = [_Timed(run, step_times_s(run)) for run in runs.runs if usable(run)]
    for kind, check in _CHECKS.items():
        if found := check(timed):
            yield Symptom(kind=kind, point=_name(runs), **found._asdict())


def _name(runs: PointRuns) -> str:
    point = runs.point
    regime = ", weak" if point.regime == "weak" else ""
    return (
        f"{point.model} on {point.chip}, mesh {point.mesh}, "
        f"batch {point.global_batch_size}{regime} ({runs.point_id})"
    )


def _above_peak(runs: Sequence[_Timed]) -> _Found | None:
    times_s = [time_s for each in runs for time_s in each.times_s if time_s > 0]
    at_1_s = implied_mfu(runs[0].run.point, 1.0)
    # The MFU of a step of 1 s is also the time that a step takes at the peak.
    above = [time_s for time_s in times_s if at_1_s is not None and time_s < at_1_s]
    if at_1_s is None or not above:
        return None
    worst = at_1_s / min(above)
    return _Found(
        worst,
        f"{len(above)} of {len(times_s)} blocks imply up to {worst:.2f} times "
        "the peak FLOP/s of the chip, which is impossible; check the chip, the dtype "
        "and that the timed window waits for the last step",
    )


def _few_runs(runs: Sequence[_Timed]) -> _Found | None:
    if len(runs) >= FEW_RUNS:
        return None
    number = "1 run has" if len(runs) == 1 else f"{len(runs)} runs have"
    consequence = "no interval" if len(runs) == 1 else "a wide interval"
    return _Found(-len(runs), f"{number} {consequence}; repeat with --repeats 5")


def _spread(runs: Sequence[_Timed]) -> _Found | None:
    spread = pool([[run_statistic(each.run) for each in runs]]).sd
    if spread is None or spread <= SPREAD_FRACTION:
        return None
    return _Found(
        spread,
        f"the standard deviation over {len(runs)} runs is {spread:.1%} of the step "
        "time; end other work on the machine, or repeat with more --repeats",
    )


def _drift(runs: Sequence[_Timed]) -> _Found | None:
    found = (_run_drift(each.times_s) for each in runs)
    drifts = [drift for drift in found if drift is not None]
    drifting = [drift for drift in drifts if abs(drift) > DRIFT_FRACTION]
    if not drifting:
        return None
    worst = max(drifting, key=abs)
    return _Found(
        abs(worst),
        f"{len(drifting)} of {len(drifts)} runs drift: their last quarter of blocks is "
        f"up to {abs(worst):.1%} {'slower' if worst > 0 else 'faster'} than the first; "
        "warm up for longer, and look for throttling or a growing queue",
    )


def _run_drift(times_s: Sequence[float]) -> float | None:
    """Returns last quarter over first quarter - 1; None with fewer than four blocks.

    The low median, because in a quarter of two blocks one may be an outlier.
    """
    quarter = len(times_s) // 4
    if not quarter or (first := statistics.median_low(times_s[:quarter])) <= 0:
        return None
    return statistics.median_low(times_s[-quarter:]) / first - 1


def _warm_up(runs: Sequence[_Timed]) -> _Found | None:
    longest = max(warm_up_fraction(each.run) or 0.0 for each in runs)
    if longest <= LONG_WARM_UP_FRACTION:
        return None
    return _Found(
        longest,
        f"warm-up took up to {longest:.0%} of the timed window; time more or "
        "longer blocks, so that the window is what was paid for",
    )


def _outliers(runs: Sequence[_Timed]) -> _Found | None:
    excesses = [found for each in runs for found in _outlier_excesses(each.times_s)]
    if not excesses:
        return None
    blocks = sum(len(each.times_s) for each in runs)
    return _Found(
        max(excesses),
        f"{len(excesses)} of {blocks} blocks are outliers, up to "
        f"{max(excesses):.1f} times their run's median; they are kept, the median "
        "bears them, but look for what disturbs the machine",
    )


def _outlier_excesses(times_s: Sequence[float]) -> list[float]:
    """Returns outlier blocks of a run as multiples of its median step time."""
    median = statistics.median(times_s)
    # Most runs have none, and there may be ten thousand runs.
    if max(times_s) <= (1 + OUTLIER_FRACTION) * median:
        return []
    # 1.4826 makes the median absolute deviation of a normal its standard deviation.
    deviation = 1.4826 * statistics.median(abs(time - median) for time in times_s)
    limit = median + max(OUTLIER_FRACTION * median, OUTLIER_DEVIATIONS * deviation)
    return [time / median for time in times_s if time > limit]


_CHECKS: Mapping[str, Callable[[Sequence[_Timed]], _Found | None]] = {
    "blocks above the peak FLOP/s": _above_peak,
    "too few runs": _few_runs,
    "a wide spread over runs": _spread,
    "drift within runs": _drift,
    "a long warm-up": _warm_up,
    "outlier blocks": _outliers,
}
"""By the name of the kind of symptom, the gravest first."""
