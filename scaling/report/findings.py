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
from scaling.breakdown import is_judged
from scaling.curve import Curve
from scaling.curve import curves
from scaling.measurement import Measurement
from scaling.measurement import Status
from scaling.point import Point
from scaling.report.families import Judged
from scaling.samples import PointRuns
from scaling.samples import in_time_order
from scaling.samples import pool_runs
from scaling.verdict import verdict


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Measurements with what follows from them."""

    measurements: tuple[Measurement, ...]
    """Oldest first."""
    problems: tuple[str, ...]
    """One line for each result file that could not be read."""
    judged: tuple[Judged, ...]
    """Every curve, with its judgement where it is one that is judged."""
    verdict: str
    threshold: float
    """Efficiency below which scaling does not pay."""

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """Every curve, those of the newest environment first."""
        return tuple(each.curve for each in self.judged)

    @cached_property
    def breakdowns(self) -> tuple[Breakdown, ...]:
        """The judgements, in the order of their curves."""
        return tuple(each.breakdown for each in self.judged if each.breakdown)

    @cached_property
    def points(self) -> Mapping[str, Point]:
        """Point by id."""
        return {each.id: each.point for each in self.measurements}

    @cached_property
    def runs(self) -> tuple[PointRuns, ...]:
        """The runs of each point that may be pooled."""
        return pool_runs(self.measurements)

    @cached_property
    def reasons(self) -> Mapping[tuple[str, Status], str | None]:
        """Reason of the newest run, by point id and status."""
        return {(each.id, each.status): each.reason for each in self.measurements}


def find(
    measurements: Sequence[Measurement],
    *,
    problems: Iterable[str] = (),
    threshold: float = 0.8,
) -> Findings:
    """Returns the curves, judgements and verdict that the measurements support."""
    found = curves(measurements)
    judged = tuple(
        Judged(
            curve=curve,
            breakdown=breakdown(curve, threshold=threshold)
            if is_judged(curve)
            else None,
        )
        for curve in found
    )
    sentence = verdict(
        [each.breakdown for each in judged if each.breakdown],
        curves=found,
        num_cores=_num_cores(measurements),
    )
    return Findings(
        measurements=tuple(in_time_order(measurements)),
        problems=tuple(problems),
        judged=judged,
        verdict=sentence,
        threshold=threshold,
    )


def _num_cores(measurements: Iterable[Measurement]) -> int | None:
    """Returns the cores of the machine that measured on CPU, the newest one."""
    on_cpu = [each for each in measurements if each.point.chip == "cpu"]
    newest = max(on_cpu, key=lambda each: each.started_at, default=None)
    return newest and newest.environment.num_cores
