"""Samples: what one run says, and which runs of a point may be pooled.

The run statistic is the log of the median block's step time, a block having taken as
long as its slowest process. The median ignores the odd disturbed block without any
block being dropped; the log makes ratios of step times differences.
"""

import dataclasses
import hashlib
import math
import statistics
from collections import defaultdict
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Point

if TYPE_CHECKING:
    from scaling.compiled import CompiledPrediction

LONG_WARM_UP_FRACTION = 0.3
"""A warm-up above this part of the timed window is longer than it should be."""

PointKey = tuple[str, Provenance, str]
"""Point id, provenance and series: what tells one `PointRuns` from another."""

Predictions = Mapping[tuple[str, str], "CompiledPrediction"]
"""What is expected of a step of each compiled run, by point id and run."""

_Blind = tuple[str, bool, str]
"""Chip, whether it was compiled for, and the series of a run that saw no device."""


@dataclass(frozen=True, kw_only=True)
class PointRuns:
    """The runs of one point in one environment and of one provenance."""

    point: Point
    point_id: str
    provenance: Provenance
    series: str
    """Names the environment: 8 hex digits of the hash of its pooling key."""
    status: Status
    """Of the newest run."""
    reason: str | None
    """Why that run has this status."""
    samples: tuple[float, ...]
    """Run statistics of the usable runs, oldest first; none unless status is `ok`."""
    newest: str
    """`started_at` of the newest run."""
    runs: tuple[Measurement, ...]
    """All of them, the ones that failed too, oldest first."""
    prediction: "CompiledPrediction | None" = None
    """Of the newest run, where it compiled and its program could be read."""

    @property
    def key(self) -> PointKey:
        """What tells these runs from all others."""
        return (self.point_id, self.provenance, self.series)


def step_times_s(measurement: Measurement) -> list[float]:
    """Returns seconds per step of every timed block; none where the run has none."""
    return [
        max(block.elapsed_s) / block.steps
        for block in measurement.blocks
        if block.elapsed_s
    ]


def usable(measurement: Measurement) -> bool:
    """Returns whether the run may speak about step time: it was timed, and cleanly."""
    return _statistic(measurement) is not None


def warm_up_fraction(measurement: Measurement) -> float | None:
    """Returns the steps before the timed window over it; None if none was timed."""
    timed_s = sum(max(block.elapsed_s, default=0.0) for block in measurement.blocks)
    return sum(measurement.warm_up_s) / timed_s if timed_s else None


def run_statistic(measurement: Measurement) -> float:
    """Returns the log of the median block's step time in seconds.

    Raises ValueError for a run that is not `usable`.
    """
    statistic = _statistic(measurement)
    if statistic is None:
        raise ValueError(
            f"run {measurement.run} of point {measurement.id} carries no sample: "
            f"status {measurement.status}, {len(measurement.blocks)} blocks, "
            f"{measurement.compilations_in_window} compilations in the timed window"
        )
    return statistic


def pool_runs(
    measurements: Iterable[Measurement], predictions: Predictions | None = None
) -> tuple[PointRuns, ...]:
    """Returns one entry for each point, provenance and environment measured.

    Runs are pooled over sweeps: the point says all that determines a step. The order
    of the measurements has no meaning; their start times do.
    """
    # A run file that was copied into two folders is still one run.
    runs = {(each.id, each.run): each for each in measurements}.values()
    groups: dict[tuple[str, Provenance], list[Measurement]] = defaultdict(list)
    for run in runs:
        groups[run.id, run.provenance].append(run)
    reached = _reached(runs)
    return tuple(
        _point_runs(point_id, series, pooled, predictions or {})
        for (point_id, _), group in sorted(groups.items())
        for series, pooled in sorted(_by_series(group, reached).items())
    )


def as_one(same: Sequence[PointRuns]) -> PointRuns:
    """Returns the runs of points that are one and the same program, as one point's.

    They share series and provenance. Point, id and status are those of the newest run.
    """
    if len(same) == 1:
        return same[0]
    runs = [run for each in same for run in each.runs]
    predictions = {
        (run.id, run.run): each.prediction
        for each in same
        for run in each.runs
        if each.prediction is not None
    }
    pooled = _point_runs(same[0].point_id, same[0].series, runs, predictions)
    return dataclasses.replace(pooled, point_id=pooled.point.id)


def in_time_order(runs: Iterable[Measurement]) -> list[Measurement]:
    """Returns the runs, oldest first; equal times in the order of the run's digits."""
    return sorted(runs, key=lambda each: (each.started_at, each.run))


def _point_runs(
    point_id: str, series: str, runs: Sequence[Measurement], predictions: Predictions
) -> PointRuns:
    ordered = in_time_order(runs)
    # A preempted run says nothing final about its point unless it is all there is.
    final = [run for run in ordered if run.status != "preempted"] or ordered
    status = final[-1].status
    found = [_statistic(run) for run in ordered] if status == "ok" else []
    return PointRuns(
        point=final[-1].point,
        point_id=point_id,
        provenance=final[-1].provenance,
        series=series,
        status=status,
        reason=final[-1].reason,
        samples=tuple(each for each in found if each is not None),
        newest=final[-1].started_at,
        runs=tuple(ordered),
        prediction=predictions.get((final[-1].id, final[-1].run)),
    )


def _statistic(measurement: Measurement) -> float | None:
    if measurement.status != "ok" or measurement.compilations_in_window != 0:
        return None
    median_s = statistics.median(step_times_s(measurement) or [0.0])
    return math.log(median_s) if median_s > 0 else None


def _by_series(
    runs: Iterable[Measurement], reached: Mapping[_Blind, set[str]]
) -> Mapping[str, list[Measurement]]:
    """Returns the runs by every series that each belongs to.

    A run that failed before it saw a device has no device kind. It belongs to every
    environment that agrees with it in all else: otherwise a point that always fails
    would stand apart from the curve that it ends.
    """
    result: dict[str, list[Measurement]] = defaultdict(list)
    for run in runs:
        own = _series(run.environment)
        blind = run.environment.device_kind is None
        key = (run.point.chip, run.provenance == "compiled", own)
        joined = reached.get(key) if blind else None
        for series in joined or {own}:
            result[series].append(run)
    return result


def _reached(measurements: Collection[Measurement]) -> Mapping[_Blind, set[str]]:
    """Returns the series in which a run of a chip reached its devices."""
    result: dict[_Blind, set[str]] = defaultdict(set)
    if all(each.environment.device_kind is not None for each in measurements):
        return result
    for each in measurements:
        environment = each.environment
        if environment.device_kind is not None:
            blind = _series(environment.model_copy(update={"device_kind": None}))
            # A chip that was compiled for is none that a run could have found.
            key = (each.point.chip, each.provenance == "compiled", blind)
            result[key].add(_series(environment))
    return result


def _series(environment: Environment) -> str:
    key = repr(environment.pooling_key)
    return hashlib.sha256(key.encode()).hexdigest()[:8]
