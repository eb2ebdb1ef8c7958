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
from scaling.curve import pooled_curves
from scaling.measurement import Measurement
from scaling.point import Point
from scaling.report.families import Judged
from scaling.samples import PointKey
from scaling.samples import PointRuns
from scaling.samples import Predictions
from scaling.samples import in_time_order
from scaling.samples import pool_runs
from scaling.stability import Symptom
from scaling.stability import symptoms
from scaling.verdict import verdict


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Measurements with what follows from them."""

    measurements: tuple[Measurement, ...]
    """Oldest first."""
    runs: tuple[PointRuns, ...]
    """Those of each point that may be pooled."""
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
    def reasons(self) -> Mapping[PointKey, str | None]:
        """Why the runs of each point that may be pooled have the status they have."""
        return {each.key: each.reason for each in self.runs}

    @cached_property
    def symptoms(self) -> tuple[Symptom, ...]:
        """What in the runs of each point makes its figures doubtful."""
        return symptoms(self.runs)


def find(
    measurements: Sequence[Measurement],
    *,
    predictions: Predictions | None = None,
    problems: Iterable[str] = (),
    threshold: float = 0.8,
) -> Findings:
    """Returns the curves, judgements and verdict that the measurements support.

    Compiled runs have the figures that `predictions` gives them.
    """
    runs = pool_runs(measurements, predictions)
    found = pooled_curves(runs)
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
        runs=runs,
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
