"""SVG: a chart as an element of the page, and a whole figure as a picture file.

Charts are drawn once, without a browser and without a network. In the page they take
its light or dark colours through CSS variables, and every mark says in words what it
is when pointed at.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element
from xml.etree.ElementTree import SubElement

import altair as alt
from etils import epath

from scaling.measurement import Provenance
from scaling.report.marks import INK
from scaling.report.marks import LOOKS
from scaling.report.marks import MUTED
from scaling.report.marks import PAPER
from scaling.report.marks import SWATCHES
from scaling.report.marks import THEME
from scaling.report.marks import Swatch
from scaling.report.panels import Figure
from scaling.report.plain import plain

NAMESPACE = "http://www.w3.org/2000/svg"
PNG_SCALE = 1.5
"""Pixels per unit, so that pictures stay sharp on dense screens and on paper."""
MARGIN = 20
HEAD = 52
"""Height of the title and the settings above the panels."""
LEGEND_ROW = 20
INTERVALS = "intervals: 90 %, the spread over runs pooled over all points of each curve"
"""Why one point has different ones in two panels."""
SWATCH_WIDTH = 36
SWATCH_HEIGHT = 14

_VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The language that altair writes, major and minor."""

ET.register_namespace("", NAMESPACE)


def render(chart: alt.LayerChart) -> Element:
    """Returns `chart` as an `svg` element in which every point carries its words."""
    import vl_convert

    # Tests validate; here it would take half of the time.
    specification = chart.to_dict(validate=False)
    text = vl_convert.vegalite_to_svg(specification, vl_version=_VEGA_LITE)
    root = ET.fromstring(text)
    for element in list(root.iter()):
        if element.get("aria-roledescription") == "point":
            title = Element(_tag("title"))
            title.text = element.get("aria-label")
            element.insert(0, title)
    return root


def inline(chart: Element, *, key: str, description: str) -> str:
    """Returns `chart` as text for the page, in its colours and as wide as its column.

    `key` makes the ids of this chart differ from those of every other in the page.
    """
    root = _with_own_ids(chart, key)
    width, height = root.attrib.pop("width"), root.attrib.pop("height")
    root.set("viewBox", f"0 0 {width} {height}")
    root.set("role", "img")
    root.set("aria-label", description)
    return _themed(root)


def inline_swatch(swatch: Swatch, provenance: Provenance) -> str:
    """Returns a sample of line and mark as text for the page."""
    size = {"width": str(SWATCH_WIDTH), "height": str(SWATCH_HEIGHT)}
    root = Element(_tag("svg"), {**size, "aria-hidden": "true"})
    _swatch(root, swatch, provenance, 0, 0)
    return _themed(root)


def save(
    figure: Figure, rows: Sequence[Sequence[Element]], folder: epath.Path
) -> list[epath.Path]:
    """Writes `figure` with its charts as SVG and as PNG; returns the two paths."""
    import vl_convert

    text = ET.tostring(_picture(figure, rows), encoding="unicode")
    svg, png = folder / f"{figure.name}.svg", folder / f"{figure.name}.png"
    svg.write_bytes(text.encode())
    png.write_bytes(vl_convert.svg_to_png(text, scale=PNG_SCALE))
    return [svg, png]


def _picture(figure: Figure, rows: Sequence[Sequence[Element]]) -> Element:
    """Returns one document: title, the charts in their grid, and the legend."""
    root = Element(_tag("svg"), {"font-family": "sans-serif"})
    paper = SubElement(root, _tag("rect"), {"fill": PAPER})
    family = figure.family
    _text(root, MARGIN, 30, figure.title, size=16, colour=INK, bold=True)
    subtitle = f"{family.model} on {family.chip}: {family.settings}"
    _text(root, MARGIN, 48, subtitle, size=12, colour=MUTED)
    right, below = 0.0, float(HEAD + MARGIN // 2)
    for row_number, row in enumerate(rows):
        x = float(MARGIN)
        for number, chart in enumerate(row):
            placed = _with_own_ids(chart, f"p{row_number}{number}")
            placed.attrib.update({"x": f"{x:g}", "y": f"{below:g}"})
            root.append(placed)
            x += float(chart.attrib["width"]) + MARGIN
        right = max(right, x)
        below += max(float(chart.attrib["height"]) for chart in row) + MARGIN / 2
    bottom = _legend(root, figure, below) + MARGIN
    size = {"width": f"{right:g}", "height": f"{bottom:g}"}
    root.attrib.update(size)
    paper.attrib.update(size)
    return root


def _legend(parent: Element, figure: Figure, y: float) -> float:
    """Draws the legend from `y` downwards; returns where it ends."""
    words: dict[Provenance, None] = {}
    for series, provenance in figure.legend:
        words[provenance] = None
        _swatch(parent, SWATCHES[series.number], provenance, MARGIN, y)
        name = f"{series.label}, {provenance}"
        _text(parent, MARGIN + SWATCH_WIDTH + 10, y + 11, name, size=12, colour=INK)
        y += LEGEND_ROW
    for provenance in words:
        meaning = f"{provenance}: {LOOKS[provenance].meaning}"
        _text(parent, MARGIN, y + 11, meaning, size=11, colour=MUTED)
        y += LEGEND_ROW
    _text(parent, MARGIN, y + 11, INTERVALS, size=11, colour=MUTED)
    return y + LEGEND_ROW


def _swatch(
    parent: Element, swatch: Swatch, provenance: Provenance, x: float, y: float
) -> None:
    look = LOOKS[provenance]
    at = {"transform": f"translate({x:g},{y + SWATCH_HEIGHT / 2:g})"}
    group = SubElement(parent, _tag("g"), at)
    line = {"x2": str(SWATCH_WIDTH), "stroke": swatch.light, "stroke-width": "1.8"}
    dash = ",".join(map(str, look.dash))
    SubElement(group, _tag("line"), {**line, "stroke-dasharray": dash or "none"})
    mark = {
        "d": swatch.path,
        "transform": f"translate({SWATCH_WIDTH / 2:g},0) scale(4.5)",
        "fill": swatch.light if look.filled else PAPER,
        "stroke": swatch.light,
        "stroke-width": "0.4",
    }
    SubElement(group, _tag("path"), mark)


def _text(
    parent: Element,
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    colour: str,
    bold: bool = False,
) -> None:
    place = {"x": f"{x:g}", "y": f"{y:g}", "font-size": str(size), "fill": colour}
    weight = {"font-weight": "bold"} if bold else {}
    SubElement(parent, _tag("text"), {**place, **weight}).text = plain(text)


def _with_own_ids(chart: Element, key: str) -> Element:
    """Returns a copy of `chart` whose ids no other chart of the document has."""
    root = ET.fromstring(ET.tostring(chart))
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, f"{key}-{value}")
            elif value.startswith("url(#"):
                element.set(name, value.replace("url(#", f"url(#{key}-"))
    return root


def _themed(root: Element) -> str:
    for element in root.iter():
        for name, value in element.attrib.items():
            element.set(name, THEME.get(value, value))
    return ET.tostring(root, encoding="unicode")


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"
