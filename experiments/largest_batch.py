"""Largest batch: the most that fits each mesh and policy of a sweep, by compiling.

The closed form says where to begin; then the batch is doubled until it does not fit, or
halved until it does, and the gap between both is halved until it is closed.
"""

import dataclasses
from collections.abc import Callable

from experiments.compiled_rows import newest_runs
from experiments.summary import RunSummary
from experiments.sweep import Sweep
from meshes import hardware
from scaling.feasibility import why_infeasible
from scaling.measurement import Measurement
from scaling.point import Point
from scaling.predict import predict

_LARGEST_GUESS = 2**20


def largest_batches(
    sweep: Sweep, compile_sweep: Callable[[Sweep], RunSummary]
) -> tuple[Sweep, RunSummary]:
    """Returns the sweep of what was found, and what became of its points.

    Its points are, for each mesh and policy of `sweep`, the largest batch that fits and
    the smallest that does not, in multiples that the mesh and its accumulation divide.
    `compile_sweep` compiles what is not stored; all searches go on together.
    """
    alike = {_with_batch(point, 1): point for point in sweep.points}
    searches = [_Search(point) for point in alike.values()]
    while True:
        due = [point for each in searches if (point := each.next_point()) is not None]
        summary = compile_sweep(sweep.model_copy(update={"points": tuple(due)}))
        runs = newest_runs(summary)
        for search in searches:
            search.take(runs)
        if summary.interrupted_by is not None or all(each.done for each in searches):
            break
    shown = tuple(point for search in searches for point in search.found())
    statuses = {
        point.id: search.runs[point.id].status
        for search in searches
        for point in search.found()
    }
    return (
        sweep.model_copy(update={"points": shown}),
        dataclasses.replace(summary, statuses=statuses),
    )


def next_multiple(first: int, *, fits: int, refused: int | None) -> int | None:
    """Returns the multiple to try next, or None once nothing lies between.

    `fits` is the largest known to fit, 0 for none; `refused` the smallest known not to.
    """
    if refused is None:
        return 2 * fits if fits else first
    if refused - fits <= 1:
        return None
    return (fits + refused) // 2


class _Search:
    """One mesh and policy."""

    def __init__(self, point: Point):
        shares = point.mesh.size("data") * point.mesh.size("fsdp")
        self._point = point
        self._unit = shares * point.accumulation
        self._first = _guess(self._at)
        self._fits = 0
        self._refused: int | None = None
        self._stopped: Point | None = None
        """Where the search ended early: not known to fit, nor to be too large."""
        self.runs: dict[str, Measurement] = {}

    @property
    def done(self) -> bool:
        return self.next_point() is None

    def next_point(self) -> Point | None:
        if self._stopped is not None:
            return None
        multiple = next_multiple(self._first, fits=self._fits, refused=self._refused)
        return None if multiple is None else self._at(multiple)

    def take(self, runs: dict[str, Measurement]) -> None:
        """Takes in what became of the next point."""
        if (point := self.next_point()) is None:
            return
        if (run := runs.get(point.id)) is None:
            self._stopped = point
            return
        self.runs[point.id] = run
        multiple = point.global_batch_size // self._unit
        if run.status == "ok":
            self._fits = multiple
        elif run.status == "skipped" or run.phase == "compile":
            self._refused = multiple
        else:
            self._stopped = point

    def found(self) -> list[Point]:
        ends = [self._fits, self._refused]
        points = [*(self._at(each) for each in ends if each), self._stopped]
        return [point for point in points if point and point.id in self.runs]

    def _at(self, multiple: int) -> Point:
        return _with_batch(self._point, multiple * self._unit)


def _guess(at: Callable[[int], Point]) -> int:
    """Returns the largest multiple that fits by the closed form, at least one."""
    if why_infeasible(at(1)) is not None:
        return 1
    fits, refused = 0, None
    while multiple := next_multiple(1, fits=fits, refused=refused):
        point = at(multiple)
        fitting = predict(point, hardware.chip(point.chip)).fits
        if fitting and multiple < _LARGEST_GUESS:
            fits = multiple
        else:
            refused = multiple
    return max(1, fits)


def _with_batch(point: Point, batch: int) -> Point:
    return point.model_copy(update={"global_batch_size": batch})
