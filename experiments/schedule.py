"""Schedule: which points still need runs, in which order, and which need none.

Repeats are interleaved over the points in rounds, each shuffled, so that a machine
that slows down during a sweep slows all points and not the last ones.
"""

import random
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from scaling.measurement import Measurement
from scaling.measurement import Status
from scaling.point import Point

REPEATED: frozenset[Status] = frozenset({"ok", "crash"})
"""After any other final status a point has no further runs: the next would end the
same way, and a hang or a timeout would take its full limit again."""

SHOWN_IDS = 6
"""Points that a message names of those to choose from."""


class Turn(NamedTuple):
    """One run that is due: the point, and which of its repeats this is."""

    point: Point
    repeat: int


def runs_due(done: Sequence[Measurement], repeats: int) -> int:
    """Returns how many more runs a point needs after those in `done`."""
    if done and done[-1].status not in REPEATED:
        return 0
    return max(0, repeats - len(done))


def rounds(due: Mapping[Point, int], *, seed: str) -> list[Turn]:
    """Returns every turn that is due: round after round, each shuffled by `seed`."""
    turns: list[Turn] = []
    for repeat in range(max(due.values(), default=0)):
        points = [point for point, number in due.items() if number > repeat]
        random.Random(f"{seed}/{repeat}").shuffle(points)
        turns += [Turn(point, repeat) for point in points]
    return turns


def dominating(point: Point, exhausted: Iterable[Point]) -> Point | None:
    """Returns a point that ran out of memory and differs only by a smaller batch.

    Whether a batch is held in all or per device changes nothing in the step itself.
    """
    for other in exhausted:
        if other.global_batch_size < point.global_batch_size:
            alike = {
                "global_batch_size": point.global_batch_size,
                "regime": point.regime,
            }
            if other.model_copy(update=alike) == point:
                return other
    return None


def selected(points: Sequence[Point], only: Iterable[str]) -> tuple[Point, ...]:
    """Returns the points whose id starts with one of `only`; all if that is empty.

    Raises ValueError for a text with which no id starts.
    """
    wanted = tuple(only)
    for text in wanted:
        if not text or not any(point.id.startswith(text) for point in points):
            raise ValueError(
                f"no point has the id {text!r}; choose from {_listed(points)}"
            )
    if not wanted:
        return tuple(points)
    return tuple(point for point in points if point.id.startswith(wanted))


def _listed(points: Sequence[Point]) -> str:
    """Returns ids with what they are, of many points the first."""
    shown = ", ".join(
        f"{point.id[:8]} ({point.mesh}, batch {point.global_batch_size})"
        for point in points[:SHOWN_IDS]
    )
    more = len(points) - SHOWN_IDS
    return shown if more <= 0 else f"{shown} and {more} more, which --json lists"
