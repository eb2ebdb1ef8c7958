"""Layers: the parts of a chart, each drawn in the language of `marks.py`.

A layer holds all series; colour, fill and shape stand in its rows.
"""

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
LINE_WIDTH = 1.8
DODGE = 6
"""Pixels sideways between series, so that intervals at one count do not overlap."""
BANDED: tuple[Provenance, ...] = ("analytic", "compiled")
"""Provenances whose low and high bound a prediction: an area, not error bars."""

# Channels as objects: altair takes 13 ms to find out what a short text means.
X = alt.X("x:Q")
Y = alt.Y("y:Q")
LOW, HIGH = alt.Y("low:Q"), alt.Y2("high:Q")
COLOUR = alt.Color("colour:N", scale=None)
STROKE = alt.Stroke("colour:N", scale=None)
FILL = alt.Fill("fill:N", scale=None)
SHAPE = alt.Shape("shape:N", scale=None)
SERIES = alt.Detail("series:N")
WORDS = alt.Description("words:N")
TEXT = alt.Text("text:N")


def chart(rows: Iterable[Row]) -> alt.Chart:
    """Returns an empty chart over `rows`, which travel inside it."""
    return alt.Chart(alt.Data(values=[dict(row) for row in rows]))


def series_layers(panel: Panel, x: Domain) -> Iterator[alt.Chart]:
    """Yields the bands, intervals, lines and points of all series, in this order."""
    placed = sorted(
        (mark for mark in panel.marks if mark.y is not None), key=lambda each: each.x
    )
    rows = {mark: _row(panel, mark, x) for mark in placed}
    bounded = [
        mark for mark in placed if mark.low is not None and mark.high is not None
    ]
    if bands := [rows[mark] for mark in bounded if mark.provenance in BANDED]:
        area = chart(bands).mark_area(opacity=0.14, aria=False)
        yield area.encode(X, LOW, HIGH, COLOUR, SERIES)
    if bars := [rows[mark] for mark in bounded if mark.provenance not in BANDED]:
        yield from _error_bars(bars)
    lines: dict[Provenance, list[Row]] = {}
    for mark in placed:
        lines.setdefault(mark.provenance, []).append(rows[mark])
    for provenance, line in lines.items():
        yield _lines(line, provenance)
    if placed:
        points = chart(rows.values()).mark_point(
            size=POINT_SIZE, strokeWidth=1.6, opacity=1
        )
        yield points.encode(X, Y, STROKE, FILL, SHAPE, WORDS)


def failure_layers(panel: Panel, x: Domain) -> Iterator[alt.Chart]:
    """Yields a cross on the floor of the plot for each point without a number."""
    failed = [mark for mark in panel.marks if mark.y is None]
    if not failed:
        return
    crosses = chart(_row(panel, mark, x) for mark in failed).mark_point(
        shape=CROSS, size=POINT_SIZE, strokeWidth=2, opacity=1
    )
    yield crosses.encode(X, alt.YValue(HEIGHT - 8), STROKE, WORDS)
    statuses: dict[float, dict[str, None]] = {}
    for mark in failed:
        statuses.setdefault(mark.x, {})[mark.status] = None
    names = chart(
        {"x": at, "text": ", ".join(found)} for at, found in statuses.items()
    ).mark_text(angle=270, align="left", color=FAILURE, fontSize=11, aria=False)
    yield names.encode(X, alt.YValue(HEIGHT - 20), TEXT)


def reference_layers(panel: Panel, x: Domain, y: Domain) -> Iterator[alt.Chart]:
    """Yields ideal scaling from each baseline, and the threshold."""
    if panel.starts:
        yield _muted_lines(_ideal(panel, x, y))
    if panel.threshold is not None:
        yield _muted_lines({"x": at, "y": panel.threshold, "series": 0} for at in x)
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
        at = note.x * (_dodge(panel, note.series[0], x) if alone else 1)
        pole = chart([{"x": at, "y": note.y}]).mark_rule(
            color=colour, strokeDash=[2, 2], strokeWidth=1.2, aria=False
        )
        yield pole.encode(X, Y, alt.Y2Value(top))
        flag = chart([{"x": note.x}]).mark_text(
            text=note.text,
            color=colour,
            fontSize=11,
            fontWeight="bold",
            align="right" if left else "left",
            dx=-9 if left else 9,
            aria=False,
        )
        yield flag.encode(X, alt.YValue(top))


def nothing_layer() -> alt.Chart:
    """Returns the words of an empty panel: absence is said, not left to be guessed."""
    words = chart([{}]).mark_text(
        text="no points", color=MUTED, fontSize=13, aria=False
    )
    return words.encode(alt.XValue(WIDTH / 2), alt.YValue(HEIGHT / 2))


def _row(panel: Panel, mark: Mark, x: Domain) -> Row:
    """Returns a mark as a row: its place, its look, and its words."""
    swatch = SWATCHES[mark.series]
    return {
        "x": mark.x * _dodge(panel, mark.series, x),
        "y": mark.y,
        "low": mark.low,
        "high": mark.high,
        "series": mark.series,
        "colour": swatch.light,
        "fill": swatch.light if LOOKS[mark.provenance].filled else PAPER,
        "shape": swatch.path,
        "words": mark.text,
    }


def _dodge(panel: Panel, series: int, x: Domain) -> float:
    """Returns the factor by which a series stands sideways of the count it is about.

    Symmetric over the series of the panel. Together they take a third of the way to
    the double at most, so that every mark is nearest to its own tick.
    """
    numbers = sorted({mark.series for mark in panel.marks})
    octave = WIDTH / math.log2(x[1] / x[0])
    step = min(DODGE, octave / 3 / len(numbers))
    pixels = step * (numbers.index(series) - (len(numbers) - 1) / 2)
    return 2 ** (pixels / octave)


def _error_bars(rows: list[Row]) -> Iterator[alt.Chart]:
    bar = chart(rows).mark_rule(strokeWidth=1.6, aria=False)
    yield bar.encode(X, LOW, HIGH, COLOUR)
    ends = [{**row, "y": row[end]} for row in rows for end in ("low", "high")]
    cap = chart(ends).mark_tick(
        orient="horizontal", size=CAP_SIZE, thickness=1.6, opacity=1, aria=False
    )
    yield cap.encode(X, Y, COLOUR)


def _lines(rows: list[Row], provenance: Provenance) -> alt.Chart:
    line = chart(rows).mark_line(
        strokeWidth=LINE_WIDTH,
        strokeDash=list(LOOKS[provenance].dash) or [1, 0],
        aria=False,
    )
    return line.encode(X, Y, COLOUR, SERIES)


def _ideal(panel: Panel, x: Domain, y: Domain) -> Iterator[Row]:
    for number, (devices, tokens_per_s) in enumerate(panel.starts):
        # Ends in the plot: a clipped line makes the PNG twice as slow.
        for at in (devices, min(x[1], devices * y[1] / tokens_per_s)):
            yield {"x": at, "y": tokens_per_s * at / devices, "series": number}


def _muted_lines(rows: Iterable[Row]) -> alt.Chart:
    line = chart(rows).mark_line(color=MUTED, strokeWidth=1, aria=False)
    return line.encode(X, Y, SERIES)
