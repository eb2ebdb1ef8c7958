"""Settled: the runs of a sweep's points that count today, and what follows."""

from collections.abc import Iterable
from collections.abc import Sequence

from experiments import schedule
from experiments.environment import what_differs
from experiments.work import Work
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Status
from scaling.point import Point
from scaling.quantity import counted
from scaling.samples import in_time_order


class Settled:
    """By point: the runs that need not be made again, oldest first."""

    def __init__(self, points: Sequence[Point], work: Work, today: Environment):
        self._points = points
        self._work = work
        self._today = work.comparable(today)
        self._runs: dict[str, list[Measurement]] = {point.id: [] for point in points}

    def take(self, stored: Iterable[Measurement], *, retry: Iterable[Status]) -> None:
        """Takes in the stored runs that count today, but those to be made again.

        They are of the same environment and provenance, and what was derived without a
        process is what is derived today.
        """
        dropped = {"preempted", *retry}
        newest: dict[str, Measurement] = {}
        for run in in_time_order(stored):
            if run.status in dropped or not self._counts(run):
                continue
            newest[run.id] = run
            if run.id in self._runs:
                self._runs[run.id].append(run)
        # Only now is known which points are out of memory; no selection hides them.
        others = [r.point for r in newest.values() if self._work.exhausts(r)]
        for point in self._points:
            if schedule.dominating(point, others) is None:
                runs = self._runs[point.id]
                self._runs[point.id] = [r for r in runs if r.status != "skipped"]

    def passed_over(self, stored: Iterable[Measurement]) -> list[str]:
        """Returns a sentence where stored runs do not count, being of another time."""
        others = [
            run
            for run in in_time_order(stored)
            if run.id in self._runs and not self._is_of_today(run)
        ]
        if not others:
            return []
        before = self._work.comparable(others[-1].environment)
        return [
            f"{counted(len(others), 'stored run')} of another environment "
            f"{'stays' if len(others) == 1 else 'stay'} and will not be pooled with "
            f"today's ({what_differs(before, self._today)})"
        ]

    def add(self, run: Measurement) -> None:
        """Takes in a run that was just stored."""
        if run.status != "preempted":
            self._runs[run.id].append(run)

    def of(self, point: Point) -> Sequence[Measurement]:
        """Returns the runs of a point."""
        return self._runs[point.id]

    def due(self, point: Point, repeats: int) -> int:
        """Returns how many more runs a point needs."""
        most = self._work.most_runs(point, repeats)
        return schedule.runs_due(self._runs[point.id], most)

    def dominating(self, point: Point) -> Point | None:
        """Returns a point with a smaller batch that ran out of memory, or None."""
        newest = [runs[-1] for runs in self._runs.values() if runs]
        exhausted = [run.point for run in newest if self._work.exhausts(run)]
        return schedule.dominating(point, exhausted)

    def statuses(self) -> dict[str, Status | None]:
        """Returns the status of each point's newest run by id; None if it has none."""
        return {
            id_: runs[-1].status if runs else None for id_, runs in self._runs.items()
        }

    def _counts(self, run: Measurement) -> bool:
        if run.provenance != self._work.provenance(run.point):
            return False
        if not self._is_of_today(run):
            return False
        # What was derived without a process holds no longer than what it was derived
        # from.
        derived = not run.processes and run.status in ("invalid", "out_of_memory")
        return not derived or self._work.verdict(run.point) == (run.status, run.reason)

    def _is_of_today(self, run: Measurement) -> bool:
        comparable = self._work.comparable(run.environment)
        return comparable.pooling_key == self._today.pooling_key
