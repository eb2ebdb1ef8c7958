"""Summary: what a sweep came to, and how much of its time the harness itself took."""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field

from scaling.measurement import Measurement
from scaling.measurement import Status
from scaling.samples import LONG_WARM_UP_FRACTION
from scaling.samples import warm_up_fraction

PARTS: tuple[str, ...] = ("planning", "preparing data", "exits", "storing", "other")
"""Of the overhead. exits: end of the last timed block to the end of all processes;
other: between runs, whatever has no name."""

_UP_TO_TIMED = ("start", "devices", "data", "state", "compile", "warm_up", "timed")

_Interval = tuple[float, float]
"""Begin and end by `time.monotonic()`."""


@dataclass(frozen=True, kw_only=True)
class RunTime:
    """The part of one run that is no overhead: up to the end of its timed window."""

    useful_s: float
    """Spawn to the end of the last timed block; of a failed run all its time."""
    exit_s: float

    @classmethod
    def of(cls, run: Measurement, *, total_s: float) -> "RunTime":
        """Returns the split of a run that took `total_s` from spawn to last exit."""
        if "timed" not in run.phases_s:
            return cls(useful_s=total_s, exit_s=0.0)
        useful_s = sum(run.phases_s.get(name, 0.0) for name in _UP_TO_TIMED)
        return cls(useful_s=useful_s, exit_s=max(0.0, total_s - useful_s))


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """What one `scaling run` did."""

    sweep: str
    folder: str
    seed: str
    """Of the order of the runs."""
    statuses: dict[str, Status | None]
    """By point id: the status of its newest run that counts; None if it has none."""
    stored: dict[Status, int]
    """Runs stored by this command, by status."""
    wall_s: float
    useful_s: float
    """Time in which a run, or several, was on its way from just before its spawn to the
    end of its last timed block."""
    parts_s: dict[str, float]
    """The overhead by `PARTS`."""
    long_warm_ups: dict[str, float] = field(default_factory=dict)
    """By point id: longest warm-up over timed window, where above 0.3."""
    num_left: int = 0
    """Runs that are still due."""
    interrupted_by: int | None = None
    """The signal that ended the command early."""

    @property
    def overhead_s(self) -> float:
        """Wall time that was no run's own."""
        return self.wall_s - self.useful_s

    @property
    def overhead_fraction(self) -> float:
        """Overhead over wall time."""
        return self.overhead_s / self.wall_s if self.wall_s > 0 else 0.0

    def exit_code(self, *, strict: bool = False) -> int:
        """Returns what the command exits with: 128 + signal, 3 if strict, else 0."""
        if self.interrupted_by is not None:
            return 128 + self.interrupted_by
        not_ok = any(status != "ok" for status in self.statuses.values())
        return 3 if strict and not_ok else 0


class Account:
    """Adds up where the time of a sweep goes while it runs."""

    def __init__(self):
        self._started_s = time.monotonic()
        self._parts_s = dict.fromkeys(PARTS, 0.0)
        self._useful: list[_Interval] = []
        self._whole: list[_Interval] = []
        self.stored: Counter[Status] = Counter()
        self.long_warm_ups: dict[str, float] = {}

    @property
    def wall_s(self) -> float:
        """Time since the sweep began."""
        return time.monotonic() - self._started_s

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Counts the time of the block to one of `PARTS`, without parts within it."""
        began_s = time.monotonic()
        counted_s = sum(self._parts_s.values())
        try:
            yield
        finally:
            within_s = sum(self._parts_s.values()) - counted_s
            self._parts_s[name] += time.monotonic() - began_s - within_s

    def add_run(self, run: Measurement, *, spawned_at_s: float, total_s: float) -> None:
        """Counts a run that took `total_s` from just before spawn to its last exit."""
        split = RunTime.of(run, total_s=total_s)
        self._add(spawned_at_s, useful_s=split.useful_s, exit_s=split.exit_s)
        fraction = warm_up_fraction(run)
        if fraction is not None and fraction > LONG_WARM_UP_FRACTION:
            longest = max(fraction, self.long_warm_ups.get(run.id, 0.0))
            self.long_warm_ups[run.id] = longest

    def add_lost_run(self, *, spawned_at_s: float, total_s: float) -> None:
        """Counts a run that the interrupt of the runner has ended, as its own time."""
        self._add(spawned_at_s, useful_s=total_s, exit_s=0.0)

    def _add(self, spawned_at_s: float, *, useful_s: float, exit_s: float) -> None:
        useful_until_s = spawned_at_s + useful_s
        self._useful.append((spawned_at_s, useful_until_s))
        self._whole.append((spawned_at_s, useful_until_s + exit_s))

    def summary(
        self,
        *,
        sweep: str,
        folder: str,
        seed: str,
        statuses: dict[str, Status | None],
        num_left: int,
        interrupted_by: int | None,
    ) -> RunSummary:
        """Returns the summary of what has been counted until now."""
        wall_s = self.wall_s
        useful_s = _covered_s(self._useful)
        exits_s = _covered_s(self._whole) - useful_s
        parts_s = {**self._parts_s, "exits": exits_s}
        parts_s["other"] = max(0.0, wall_s - useful_s - sum(parts_s.values()))
        return RunSummary(
            sweep=sweep,
            folder=folder,
            seed=seed,
            statuses=statuses,
            stored=dict(self.stored),
            wall_s=wall_s,
            useful_s=useful_s,
            parts_s=parts_s,
            long_warm_ups=dict(self.long_warm_ups),
            num_left=num_left,
            interrupted_by=interrupted_by,
        )


def _covered_s(intervals: Iterable[_Interval]) -> float:
    """Returns the time that is in at least one of the intervals."""
    covered_s, until_s = 0.0, -math.inf
    for begin_s, end_s in sorted(intervals):
        covered_s += max(0.0, end_s - max(begin_s, until_s))
        until_s = max(until_s, end_s)
    return covered_s
