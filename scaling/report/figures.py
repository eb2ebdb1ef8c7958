"""Figures: panels drawn with altair; the page and the picture files show the same.

Imported only when pictures are wanted: altair takes half a second to load.
"""

import altair as alt

from scaling.report import layers
from scaling.report import scales
from scaling.report.marks import GRID
from scaling.report.marks import INK
from scaling.report.marks import MUTED
from scaling.report.panels import Figure
from scaling.report.panels import Panel
from scaling.report.scales import Domain

Y_AXIS_WIDTH = 42
"""Room for labels in pixels, the same everywhere, so that plots align."""
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


def draw_panel(figure: Figure, panel: Panel) -> alt.LayerChart:
    """Returns one panel of `figure`; panels of one quantity share their scales."""
    x, y = scales.x_domain(figure, panel), scales.y_domain(figure, panel)
    parts = [
        _axes(panel, x, y),
        *layers.reference_layers(panel, x, y),
        *layers.series_layers(panel, x),
        *layers.failure_layers(panel, x),
        *layers.note_layers(panel, x),
        *([] if panel.marks else [layers.nothing_layer()]),
    ]
    title = alt.TitleParams(panel.title, subtitle=panel.subtitle, anchor="start")
    return alt.LayerChart(
        layer=parts,
        width=layers.WIDTH,
        height=layers.HEIGHT,
        title=title,
        config=_config(),
    )


def _axes(panel: Panel, x: Domain, y: Domain) -> alt.Chart:
    """Returns an invisible mark that carries the axes, whatever data there are."""
    log = panel.logarithmic
    x_axis = alt.Axis(title=panel.x_title, values=scales.powers_of_two(x), format="d")
    y_axis = alt.Axis(
        title=Y_TITLES[panel.shown] + (", logarithmic" if log else ""),
        labelExpr=Y_LABELS[panel.shown],
        values=scales.log_ticks(y) if log else alt.Undefined,
        grid=True,
        minExtent=Y_AXIS_WIDTH,
    )
    x_scale = alt.Scale(type="log", base=2, domain=x, nice=False)
    y_scale = alt.Scale(type="log" if log else "linear", domain=y, nice=False)
    return (
        layers.chart([{"x": x[0], "y": y[1]}])
        .mark_point(opacity=0, aria=False)
        .encode(
            alt.X("x:Q", scale=x_scale, axis=x_axis),
            alt.Y("y:Q", scale=y_scale, axis=y_axis),
        )
    )


def _config() -> alt.Config:
    """Returns the look of everything that carries no data."""
    axis = alt.AxisConfig(
        labelColor=MUTED,
        titleColor=MUTED,
        titleFontWeight="normal",
        labelFontSize=12,
        titleFontSize=12,
        domainColor=MUTED,
        tickColor=MUTED,
        gridColor=GRID,
    )
    return alt.Config(
        font="sans-serif",
        background="transparent",
        axis=axis,
        axisX=alt.AxisConfig(grid=False),
        title=alt.TitleConfig(
            color=INK,
            fontSize=14,
            fontWeight=600,
            subtitleColor=MUTED,
            subtitleFontSize=12,
        ),
        view=alt.ViewConfig(stroke=None),
    )
