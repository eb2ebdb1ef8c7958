"""Figures: panels drawn with altair; the page and the picture files show the same.

Imported only when pictures are wanted: altair takes half a second to load.
"""

import altair as alt

from scaling.measurement import Provenance
from scaling.report import layers
from scaling.report import scales
from scaling.report.families import Series
from scaling.report.marks import GRID
from scaling.report.marks import INK
from scaling.report.marks import LOOKS
from scaling.report.marks import MUTED
from scaling.report.marks import PAPER
from scaling.report.marks import SWATCHES
from scaling.report.panels import Figure
from scaling.report.panels import Panel
from scaling.report.scales import Domain

Y_TITLES = {
    "throughput": "tokens/s, whole mesh",
    "efficiency": "efficiency per device",
    "step_time": "step time",
}
Y_LABELS = {
    "throughput": "format(datum.value, '~s')",
    "efficiency": "format(datum.value, '.1f')",
    "step_time": "format(datum.value, '~s') + 's'",
}
LEGEND_ROW = 20


def draw_panels(figure: Figure) -> tuple[tuple[alt.LayerChart, ...], ...]:
    """Returns one chart for each panel, each complete and with its own axes."""
    return tuple(
        tuple(_styled(_panel(figure, panel)) for panel in row) for row in figure.rows
    )


def draw_figure(figure: Figure) -> alt.VConcatChart:
    """Returns the panels in one picture, with title and legend."""
    rows = [
        alt.hconcat(*(_panel(figure, panel) for panel in row), spacing=30)
        for row in figure.rows
    ]
    family = figure.family
    title = alt.TitleParams(
        figure.title,
        subtitle=f"{family.model} on {family.chip}: {family.settings}",
        anchor="start",
        fontSize=16,
        subtitleColor=MUTED,
        offset=14,
    )
    picture = alt.vconcat(*rows, _legend(figure), spacing=24, title=title)
    return _styled(picture.properties(background=PAPER, padding=16))


def _panel(figure: Figure, panel: Panel) -> alt.LayerChart:
    x, y = scales.x_domain(figure), scales.y_domain(figure, panel)
    parts = [
        _axes(panel, x, y),
        *layers.reference_layers(panel, x, y),
        *layers.series_layers(panel),
        *layers.failure_layers(panel),
        *layers.note_layers(panel, x),
        *([] if panel.marks else [layers.nothing_layer()]),
    ]
    return alt.layer(*parts).properties(
        width=layers.WIDTH,
        height=layers.HEIGHT,
        title=alt.TitleParams(panel.title, anchor="start"),
    )


def _axes(panel: Panel, x: Domain, y: Domain) -> alt.Chart:
    """Returns an invisible mark that carries the axes, whatever data there are."""
    log = panel.logarithmic
    x_axis = alt.Axis(title=panel.x_title, values=scales.powers_of_two(x), format="d")
    y_axis = alt.Axis(
        title=Y_TITLES[panel.shown],
        labelExpr=Y_LABELS[panel.shown],
        values=scales.log_ticks(y) if log else alt.Undefined,
        grid=True,
    )
    x_scale = alt.Scale(type="log", base=2, domain=x, nice=False)
    y_scale = alt.Scale(type="log" if log else "linear", domain=y, nice=False)
    return (
        layers.chart([{"x": x[0], "y": y[1]}])
        .mark_point(opacity=0, aria=False)
        .encode(
            x=alt.X("x:Q", scale=x_scale, axis=x_axis),
            y=alt.Y("y:Q", scale=y_scale, axis=y_axis),
        )
    )


def _legend(figure: Figure) -> alt.LayerChart:
    rows = [
        part
        for number, (series, provenance) in enumerate(figure.legend)
        for part in _legend_row(series, provenance, LEGEND_ROW * number + 10)
    ]
    return alt.layer(*rows).properties(
        width=2 * layers.WIDTH, height=LEGEND_ROW * len(figure.legend), view=alt.ViewConfig(stroke=None)
    )


def _legend_row(
    series: Series, provenance: Provenance, y: float
) -> tuple[alt.Chart, alt.Chart, alt.Chart]:
    look, swatch = LOOKS[provenance], SWATCHES[series.number]
    line = layers.chart([{}]).mark_rule(
        color=swatch.light, strokeWidth=1.8, strokeDash=list(look.dash) or [1, 0]
    )
    point = layers.chart([{}]).mark_point(
        shape=swatch.path,
        size=layers.POINT_SIZE,
        fill=swatch.light if look.filled else PAPER,
        stroke=swatch.light,
        opacity=1,
    )
    text = f"{series.label}, {provenance}: {look.meaning}"
    words = layers.chart([{}]).mark_text(text=text, align="left", color=INK)
    at = alt.value(y)
    return (
        line.encode(x=alt.value(0), x2=alt.value(36), y=at),
        point.encode(x=alt.value(18), y=at),
        words.encode(x=alt.value(46), y=at),
    )


def _styled(chart: alt.LayerChart) -> alt.LayerChart:
    return (
        chart.configure(font="sans-serif", background="transparent")
        .configure_axis(
            labelColor=MUTED,
            titleColor=MUTED,
            titleFontWeight="normal",
            labelFontSize=11,
            titleFontSize=11,
            domainColor=MUTED,
            tickColor=MUTED,
            gridColor=GRID,
        )
        .configure_axisX(grid=False)
        .configure_title(color=INK, fontSize=13, fontWeight=600)
        .configure_view(stroke=None)
    )
