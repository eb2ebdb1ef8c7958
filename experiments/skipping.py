"""Skipping: a batch that does not fit says the same of larger ones, and is audited.

The rule is right for a compiler that never uses less memory for more work. So of the
points it would skip a sample is run all the same, at least one of a sweep; if one fits,
the rule is given up and every point it had skipped is run.
"""

import random
from collections.abc import Sequence

from experiments.settled import Settled
from experiments.work import Verdict
from scaling.measurement import Status
from scaling.point import Point


class Skipping:
    """Which points of a sweep need no run, as one with a smaller batch did not fit."""

    def __init__(
        self,
        points: Sequence[Point],
        settled: Settled,
        *,
        audit_every: int | None,
        seed: str,
    ):
        """Takes one in how many skipped points is run all the same; None is none."""
        self._points = points
        self._settled = settled
        self._every = audit_every
        self._seed = seed
        self._audited: set[str] = set()

    def verdict(self, point: Point) -> Verdict | None:
        """Returns for the sake of which smaller batch a point is skipped, or None."""
        if (smaller := self._smaller(point)) is None:
            return None
        return Verdict(
            "skipped",
            f"dominated by {smaller.id}: out of memory at batch "
            f"{smaller.global_batch_size}",
        )

    def _smaller(self, point: Point) -> Point | None:
        found = self._settled.dominating(point)
        if found is None or self._every is None:
            return found
        drawn = random.Random(f"{self._seed}/{point.id}").randrange(self._every) == 0
        if drawn or point.id in self._audited or self.exception() is not None:
            return None
        return found

    def exception(self) -> tuple[Point, Point] | None:
        """Returns a point that fits and one with a smaller batch that does not."""
        for point in self._points:
            if self._status(point) == "ok":
                smaller = self._settled.dominating(point)
                if smaller is not None:
                    return point, smaller
        return None

    def audits(self) -> list[Point]:
        """Returns the skipped points that are to be run, once nothing else is due."""
        skipped = [
            point
            for point in self._points
            # Once a command: what is preempted again is the next one's.
            if self._status(point) == "skipped" and point.id not in self._audited
        ]
        if self._every is None or not skipped:
            return []
        if self.exception() is None:
            if any(self._was_audited(point) for point in self._points):
                return []
            skipped = [random.Random(self._seed).choice(skipped)]
        self._audited |= {point.id for point in skipped}
        return skipped

    def _was_audited(self, point: Point) -> bool:
        ran = any(run.processes for run in self._settled.of(point))
        return ran and self._settled.dominating(point) is not None

    def _status(self, point: Point) -> Status | None:
        runs = self._settled.of(point)
        return runs[-1].status if runs else None
