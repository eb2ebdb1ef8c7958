"""Sections: the rows of the page's lists and tables, still without any markup."""

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from scaling import quantity
from scaling.breakdown import Breakdown
from scaling.breakdown import Outcome
from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.load import Load
from scaling.load import load
from scaling.measurement import Environment
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.report.families import Judged
from scaling.report.findings import Findings
from scaling.samples import PointRuns
from scaling.stability import summed_up

OUTCOMES: Mapping[Outcome, str] = {
    "breaks": "breaks",
    "none_in_range": "no break in range",
    "undecided": "undecided",
    "retrograde": "total throughput falls",
}
WORST_FIRST: tuple[Outcome, ...] = (
    "retrograde",
    "breaks",
    "undecided",
    "none_in_range",
)
_SENTENCE = re.compile(
    r"(?<=\.) (?=(?:\S+ (?:on|compiled for) \S+, )?(?:vertical|horizontal) \()", re.I
)
"""Between sentences of the verdict: each begins with its direction."""


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One claim of the verdict, with what it is about apart from what it says."""

    about: str
    says: str


@dataclass(frozen=True, kw_only=True)
class JudgedRow:
    """A curve and its judgement, with its largest point that has figures."""

    curve: Curve
    found: Breakdown
    largest: CurvePoint | None

    @property
    def lost(self) -> str:
        """What scaling lost of a step, with the bounds that its efficiency gives it.

        More than the whole throughput is no negative loss: nothing was lost, or at
        most what the bounds leave possible.
        """
        at = next(
            (p for p in self.curve.points if p.num_devices == _judged_at(self)), None
        )
        if at is None or self.found.lost_time_s is None:
            return quantity.NOT_MEASURED
        lost = quantity.seconds(self.found.lost_time_s)
        if None in (at.step_time_s, at.efficiency_low, at.efficiency_high):
            return lost if self.found.lost_time_s > 0 else "none"
        most = (at.step_time_s or 0.0) * (1 - (at.efficiency_low or 0.0))
        least = (at.step_time_s or 0.0) * (1 - (at.efficiency_high or 0.0))
        if self.found.lost_time_s <= 0:
            return f"none [at most {quantity.seconds(most)}]" if most > 0 else "none"
        low = quantity.seconds(least) if least > 0 else "none"
        return f"{lost} [{low} to {quantity.seconds(most)}]"

    @property
    def causes(self) -> tuple[str, ...]:
        """What the lost time goes to with its seconds, the largest first."""
        found = sorted((self.found.causes or {}).items(), key=lambda each: -each[1])
        return tuple(f"{cause} {quantity.seconds(s)}" for cause, s in found if s > 0)

    @property
    def start(self) -> str:
        """Mesh of the baseline, of the smallest point where there is none."""
        points = self.curve.points
        baselines = (p.mesh for p in points if p.id == self.curve.baseline_id)
        return next(baselines, points[0].mesh)

    @property
    def outcome(self) -> str:
        """The outcome in words."""
        return OUTCOMES[self.found.outcome]


@dataclass(frozen=True, kw_only=True)
class EnvironmentRow:
    """What a series of runs ran on."""

    series: str
    environment: Environment
    """Of the newest run that saw a device; of the newest if none did."""
    num_points: int
    newest: str
    """`started_at` of the newest run, whether it saw a device or not."""


def sentences(verdict: str) -> tuple[Sentence, ...]:
    """Returns the verdict sentence by sentence; `about` is empty if none is named."""
    parts = [part.partition(": ") for part in _SENTENCE.split(verdict)]
    return tuple(
        Sentence(about=about if says else "", says=says or about)
        for about, _, says in parts
    )


def judged_rows(judged: Iterable[Judged]) -> tuple[JudgedRow, ...]:
    """Returns the judged curves, those where scaling stops paying first."""
    rows = [
        JudgedRow(
            curve=each.curve,
            found=each.breakdown,
            largest=next(
                (
                    point
                    for point in reversed(each.curve.points)
                    if point.efficiency is not None
                ),
                None,
            ),
        )
        for each in judged
        if each.breakdown is not None
    ]
    return tuple(sorted(rows, key=lambda row: WORST_FIRST.index(row.found.outcome)))


def _judged_at(row: JudgedRow) -> int | None:
    """Returns the devices at which the lost time is: where it breaks, else the most."""
    return row.found.first_bad_devices or (row.largest and row.largest.num_devices)


def load_rows(curves: Iterable[Curve]) -> tuple[Load, ...]:
    """Returns where each load curve saturates and where it ends."""
    return tuple(
        load(curve)
        for curve in curves
        if curve.kind == "load" and curve.provenance != "simulated"
    )


def doubts(findings: Findings, *, most: int | None = None) -> tuple[str, ...]:
    """Returns what makes the results doubtful, each once: symptom, then cure.

    What is wrong with timings comes before what is odd about curves. Of points with
    the same kind of symptom the worst `most` are named and the others counted; what
    all points with figures have is said once.
    """
    curves = (warning for curve in findings.curves for warning in curve.warnings)
    timed = sum(1 for runs in findings.runs if runs.samples)
    found = summed_up(findings.symptoms, most=most, num_points=timed)
    return (*found, *dict.fromkeys(curves), *_unpriced(findings))


def _unpriced(findings: Findings) -> Iterator[str]:
    """Yields what no prediction knows the work of, with the number of points."""
    targets = Counter(
        target
        for runs in findings.runs
        if runs.prediction is not None
        for target in set(runs.prediction.unpriced)
    )
    for target, number in targets.items():
        yield (
            f"the FLOPs of the custom call {target!r} are not known, so the step times "
            f"of {quantity.counted(number, 'compiled point')} are too short"
        )


def counts(findings: Findings) -> tuple[tuple[Status, Provenance, int], ...]:
    """Returns how many points have each status, by provenance; `ok` first."""
    found: dict[tuple[Status, Provenance], int] = {}
    for runs in findings.runs:
        key = (runs.status, runs.provenance)
        found[key] = found.get(key, 0) + 1
    ordered = sorted(found, key=lambda key: (key[0] != "ok", -found[key]))
    return tuple((*key, found[key]) for key in ordered)


def environment_rows(findings: Findings) -> tuple[EnvironmentRow, ...]:
    """Returns every environment, the newest first."""
    grouped: dict[str, list[PointRuns]] = {}
    for runs in findings.runs:
        grouped.setdefault(runs.series, []).append(runs)
    rows = [
        EnvironmentRow(
            series=series,
            environment=_environment(members),
            num_points=len(members),
            newest=max(each.newest for each in members),
        )
        for series, members in grouped.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.newest, reverse=True))


def _environment(members: Iterable[PointRuns]) -> Environment:
    """Returns that of the newest run that saw a device, of the newest if none did."""
    runs = [run for each in members for run in each.runs]
    # A run that failed before it saw a device is pooled with those that did.
    seen = [run for run in runs if run.environment.device_kind is not None]
    newest = max(seen or runs, key=lambda run: (run.started_at, run.run))
    return newest.environment


def spreads(judged: Iterable[tuple[str, Judged]]) -> tuple[str, ...]:
    """Returns the run-to-run spread of each named curve that has one.

    It makes the intervals of a curve, so that a point has others on another curve.
    """
    return tuple(
        f"{name}{f' {each.curve.direction}' if each.curve.direction else ''} "
        f"{quantity.percent(each.curve.run_noise_fraction)} "
        f"({each.curve.degrees_of_freedom} degrees of freedom)"
        for name, each in judged
        if each.curve.run_noise_fraction is not None
    )


def interval(
    value: float | None, low: float | None, high: float | None
) -> tuple[str, str]:
    """Returns a step time and its 90 % interval as text; no interval is empty."""
    if low is None or high is None:
        return quantity.seconds(value), ""
    return quantity.seconds(
        value
    ), f"{quantity.seconds(low)} to {quantity.seconds(high)}"


def span(findings: Findings) -> str:
    """Returns the days on which the runs were started."""
    days: Sequence[str] = sorted(
        {each.started_at[:10] for each in findings.measurements}
    )
    if not days:
        return "no runs"
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def sweeps(findings: Findings) -> Iterator[str]:
    """Yields the name of each sweep once."""
    yield from dict.fromkeys(each.sweep for each in findings.measurements)
