"""Comparison: the same points measured twice, before and after something changed.

The ratio is of throughput, second over first. Its interval comes from Student's t
with one variance pooled over all compared points of both sides, and holds for all of
them at once (Bonferroni), so that among many points that did not change one is named
in at most a tenth of comparisons.
"""

import math
import statistics
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict

from scaling.intervals import CONFIDENCE
from scaling.intervals import pool
from scaling.intervals import t_quantile
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Point
from scaling.point import Regime
from scaling.samples import PointRuns
from scaling.samples import pool_runs


class PointComparison(BaseModel):
    """One point on both sides; None where a side has too few runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    model: str
    chip: str
    mesh: str
    regime: Regime
    global_batch_size: int
    seq_len: int
    provenance: Provenance
    status_a: Status
    status_b: Status
    num_runs_a: int
    num_runs_b: int
    step_time_a_s: float | None
    step_time_b_s: float | None
    ratio: float | None
    """Throughput of B over that of A: above 1 where B is faster."""
    ratio_low: float | None
    ratio_high: float | None
    """90 % for all points at once; None unless both sides have two runs."""
    distinguishable: bool | None
    """Whether the interval excludes 1; None without one."""


class Unmatched(BaseModel):
    """One point that a side has without a counterpart of the same provenance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    side: Literal["A", "B"]
    id: str
    model: str
    chip: str
    mesh: str
    regime: Regime
    global_batch_size: int
    seq_len: int
    provenance: Provenance
    status: Status
    other_provenances: tuple[Provenance, ...]
    """How the other side has the same point, if it does: they are not compared."""


class Difference(BaseModel):
    """One thing that is not the same in the environments of both sides."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    a: tuple[str, ...]
    """Every value on this side."""
    b: tuple[str, ...]


class Comparison(BaseModel):
    """What two folders of results say about the same points."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    points: tuple[PointComparison, ...]
    only_in_a: tuple[str, ...]
    """Ids of points without a counterpart of the same provenance."""
    only_in_b: tuple[str, ...]
    unmatched: tuple[Unmatched, ...]
    """The same points with what they are, those of A first."""
    differences: tuple[Difference, ...]
    """Between the environments of the runs behind `points`."""


def compare(a: Iterable[Measurement], b: Iterable[Measurement]) -> Comparison:
    """Returns the points that both sides have, and what differs.

    They are in the order of what they are: model, chip, regime, size. Of each side and
    point only the runs of the newest environment count.
    """
    newest_a, newest_b = _newest(a), _newest(b)
    both = [key for key in newest_a if key in newest_b]
    alone = (*_unmatched("A", newest_a, newest_b), *_unmatched("B", newest_b, newest_a))
    pairs = [(newest_a[key], newest_b[key]) for key in both]
    return Comparison(
        points=_compared(pairs),
        only_in_a=tuple(each.id for each in alone if each.side == "A"),
        only_in_b=tuple(each.id for each in alone if each.side == "B"),
        unmatched=alone,
        # Of the compared runs alone: an older environment had no part in the ratios.
        differences=_differences(
            _environments(first for first, _ in pairs),
            _environments(second for _, second in pairs),
        ),
    )


_ByPoint = Mapping[tuple[str, Provenance], PointRuns]


def _newest(runs: Iterable[Measurement]) -> _ByPoint:
    """Returns the newest environment's runs of each point and provenance, in order."""
    found: dict[tuple[str, Provenance], PointRuns] = {}
    for each in sorted(pool_runs(runs), key=lambda each: each.newest):
        found[each.point_id, each.provenance] = each
    return dict(sorted(found.items(), key=lambda item: _order(item[1])))


def _order(runs: PointRuns) -> tuple[object, ...]:
    point = runs.point
    return (
        point.model,
        point.chip,
        point.seq_len,
        point.regime,
        runs.provenance,
        point.mesh.num_devices,
        point.mesh.num_slices,
        str(point.mesh),
        point.global_batch_size,
        runs.point_id,
    )


def _unmatched(
    side: Literal["A", "B"], mine: _ByPoint, others: _ByPoint
) -> tuple[Unmatched, ...]:
    provenances: dict[str, list[Provenance]] = {}
    for point_id, provenance in others:
        provenances.setdefault(point_id, []).append(provenance)
    return tuple(
        Unmatched(
            side=side,
            id=runs.point_id,
            model=runs.point.model,
            chip=runs.point.chip,
            mesh=str(runs.point.mesh),
            regime=runs.point.regime,
            global_batch_size=runs.point.global_batch_size,
            seq_len=runs.point.seq_len,
            provenance=runs.provenance,
            status=runs.status,
            other_provenances=tuple(provenances.get(runs.point_id, ())),
        )
        for key, runs in mine.items()
        if key not in others
    )


def _compared(
    pairs: Sequence[tuple[PointRuns, PointRuns]],
) -> tuple[PointComparison, ...]:
    timed = [pair for pair in pairs if pair[0].samples and pair[1].samples]
    pooled = pool([side.samples for pair in timed for side in pair])
    repeated = [pair for pair in timed if min(len(side.samples) for side in pair) > 1]
    factor = None
    if pooled.sd is not None and repeated:
        confidence = 1 - (1 - CONFIDENCE) / len(repeated)
        factor = pooled.sd * t_quantile(pooled.degrees_of_freedom, confidence)
    return tuple(_comparison(first, second, factor) for first, second in pairs)


def _comparison(
    first: PointRuns, second: PointRuns, factor: float | None
) -> PointComparison:
    """Returns one point; `factor` is t times the standard deviation of a run."""
    point: Point = first.point
    counts = len(first.samples), len(second.samples)
    ratio = low = high = None
    if all(counts):
        log_ratio = statistics.fmean(first.samples) - statistics.fmean(second.samples)
        ratio = math.exp(log_ratio)
        if factor is not None and min(counts) > 1:
            half = factor * math.sqrt(1 / counts[0] + 1 / counts[1])
            low, high = math.exp(log_ratio - half), math.exp(log_ratio + half)
    return PointComparison(
        id=first.point_id,
        model=point.model,
        chip=point.chip,
        mesh=str(point.mesh),
        regime=point.regime,
        global_batch_size=point.global_batch_size,
        seq_len=point.seq_len,
        provenance=first.provenance,
        status_a=first.status,
        status_b=second.status,
        num_runs_a=counts[0],
        num_runs_b=counts[1],
        step_time_a_s=_step_time_s(first),
        step_time_b_s=_step_time_s(second),
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        distinguishable=None if low is None or high is None else not low <= 1 <= high,
    )


def _step_time_s(runs: PointRuns) -> float | None:
    return math.exp(statistics.fmean(runs.samples)) if runs.samples else None


def _environments(chosen: Iterable[PointRuns]) -> list[Environment]:
    return [run.environment for each in chosen for run in each.runs]


def _differences(
    a: Iterable[Environment], b: Iterable[Environment]
) -> tuple[Difference, ...]:
    values_a, values_b = _values(a), _values(b)
    fields = sorted({*values_a, *values_b})
    return tuple(
        Difference(field=field, a=values_a.get(field, ()), b=values_b.get(field, ()))
        for field in fields
        if values_a.get(field) != values_b.get(field)
    )


def _values(environments: Iterable[Environment]) -> Mapping[str, tuple[str, ...]]:
    """Returns every value of each field; of a mapping's entries by `field.key`."""
    found: dict[str, set[str]] = {}
    different = {repr(environment): environment for environment in environments}
    for environment in different.values():
        for field, value in environment.model_dump(mode="json").items():
            entries = {field: value}
            if isinstance(value, dict):
                entries = {f"{field}.{key}": each for key, each in value.items()}
            for name, each in entries.items():
                found.setdefault(name, set()).add(str(each))
    return {name: tuple(sorted(values)) for name, values in found.items()}
