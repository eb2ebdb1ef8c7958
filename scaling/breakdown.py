"""Breakdown: where a scaling curve stops paying, with what certainty.

All claims rest on the efficiency bounds of a curve, which hold for all of its points
at once; without bounds there is no claim.
"""

from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict

from scaling.causes import causes
from scaling.causes import first_cause
from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.curve import Direction
from scaling.measurement import Status
from scaling.point import Regime

Outcome = Literal["breaks", "none_in_range", "undecided", "retrograde"]

_NOT_TRIED: frozenset[Status] = frozenset({"invalid", "skipped"})
"""They neither hold nor break: no step was ever asked of the devices."""


class Breakdown(BaseModel):
    """The judgement over one scaling curve."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    direction: Direction
    regime: Regime
    growth: str
    model: str
    chip: str
    outcome: Outcome
    last_good_devices: int | None
    """Largest count up to which every low bound is at or above the threshold."""
    first_bad_devices: int | None
    """Smallest count whose high bound is below the threshold."""
    threshold: float
    first_cause: str | None = None
    """The one that takes most of the lost time; None where none is lost."""
    lost_time_s: float | None
    """At `first_bad_devices`, else at the largest count."""
    causes: dict[str, float] | None = None
    """Seconds by cause, summing to `lost_time_s`; None where they are not known."""
    ended_by: Status | None = None
    """Status of the next larger point that was tried, where the curve ends in it."""


def is_judged(curve: Curve) -> bool:
    """Returns whether `curve` has a breakdown: scaling, on devices that are real."""
    return curve.kind == "scaling" and curve.provenance != "simulated"


def breakdown(curve: Curve, *, threshold: float = 0.8) -> Breakdown:
    """Returns the judgement over a scaling curve.

    Raises ValueError for a curve that is not judged, and for a threshold outside
    (0, 1).
    """
    if not 0 < threshold < 1:
        raise ValueError(f"threshold {threshold} is not between 0 and 1")
    if not is_judged(curve) or curve.direction is None or curve.regime is None:
        raise ValueError(
            f"a {curve.provenance} {curve.kind} curve is shown, never judged; a "
            "breakdown takes a scaling curve of devices that are not simulated"
        )
    first_bad = _first_bad(curve, threshold)
    end = ending(curve)
    at = first_bad or _last_compared(curve)
    found = at and _causes(curve, at)
    return Breakdown(
        direction=curve.direction,
        regime=curve.regime,
        growth=curve.growth,
        model=curve.model,
        chip=curve.chip,
        outcome=_outcome(curve, threshold),
        last_good_devices=_last_good_devices(curve, threshold),
        first_bad_devices=first_bad and first_bad.num_devices,
        threshold=threshold,
        first_cause=first_cause(found) if found else None,
        lost_time_s=at and _lost_time_s(curve, at),
        causes=found,
        ended_by=end and end.status,
    )


def falls(curve: Curve) -> tuple[CurvePoint, CurvePoint] | None:
    """Returns the first two points between which total throughput surely falls.

    Sure because the bounds of both efficiencies hold together: the later point's
    highest throughput is below the earlier one's lowest.
    """
    bounded = [point for point in curve.points if point.efficiency_low is not None]
    for j, later in enumerate(bounded):
        for earlier in bounded[:j]:
            if _highest(later) < _lowest(earlier):
                return earlier, later
    return None


def ending(curve: Curve) -> CurvePoint | None:
    """Returns the failure that ends the curve; None where none does.

    That is the first point that was tried beyond the last with figures: one that was
    not tried says nothing about what the devices can do.
    """
    last = _last_compared(curve)
    after = curve.points[curve.points.index(last) + 1 :] if last else curve.points
    tried = (point for point in after if point.status not in _NOT_TRIED)
    end = next(tried, None)
    return end if end is not None and end.status != "ok" else None


def beginning(curve: Curve) -> CurvePoint | None:
    """Returns the largest point below the baseline whose memory is too small.

    None where there is none: then nothing is known of fewer devices.
    """
    first = next((p for p in curve.points if p.efficiency is not None), None)
    before = curve.points[: curve.points.index(first)] if first else ()
    full = (point for point in reversed(before) if point.status == "out_of_memory")
    return next(full, None)


def unsure(curve: Curve, threshold: float) -> tuple[CurvePoint, ...]:
    """Returns the points above the baseline that are on no side of it for sure."""
    return tuple(
        point
        for point in _in_range(curve)[1:]
        if not _good(point, threshold) and not _bad(point, threshold)
    )


def _outcome(curve: Curve, threshold: float) -> Outcome:
    if falls(curve):
        return "retrograde"
    if _first_bad(curve, threshold):
        return "breaks"
    grown = [p for p in _in_range(curve) if p.id != curve.baseline_id]
    if grown and all(_good(point, threshold) for point in _in_range(curve)):
        return "none_in_range"
    return "undecided"


def _last_good_devices(curve: Curve, threshold: float) -> int | None:
    last = None
    for point in _in_range(curve):
        if not _good(point, threshold):
            break
        last = point.num_devices
    return last


def _first_bad(curve: Curve, threshold: float) -> CurvePoint | None:
    return next((p for p in curve.points if _bad(p, threshold)), None)


def _good(point: CurvePoint, threshold: float) -> bool:
    return point.efficiency_low is not None and point.efficiency_low >= threshold


def _bad(point: CurvePoint, threshold: float) -> bool:
    return point.efficiency_high is not None and point.efficiency_high < threshold


def _in_range(curve: Curve) -> list[CurvePoint]:
    """Returns the points that were tried, from the baseline to the last with figures.

    A failure between points with figures stays in: what lies beyond it is not known
    to be good. One after all of them ends the curve instead.
    """
    tried = [point for point in curve.points if point.status not in _NOT_TRIED]
    figures = [i for i, point in enumerate(tried) if point.efficiency is not None]
    return tried[figures[0] : figures[-1] + 1] if figures else []


def _last_compared(curve: Curve) -> CurvePoint | None:
    return next((p for p in reversed(curve.points) if p.efficiency is not None), None)


def _lost_time_s(curve: Curve, point: CurvePoint) -> float | None:
    """Returns the part of a step that scaling lost; None at the baseline itself."""
    if point.id == curve.baseline_id:
        return None
    if point.step_time_s is None or point.efficiency is None:
        return None
    return point.step_time_s * (1 - point.efficiency)


def _causes(curve: Curve, point: CurvePoint) -> dict[str, float] | None:
    if point.id == curve.baseline_id:
        return None
    base = next(each for each in curve.points if each.id == curve.baseline_id)
    return causes(point, base)


def _lowest(point: CurvePoint) -> float:
    return (point.efficiency_low or 0.0) * point.num_devices


def _highest(point: CurvePoint) -> float:
    return (point.efficiency_high or 0.0) * point.num_devices
