"""Load: where more work per device stops paying on one mesh, and where it ends.

A load is surely within a fraction of the best if it surely is of every other load.
Against each the bound is Dunnett's with that load as the control, so that a load
that is not within the fraction of the truly best is named in at most 10 % of curves.
Of predicted loads the bound against each other is the band of `scaling.predicted`.
"""

import math

from pydantic import BaseModel
from pydantic import ConfigDict

from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.intervals import Pooled
from scaling.intervals import comparison_half_widths
from scaling.measurement import Provenance
from scaling.predicted import Step
from scaling.predicted import efficiency


class Load(BaseModel):
    """The judgement over one load curve."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    chip: str
    mesh: str
    num_devices: int
    best_batch_size: int | None
    """Of the highest estimated throughput; None where nothing has figures."""
    saturation_batch_size: int | None
    """Smallest global batch whose throughput is surely `fraction` of the best; None
    where that is not sure of any, or a batch with figures has no bounds."""
    limit_batch_size: int | None
    """First batch that is out of memory; None if none is."""
    largest_batch_size: int | None
    """Of those with figures; None where none has."""
    bounded: bool
    """Whether two batches have figures, and each an interval or a band."""
    fraction: float
    provenance: Provenance = "measured"
    series: str = ""
    """Names the environment, as on the curve."""


def load(curve: Curve, *, fraction: float = 0.95) -> Load:
    """Returns where a load curve saturates.

    Raises ValueError for another kind of curve and for simulated devices, whose
    throughput says nothing about real ones.
    """
    if curve.kind != "load" or curve.provenance == "simulated":
        raise ValueError(
            f"a {curve.provenance} {curve.kind} curve has no saturation; it takes a "
            "load curve of real devices"
        )
    measured = [point for point in curve.points if point.step_time_s is not None]
    best = max(measured, key=_log_throughput, default=None)
    full = [p for p in curve.points if p.status == "out_of_memory"]
    return Load(
        model=curve.model,
        chip=curve.chip,
        mesh=curve.points[0].mesh,
        num_devices=curve.points[0].num_devices,
        best_batch_size=best and best.global_batch_size,
        saturation_batch_size=_saturation(curve, measured, fraction),
        limit_batch_size=full[0].global_batch_size if full else None,
        largest_batch_size=measured[-1].global_batch_size if measured else None,
        bounded=_bounded(curve, measured),
        fraction=fraction,
        provenance=curve.provenance,
        series=curve.series,
    )


def _bounded(curve: Curve, measured: list[CurvePoint]) -> bool:
    if len(measured) < 2 or curve.provenance == "compiled":
        return len(measured) > 1
    repeated = all(point.num_runs > 1 for point in measured)
    return curve.run_noise_fraction is not None and repeated


def _saturation(
    curve: Curve, measured: list[CurvePoint], fraction: float
) -> int | None:
    if not _bounded(curve, measured):
        return None
    if curve.provenance == "compiled":
        margins = _predicted_margins(measured)
    else:
        margins = _measured_margins(curve, measured)
    for i, point in enumerate(measured):
        if all(low[i] >= fraction for low in margins):
            return point.global_batch_size
    return None


def _predicted_margins(points: list[CurvePoint]) -> list[list[float]]:
    """Returns the low bounds of every load's throughput over each other's."""
    steps = [_step(point) for point in points]
    return [[efficiency(step, control).low for step in steps] for control in steps]


def _step(point: CurvePoint) -> Step:
    middle_s = point.step_time_s or math.nan
    return Step(
        tokens_per_device=middle_s * (point.tokens_per_s or 0.0) / point.num_devices,
        low_s=point.step_time_low_s or math.nan,
        middle_s=middle_s,
        high_s=point.step_time_high_s or math.nan,
        exposed_s=point.exposed_s,
    )


def _measured_margins(curve: Curve, points: list[CurvePoint]) -> list[list[float]]:
    """Returns the low bounds of every load's throughput over each other's."""
    pooled = Pooled(
        means=tuple(map(_log_throughput, points)),
        counts=tuple(point.num_runs for point in points),
        sd=curve.run_noise_fraction,
        degrees_of_freedom=curve.degrees_of_freedom,
    )
    return [_low_ratios(pooled, control=control) for control in range(len(points))]


def _low_ratios(pooled: Pooled, *, control: int) -> list[float]:
    """Returns the low bounds of every mean's throughput over the control's."""
    halves = comparison_half_widths(pooled, control)
    return [
        math.exp(mean - pooled.means[control] - (half or 0.0))
        for mean, half in zip(pooled.means, halves, strict=True)
    ]


def _log_throughput(point: CurvePoint) -> float:
    """Returns the log of tokens per second, whose noise is that of the step time."""
    return math.log(point.tokens_per_s or math.nan)
