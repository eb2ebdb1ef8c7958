"""Scales: the domains and ticks that the panels of a figure share."""

import math
from collections.abc import Iterable
from collections.abc import Iterator

from scaling.report.panels import Figure
from scaling.report.panels import Mark
from scaling.report.panels import Panel

Domain = tuple[float, float]
X_MARGIN = 1.15
"""Factor left free at both ends, so that marks are not cut."""
Y_MARGIN = 1.2
EFFICIENCY_TOP = 1.12
NOTE_ROOM = 0.085
"""Of efficiency, for each row of notes above the curves."""
STEPS = (
    (1, 2, 5),
    (1, 2, 3, 5, 7),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.4, 2.8, 3.2, 3.6, 4, 4.5, 5, 6, 7, 8, 9),
)
"""Leading digits of ticks on a logarithmic axis, from sparse to dense; the densest are
at most `Y_MARGIN` apart, so that at least two lie in any domain with its margins."""


def x_domain(figure: Figure, like: Panel | None = None) -> Domain:
    """Returns the range of devices (or load) over all panels, with a margin.

    A column whose marks would fill less than half of it has a range of its own: all of
    the panels above and below `like`.
    """
    shared = _reach(_marks(figure))
    own = _reach(_column(figure, like)) if like is not None else shared
    return own if 2 * _octaves(own) < _octaves(shared) else shared


def y_domain(figure: Figure, like: Panel) -> Domain:
    """Returns the range over all panels that show what `like` shows.

    Linear ranges start at 0; efficiency reaches at least a little above 1.
    """
    ys = [y for mark in _marks(figure, like) for y in _values(mark)]
    if like.shown == "efficiency":
        rows = max(len(panel.notes) for row in figure.rows for panel in row)
        top = max((EFFICIENCY_TOP, *(y * 1.05 for y in ys)))
        return 0.0, top + NOTE_ROOM * rows
    if not ys:
        return (1.0, 10.0) if like.logarithmic else (0.0, 1.0)
    if like.logarithmic:
        return min(ys) / Y_MARGIN, max(ys) * Y_MARGIN
    return 0.0, max(ys) * 1.08


def powers_of_two(domain: Domain) -> list[int]:
    """Returns every power of two within `domain`."""
    low, high = domain
    first = math.ceil(math.log2(max(low, 1)))
    return [2**n for n in range(first, math.floor(math.log2(high)) + 1)]


def log_ticks(domain: Domain) -> list[float]:
    """Returns round numbers within `domain`, three or more where that is possible."""
    ticks: list[float] = []
    for steps in STEPS:
        ticks = list(_decades(domain, steps))
        if len(ticks) >= 3:
            break
    return ticks


def _decades(domain: Domain, steps: Iterable[float]) -> Iterator[float]:
    low, high = domain
    for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for step in steps:
            if low <= step * 10.0**exponent <= high:
                yield step * 10.0**exponent


def _reach(marks: Iterable[Mark]) -> Domain:
    """Returns the range of x with its margin, at least from one size to its double."""
    xs = [mark.x for mark in marks] or [1.0]
    return min(xs) / X_MARGIN, max(*xs, 2 * min(xs)) * X_MARGIN


def _octaves(domain: Domain) -> float:
    """Returns how often the range doubles, without its margins."""
    low, high = domain
    return math.log2(high / low / X_MARGIN**2)


def _column(figure: Figure, like: Panel) -> Iterator[Mark]:
    """Yields the marks of the panels above and below `like`; of all if it has none."""
    columns = (
        [mark for row in figure.rows for mark in row[column].marks]
        for column, panel in ((i, p) for row in figure.rows for i, p in enumerate(row))
        if panel is like
    )
    yield from next(columns, []) or _marks(figure)


def _marks(figure: Figure, like: Panel | None = None) -> Iterator[Mark]:
    for row in figure.rows:
        for panel in row:
            if like is None or panel.shown == like.shown:
                yield from panel.marks


def _values(mark: Mark) -> list[float]:
    return [y for y in (mark.y, mark.low, mark.high) if y is not None]
