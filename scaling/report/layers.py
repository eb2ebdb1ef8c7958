"""Layers: the parts of a chart, each drawn in the language of `marks.py`."""

import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

import altair as alt

from scaling.measurement import Provenance
from scaling.report.marks import CROSS
from scaling.report.marks import FAILURE
from scaling.report.marks import LOOKS
from scaling.report.marks import MUTED
from scaling.report.marks import PAPER
from scaling.report.marks import SWATCHES
from scaling.report.panels import Mark
from scaling.report.panels import Panel
from scaling.report.scales import Domain

Row = Mapping[str, float | str | None]
WIDTH = 400
HEIGHT = 220
"""Of a plot, in pixels; the page scales it to its column."""
NOTE_HEIGHT = 15
POINT_SIZE = 45
CAP_SIZE = 9
DODGE = 6
"""Pixels sideways between series, so that intervals at one count do not overlap."""
BANDED: tuple[Provenance, ...] = ("analytic", "compiled")
"""Provenances whose low and high bound a prediction: an area, not error bars."""


X = alt.X("x:Q")
Y = alt.Y("y:Q")
WORDS = alt.Description("words:N")
"""Channels as objects: altair takes 13 ms to find out what a short text means."""


def chart(rows: Iterable[Row]) -> alt.Chart:
    """Returns an empty chart over `rows`, which travel inside it."""
    return alt.Chart(alt.Data(values=[dict(row) for row in rows]))


def series_layers(panel: Panel, x: Domain) -> Iterator[alt.Chart]:
    """Yields intervals, line and points of each series and provenance."""
    lines: dict[tuple[int, Provenance], list[Mark]] = {}
    for mark in sorted(panel.marks, key=lambda each: each.x):
        if mark.y is not None:
            lines.setdefault((mark.series, mark.provenance), []).append(mark)
    for (series, provenance), marks in lines.items():
        offset = _offset(panel, series, x)
        yield from _bounds(marks, series, provenance, offset)
        yield _line(marks, series, provenance, offset)
        yield _points(marks, series, provenance, offset)


def failure_layers(panel: Panel, x: Domain) -> Iterator[alt.Chart]:
    """Yields a cross on the floor of the plot for each point without a number."""
    statuses: dict[float, dict[str, None]] = {}
    for mark in panel.marks:
        if mark.y is None:
            statuses.setdefault(mark.x, {})[mark.status] = None
            yield (
                chart([{"x": mark.x, "words": mark.text}])
                .mark_point(
                    shape=CROSS,
                    size=POINT_SIZE,
                    stroke=SWATCHES[mark.series].light,
                    strokeWidth=2,
                    opacity=1,
                    xOffset=_offset(panel, mark.series, x),
                )
                .encode(X, alt.YValue(HEIGHT - 8), WORDS)
            )
    words = [{"x": at, "text": ", ".join(found)} for at, found in statuses.items()]
    if words:
        yield (
            chart(words)
            .mark_text(angle=270, align="left", color=FAILURE, fontSize=11, aria=False)
            .encode(X, alt.YValue(HEIGHT - 20), alt.Text("text:N"))
        )


def reference_layers(panel: Panel, x: Domain, y: Domain) -> Iterator[alt.Chart]:
    """Yields ideal scaling from each baseline, and the threshold."""
    for devices, tokens_per_s in panel.starts:
        # Ends in the plot: a clipped line makes the PNG twice as slow.
        ends = (devices, min(x[1], devices * y[1] / tokens_per_s))
        yield _muted_line([{"x": n, "y": tokens_per_s * n / devices} for n in ends])
    if panel.threshold is not None:
        yield _muted_line([{"x": each, "y": panel.threshold} for each in x])
        words = chart([{"x": x[0], "y": panel.threshold}]).mark_text(
            text=f"threshold {panel.threshold:g}",
            color=MUTED,
            fontSize=11,
            align="left",
            dx=4,
            dy=9,
            aria=False,
        )
        yield words.encode(X, Y)


def note_layers(panel: Panel, x: Domain) -> Iterator[alt.Chart]:
    """Yields a flag from the top of the plot for each note, one below the other.

    Its pole ends at the point that it is about; several series share one in grey.
    """
    for row, note in enumerate(panel.notes):
        alone = len(note.series) == 1
        colour = SWATCHES[note.series[0]].light if alone else MUTED
        left = math.log(note.x / x[0]) > math.log(x[1] / x[0]) / 2
        top = 8 + NOTE_HEIGHT * row
        yield (
            chart([{"x": note.x, "y": note.y}])
            .mark_rule(
                color=colour,
                strokeDash=[2, 2],
                strokeWidth=1.2,
                xOffset=_offset(panel, note.series[0], x) if alone else 0,
                aria=False,
            )
            .encode(X, Y, alt.Y2Value(top))
        )
        yield (
            chart([{"x": note.x}])
            .mark_text(
                text=note.text,
                color=colour,
                fontSize=11,
                fontWeight="bold",
                align="right" if left else "left",
                dx=-9 if left else 9,
                aria=False,
            )
            .encode(X, alt.YValue(top))
        )


def nothing_layer() -> alt.Chart:
    """Returns the words of an empty panel: absence is said, not left to be guessed."""
    return (
        chart([{}])
        .mark_text(text="no points", color=MUTED, fontSize=13, aria=False)
        .encode(alt.XValue(WIDTH / 2), alt.YValue(HEIGHT / 2))
    )


def _offset(panel: Panel, series: int, x: Domain) -> float:
    """Returns the pixels sideways of a series, symmetric over those in the panel.

    Together they take a third of the way to the double at most, so that every mark is
    nearest to its own tick.
    """
    numbers = sorted({mark.series for mark in panel.marks})
    octave = WIDTH / math.log2(x[1] / x[0])
    step = min(DODGE, octave / 3 / len(numbers))
    return step * (numbers.index(series) - (len(numbers) - 1) / 2)


def _bounds(
    marks: list[Mark], series: int, provenance: Provenance, offset: float
) -> Iterator[alt.Chart]:
    """Yields the intervals of a series: error bars with caps, or an area."""
    rows = [
        {"x": mark.x, "low": mark.low, "high": mark.high}
        for mark in marks
        if mark.low is not None and mark.high is not None
    ]
    colour = SWATCHES[series].light
    low, high = alt.Y("low:Q"), alt.Y2("high:Q")
    if rows and provenance in BANDED:
        area = chart(rows).mark_area(color=colour, opacity=0.14, aria=False)
        yield area.encode(X, low, high)
    elif rows:
        rule = chart(rows).mark_rule(
            color=colour, strokeWidth=1.6, xOffset=offset, aria=False
        )
        yield rule.encode(X, low, high)
        caps = [
            {"x": row["x"], "y": row[end]} for row in rows for end in ("low", "high")
        ]
        cap = chart(caps).mark_tick(
            color=colour,
            orient="horizontal",
            size=CAP_SIZE,
            thickness=1.6,
            xOffset=offset,
            aria=False,
        )
        yield cap.encode(X, Y)


def _line(
    marks: list[Mark], series: int, provenance: Provenance, offset: float
) -> alt.Chart:
    return (
        chart({"x": mark.x, "y": mark.y} for mark in marks)
        .mark_line(
            color=SWATCHES[series].light,
            strokeWidth=1.8,
            strokeDash=list(LOOKS[provenance].dash) or [1, 0],
            xOffset=offset,
            aria=False,
        )
        .encode(X, Y)
    )


def _points(
    marks: list[Mark], series: int, provenance: Provenance, offset: float
) -> alt.Chart:
    swatch = SWATCHES[series]
    return (
        chart({"x": mark.x, "y": mark.y, "words": mark.text} for mark in marks)
        .mark_point(
            shape=swatch.path,
            size=POINT_SIZE,
            fill=swatch.light if LOOKS[provenance].filled else PAPER,
            stroke=swatch.light,
            strokeWidth=1.6,
            opacity=1,
            xOffset=offset,
        )
        .encode(X, Y, WORDS)
    )


def _muted_line(rows: list[dict[str, float]]) -> alt.Chart:
    line = chart(rows).mark_line(color=MUTED, strokeWidth=1, aria=False)
    return line.encode(X, Y)
