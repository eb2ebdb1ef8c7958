"""Curve: points that differ only in what grows, made from measurements.

Efficiency is throughput per device over that of the baseline, the smallest `ok` point
of the same curve. Its bounds hold for all points of the curve at once. The figures of
compiled points, and the band of their efficiency, are those of `scaling.predicted`.
"""

import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict

from scaling.growth import Direction
from scaling.growth import Members
from scaling.growth import load_members
from scaling.growth import scaling_members
from scaling.intervals import Pooled
from scaling.intervals import comparison_half_widths
from scaling.intervals import half_widths
from scaling.intervals import pool
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Regime
from scaling.predicted import NETWORKS
from scaling.predicted import Fields
from scaling.predicted import figures as predicted_figures
from scaling.samples import PointRuns
from scaling.samples import Predictions
from scaling.samples import pool_runs
from scaling.selection import Chosen
from scaling.selection import choose
from scaling.utilisation import mfu

CurveKind = Literal["scaling", "load", "chip"]

SUPER_LINEAR = 1.05
"""Above this efficiency the baseline is more likely slow than the point fast."""


class CurvePoint(BaseModel):
    """One point of a curve with what was derived from its runs; None: not measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    mesh: str
    num_devices: int
    num_slices: int
    global_batch_size: int
    num_runs: int
    """Runs behind the figures; 0 where there are none."""
    tokens_per_s: float | None
    """Of the whole mesh."""
    step_time_s: float | None
    step_time_low_s: float | None
    step_time_high_s: float | None
    """`low` and `high` bound a 90 % interval, None with a single run; of a prediction
    they are the ends of its band."""
    efficiency: float | None
    """None on a load curve, and where devices are simulated."""
    efficiency_low: float | None
    efficiency_high: float | None
    """90 % for all points of the curve at once, or the band of a prediction; both 1 at
    the baseline."""
    marginal_efficiency: float | None
    """Throughput ratio over device ratio to the previous point with figures."""
    mfu: float | None
    exposed_s: dict[str, float] | None = None
    """What a step waits for by cause, summing to its time; None unless compiled."""
    status: Status

    @property
    def exposed_fraction(self) -> float | None:
        """Part of the step that waits for a network; None unless compiled."""
        if self.exposed_s is None or not self.step_time_s:
            return None
        return sum(self.exposed_s[each] for each in NETWORKS) / self.step_time_s


class Curve(BaseModel):
    """Points over one growing quantity, in increasing order of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CurveKind
    direction: Direction | None
    """None for a load curve."""
    regime: Regime | None
    """None for a load curve: neither batch is held, and points of both are on it."""
    growth: str
    """`ici:AXIS`, `dcn:AXIS` or `best`; `batch` for a load curve."""
    model: str
    chip: str
    provenance: Provenance
    baseline_id: str | None
    points: tuple[CurvePoint, ...]
    series: str = ""
    """Names the environment all runs share (`scaling.samples.PointRuns.series`)."""
    run_noise_fraction: float | None = None
    """Standard deviation of the log step time over runs, pooled over the points."""
    degrees_of_freedom: int = 0
    """Of that deviation."""
    warnings: tuple[str, ...] = ()
    """What makes the curve doubtful: symptom with number, then cure."""


def curves(
    measurements: Iterable[Measurement], predictions: Predictions | None = None
) -> tuple[Curve, ...]:
    """Returns every scaling and load curve, those of the newest environment first.

    Runs of different environments or provenances never share a curve. A curve with
    one point appears only where devices are simulated, beside measured points it
    continues. Compiled runs have the figures that `predictions` gives them.
    """
    return pooled_curves(pool_runs(measurements, predictions))


def pooled_curves(runs: Sequence[PointRuns]) -> tuple[Curve, ...]:
    """Returns the curves of runs that are pooled already; see `curves`."""
    newest: dict[str, str] = {}
    for each in runs:
        newest[each.series] = max(newest.get(each.series, ""), each.newest)
    found = [
        curve
        for members in (*scaling_members(runs), *load_members(runs))
        for curve in _by_provenance(members)
    ]
    found.sort(key=_order)
    found.sort(key=lambda curve: (newest[curve.series], curve.series), reverse=True)
    return tuple(found)


def batch_text(curve: Curve) -> str:
    """Returns the batch that the curve holds fixed, in words."""
    first = curve.points[0]
    if curve.regime == "weak":
        return f"batch {first.global_batch_size / first.num_devices:g} per device"
    return f"global batch {first.global_batch_size}"


def _order(curve: Curve) -> tuple[object, ...]:
    first = curve.points[0]
    return (
        curve.kind != "scaling",
        curve.direction != "vertical",
        curve.model,
        curve.chip,
        curve.regime != "strong",
        curve.growth != "best",
        curve.growth,
        first.num_devices,
        first.mesh,
        curve.provenance,
        first.global_batch_size,
        [point.id for point in curve.points],
    )


def _by_provenance(members: Members) -> Iterator[Curve]:
    groups: dict[Provenance, list[PointRuns]] = {}
    for each in members.points:
        groups.setdefault(each.provenance, []).append(each)
    for provenance, points in groups.items():
        by_size: dict[int, list[PointRuns]] = {}
        for each in points:
            by_size.setdefault(_size(members, each), []).append(each)
        if len(by_size) > 1 or provenance == "simulated":
            yield _curve(members, by_size)


def _size(members: Members, runs: PointRuns) -> int:
    """Returns what grows along the curve: devices, or the batch of a load curve."""
    if members.direction is None:
        return runs.point.global_batch_size
    return runs.point.mesh.num_devices


def _curve(members: Members, by_size: Mapping[int, Sequence[PointRuns]]) -> Curve:
    chosen = tuple(choose(by_size[size]) for size in sorted(by_size))
    one = chosen[0].runs
    measured = [i for i, each in enumerate(chosen) if each.samples]
    pooled = pool([chosen[i].samples for i in measured])
    # Simulated devices share cores, so throughput per device says nothing there.
    compared = members.direction is not None and one.provenance != "simulated"
    if one.provenance == "compiled":
        found = _predicted(chosen, compared=compared)
    else:
        found = _measured(chosen, measured, pooled, compared=compared)
    points = tuple(map(_point, chosen, found))
    return Curve(
        kind="load" if members.direction is None else "scaling",
        direction=members.direction,
        regime=one.point.regime if members.direction is not None else None,
        growth=members.growth,
        model=one.point.model,
        chip=one.point.chip,
        provenance=one.provenance,
        baseline_id=next((p.id for p in points if p.efficiency is not None), None),
        points=points,
        series=one.series,
        run_noise_fraction=pooled.sd,
        degrees_of_freedom=pooled.degrees_of_freedom,
        warnings=tuple(_warnings(chosen, points)),
    )


def _point(chosen: Chosen, figures: Fields) -> CurvePoint:
    point = chosen.runs.point
    absent = dict.fromkeys(CurvePoint.model_fields)
    known = {
        "id": chosen.runs.point_id,
        "mesh": str(point.mesh),
        "num_devices": point.mesh.num_devices,
        "num_slices": point.mesh.num_slices,
        "global_batch_size": point.global_batch_size,
        "num_runs": len(chosen.samples),
        "status": chosen.runs.status,
    }
    return CurvePoint.model_validate({**absent, **known, **figures})


def _predicted(chosen: Sequence[Chosen], *, compared: bool) -> Sequence[Fields]:
    return predicted_figures(
        [(each.runs.point, each.runs.prediction) for each in chosen], compared=compared
    )


def _measured(
    chosen: Sequence[Chosen], measured: Sequence[int], pooled: Pooled, *, compared: bool
) -> Sequence[Fields]:
    """Returns what was measured of each point, nothing where that is nothing."""
    figures = dict(zip(measured, _figures(chosen, measured, pooled), strict=True))
    efficiencies = _efficiencies(chosen, measured, pooled) if compared else {}
    return [
        {**figures.get(i, {}), **efficiencies.get(i, {})} for i in range(len(chosen))
    ]


def _figures(
    chosen: Sequence[Chosen], measured: Sequence[int], pooled: Pooled
) -> Iterator[Fields]:
    """Yields step time with its own interval, throughput and MFU of measured points."""
    for i, mean, half in zip(measured, pooled.means, half_widths(pooled), strict=True):
        point = chosen[i].runs.point
        step_time_s = math.exp(mean)
        yield {
            "tokens_per_s": point.tokens_per_step / step_time_s,
            "step_time_s": step_time_s,
            "step_time_low_s": None if half is None else step_time_s * math.exp(-half),
            "step_time_high_s": None if half is None else step_time_s * math.exp(half),
            "mfu": mfu(point, step_time_s),
        }


def _efficiencies(
    chosen: Sequence[Chosen], measured: Sequence[int], pooled: Pooled
) -> Mapping[int, Fields]:
    """Returns efficiency over the first measured point, by position on the curve."""
    if not measured:
        return {}
    per_device = [
        math.log(_tokens_per_device(chosen[i])) - mean
        for i, mean in zip(measured, pooled.means, strict=True)
    ]
    result: dict[int, Fields] = {}
    for n, half in enumerate(comparison_half_widths(pooled, 0)):
        efficiency = math.exp(per_device[n] - per_device[0])
        result[measured[n]] = {
            "efficiency": efficiency,
            "efficiency_low": None if half is None else efficiency * math.exp(-half),
            "efficiency_high": None if half is None else efficiency * math.exp(half),
            "marginal_efficiency": math.exp(per_device[n] - per_device[n - 1])
            if n
            else None,
        }
    return result


def _tokens_per_device(chosen: Chosen) -> float:
    point = chosen.runs.point
    return point.tokens_per_step / point.mesh.num_devices


def _warnings(chosen: Sequence[Chosen], points: Sequence[CurvePoint]) -> Iterator[str]:
    """Yields what is odd about the curve; timings are doubted in `stability` alone."""
    baseline = next((p.mesh for p in points if p.efficiency is not None), None)
    for each, point in zip(chosen, points, strict=True):
        place = f"mesh {point.mesh}, batch {point.global_batch_size}"
        if each.warning:
            yield f"{place}: {each.warning}"
        if (point.efficiency or 0) > SUPER_LINEAR:
            compiled = each.runs.provenance == "compiled"
            look = "what its step waits for" if compiled else "its memory and noise"
            yield (
                f"{place}: efficiency {point.efficiency:.2f} is above 1, the baseline "
                f"{baseline} may be slow; check {look}, or start the curve at a larger "
                "point"
            )
