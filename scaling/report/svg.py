"""SVG: a chart as text that can stand inside the page, and as picture files.

The charts are drawn once, without a browser and without a network; in the page they
follow its light or dark colours through CSS variables, and every mark says in words
what it is when pointed at.
"""

import io
from pathlib import Path
from xml.etree import ElementTree

import altair as alt

from scaling.report.marks import THEME

SVG = "http://www.w3.org/2000/svg"
PIXELS_PER_UNIT = 2
"""Of the PNG, so that it stays sharp on a dense screen and on paper."""

Chart = alt.LayerChart | alt.VConcatChart


def inline(chart: Chart, *, key: str, description: str) -> str:
    """Returns `chart` as an `<svg>` element for the page.

    `key` makes the ids of this chart differ from those of every other in the page.
    """
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(_svg(chart))
    width, height = root.attrib.pop("width"), root.attrib.pop("height")
    root.attrib.update({"viewBox": f"0 0 {width} {height}", "aria-label": description})
    root.attrib["role"] = "group"
    for element in list(root.iter()):
        _adapt(element, key)
    return ElementTree.tostring(root, encoding="unicode")


def save(chart: Chart, folder: Path, name: str) -> tuple[Path, Path]:
    """Writes `name`.svg and `name`.png into `folder` and returns their paths."""
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    svg.write_text(_svg(chart), encoding="utf-8")
    picture = io.BytesIO()
    chart.save(picture, format="png", scale_factor=PIXELS_PER_UNIT)
    png.write_bytes(picture.getvalue())
    return svg, png


def _svg(chart: Chart) -> str:
    text = io.StringIO()
    chart.save(text, format="svg")
    return text.getvalue()


def _adapt(element: ElementTree.Element, key: str) -> None:
    """Gives a mark its words, makes its ids unique and its colours the page's."""
    for name, value in element.attrib.items():
        if name == "id":
            element.attrib[name] = f"{key}-{value}"
        elif value.startswith("url(#"):
            element.attrib[name] = value.replace("url(#", f"url(#{key}-")
        else:
            element.attrib[name] = THEME.get(value, value)
    if element.get("role") == "graphics-symbol" and "aria-label" in element.attrib:
        if element.get("aria-roledescription") == "point":
            title = ElementTree.Element(f"{{{SVG}}}title")
            title.text = element.attrib["aria-label"]
            element.insert(0, title)
