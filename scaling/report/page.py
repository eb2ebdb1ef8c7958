"""Page: the report as one HTML text that needs nothing but itself.

Everything that came from outside is escaped by the template engine, and the page's own
security policy forbids scripts and every load, so that a result file cannot act.
"""

from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

import jinja2
from markupsafe import Markup

from scaling import quantity
from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.curve import batch_text
from scaling.measurement import Provenance
from scaling.predicted import NETWORK_ERROR
from scaling.report import sections
from scaling.report import svg
from scaling.report.families import settings_text
from scaling.report.findings import Findings
from scaling.report.marks import LOOKS
from scaling.report.marks import NEUTRAL
from scaling.report.marks import SWATCHES
from scaling.report.panels import Figure
from scaling.report.projection import Projection
from scaling.report.tables import PointRow
from scaling.report.tables import point_rows
from scaling.report.words import efficiency_text
from scaling.report.words import load_text

MAX_ROWS = 300
"""Points listed in the page; all of them are in `points.csv`."""
MAX_JUDGED = 24
"""Judgements listed in the page, the worst first."""
MAX_POINTS_A_DOUBT = 3
"""Points named for each kind of doubt about timings; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure with its charts."""

    figure: Figure
    rows: Sequence[Sequence[Element]]


@dataclass(frozen=True, kw_only=True)
class FigureView:
    """A figure as the template places it."""

    figure: Figure
    legend: tuple[tuple[Markup, str, Provenance], ...]
    """Sample, name and provenance of each series."""
    charts: tuple[Markup, ...]
    numbers: tuple[tuple[str, Curve, CurvePoint], ...]
    """Name of the series, its curve, and each point on it."""
    waits: bool
    """Whether it is known of a point what its step waits for."""
    spreads: tuple[str, ...]
    """Run-to-run spread behind the intervals of each curve, in words."""


def render_page(
    findings: Findings,
    *,
    figures: Iterable[Drawn],
    projected: Iterable[Drawn],
    projection: Projection,
    left_out: int,
) -> str:
    """Returns the page; `left_out` figures were too many to draw."""
    rows = point_rows(findings)
    judged = sections.judged_rows(findings.judged)
    views = [_view(drawn) for drawn in figures]
    provenances = {each.provenance for each in findings.runs}
    return _template().render(
        findings=findings,
        sweeps=list(sections.sweeps(findings)),
        span=sections.span(findings),
        sentences=sections.sentences(findings.verdict),
        counts=sections.counts(findings),
        compiled="compiled" in provenances,
        judged=judged[:MAX_JUDGED],
        judged_left_out=max(0, len(judged) - MAX_JUDGED),
        scaling_figures=[v for v in views if v.figure.family.kind == "scaling"],
        load_figures=[v for v in views if v.figure.family.kind == "load"],
        figures_left_out=left_out,
        loads=sections.load_rows(findings.curves)[:MAX_JUDGED],
        projected=[_view(drawn) for drawn in projected],
        projection=sections.judged_rows(projection.judged),
        projected_sentences=sections.sentences(projection.verdict),
        failures=[row for row in rows if row.figures.status != "ok"][:MAX_ROWS],
        rows=rows[:MAX_ROWS],
        shared_settings=_shared_settings(rows),
        num_rows=len(rows),
        doubts=sections.doubts(findings, most=MAX_POINTS_A_DOUBT),
        environments=sections.environment_rows(findings),
    )


def _shared_settings(rows: Iterable[PointRow]) -> str:
    """Returns the settings that all points have; empty where they differ."""
    found = {settings_text(row.point) for row in rows}
    return found.pop() if len(found) == 1 else ""


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        seconds=quantity.seconds,
        rate=quantity.rate,
        ratio=quantity.ratio,
        percent=quantity.percent,
        bytes=quantity.bytes_,
        efficiency=efficiency_text,
        settings=settings_text,
        batch=batch_text,
        load=load_text,
    )
    environment.globals.update(
        looks=[
            (Markup(svg.inline_swatch(NEUTRAL, provenance)), provenance, look.meaning)
            for provenance, look in LOOKS.items()
        ],
        swatches=SWATCHES,
        interval=sections.interval,
        NETWORK_ERROR=NETWORK_ERROR,
        NOT_MEASURED=quantity.NOT_MEASURED,
    )
    return environment.get_template("page.html.jinja")


def _view(drawn: Drawn) -> FigureView:
    figure = drawn.figure
    numbers = tuple(
        (series.label, judged.curve, point)
        for series in figure.family.series
        for judged in series.judged
        for point in judged.curve.points
    )
    charts = [
        svg.inline(chart, key=f"{figure.name}-{y}{x}", description=panel.description)
        for y, (panels, elements) in enumerate(
            zip(figure.rows, drawn.rows, strict=True)
        )
        for x, (panel, chart) in enumerate(zip(panels, elements, strict=True))
    ]
    return FigureView(
        figure=figure,
        legend=tuple(
            (
                Markup(svg.inline_swatch(SWATCHES[series.number], provenance)),
                series.label,
                provenance,
            )
            for series, provenance in figure.legend
        ),
        # Markup is for our own drawing alone; the words in it ElementTree has escaped.
        charts=tuple(Markup(chart) for chart in charts),
        numbers=numbers,
        waits=any(point.exposed_s for _, _, point in numbers),
        spreads=sections.spreads(
            (series.label, judged)
            for series in figure.family.series
            for judged in series.judged
        ),
    )
