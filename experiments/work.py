"""Work: what is done with each point of a sweep, as far as its runs differ by it.

`experiments.measuring` and `experiments.compiling` are the two there are. The runner
takes turns, starts processes and stores what came of them, whichever it is.
"""

from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol

from experiments.execution import Setting
from experiments.places import Places
from experiments.protocol import Task
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Point


class Verdict(NamedTuple):
    """With which status, and why, no process is started for a point."""

    status: Status
    reason: str


class Work(Protocol):
    """What decides how a point is run, and which of its stored runs still count."""

    @property
    def task(self) -> Task:
        """What a worker is told to do."""
        ...

    @property
    def jobs(self) -> int:
        """How many runs go on at a time."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """How much of this host's memory a run may take; None limits nothing."""
        ...

    @property
    def audit_every(self) -> int | None:
        """One in how many points skipped for memory runs all the same; None is none."""
        ...

    def environment(self) -> Environment:
        """Returns that of every run, before a worker has said what it found."""
        ...

    def comparable(self, environment: Environment) -> Environment:
        """Returns what must be today's of the environment of a run that counts."""
        ...

    def provenance(self, point: Point) -> Provenance:
        """Returns what a run of the point is."""
        ...

    def verdict(self, point: Point) -> Verdict | None:
        """Returns why the point cannot run, or None."""
        ...

    def most_runs(self, point: Point, repeats: int) -> int:
        """Returns how many runs the point has where `repeats` are asked for."""
        ...

    def exhausts(self, run: Measurement) -> bool:
        """Returns whether larger batches run out of memory as this run did."""
        ...

    def cores_lent(self, points: Sequence[Point]) -> tuple[int, ...]:
        """Returns the cores on which no other runner may be meanwhile."""
        ...

    def cores(self, point: Point) -> tuple[tuple[int, ...], ...] | None:
        """Returns the cores of each process of a run; None confines none."""
        ...

    def notes(self, points: Sequence[Point]) -> list[str]:
        """Returns what to say before the first run."""
        ...

    def prepare(self, point: Point, setting: Setting) -> str | None:
        """Makes what a run reads; returns why that failed, or None."""
        ...

    def keep(self, run: Measurement, name: str, places: Places) -> Measurement:
        """Keeps what a run, by its logs called `name`, has made; returns its record."""
        ...
