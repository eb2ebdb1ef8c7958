"""Findings: everything a report says, worked out once from the measurements.

The page, the pictures, the tables, the JSON document and the terminal all read the
same Findings, so that they cannot disagree.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from scaling.breakdown import Breakdown
from scaling.breakdown import breakdown
from scaling.breakdown import verdict
from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.curve import curves
from scaling.measurement import Measurement
from scaling.point import Point


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Measurements with what follows from them."""

    measurements: tuple[Measurement, ...]
    problems: tuple[str, ...]
    """One line for each result file that could not be read."""
    curves: tuple[Curve, ...]
    breakdowns: tuple[Breakdown, ...]
    verdict: str
    threshold: float
    """Efficiency below which scaling does not pay."""

    @cached_property
    def points(self) -> Mapping[str, Point]:
        """Point by id."""
        return {each.id: each.point for each in self.measurements}

    @cached_property
    def newest(self) -> Mapping[str, Measurement]:
        """The newest run of each point, which decides its status, by point id."""
        in_order = sorted(self.measurements, key=lambda each: each.started_at)
        return {each.id: each for each in in_order}

    @cached_property
    def derived(self) -> Mapping[str, CurvePoint]:
        """What was derived for a point on the first curve that holds it, by id."""
        found: dict[str, CurvePoint] = {}
        for curve in self.curves:
            for point in curve.points:
                found.setdefault(point.id, point)
        return found


def find(
    measurements: Sequence[Measurement],
    *,
    problems: Iterable[str] = (),
    threshold: float = 0.8,
) -> Findings:
    """Returns the curves, judgements and verdict that the measurements support."""
    found = curves(measurements)
    judged = tuple(
        breakdown(curve, threshold=threshold)
        for curve in found
        if curve.kind == "scaling" and curve.provenance != "simulated"
    )
    return Findings(
        measurements=tuple(measurements),
        problems=tuple(problems),
        curves=found,
        breakdowns=judged,
        verdict=verdict(judged),
        threshold=threshold,
    )
