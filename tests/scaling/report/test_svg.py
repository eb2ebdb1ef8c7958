import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from scaling.report import svg
from scaling.report.families import families
from scaling.report.figures import draw_panel
from scaling.report.marks import LOOKS
from scaling.report.marks import SWATCHES
from scaling.report.marks import THEME
from scaling.report.panels import scaling_figure

TITLE = f"{{{svg.NAMESPACE}}}title"


@pytest.fixture(scope="module")
def figure(findings):
    family = families(findings.judged, findings.points)[0]
    return scaling_figure(
        family, name="strong", reasons=findings.reasons, threshold=0.8
    )


@pytest.fixture(scope="module")
def chart(figure):
    return svg.render(draw_panel(figure, figure.rows[0][0]))


def test_every_mark_says_in_words_what_it_is(figure, chart):
    said = Counter(element.text for element in chart.iter(TITLE))
    assert said == Counter(mark.text for mark in figure.rows[0][0].marks)


def test_in_the_page_colours_are_variables_and_ids_its_own(chart):
    one = svg.inline(chart, key="one", description="words")
    other = svg.inline(chart, key="other", description="words")
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (one, other)]
    assert not ids[0] & ids[1]
    assert not [colour for colour in THEME if colour in one]
    assert "var(--series-0)" in one
    root = ET.fromstring(one)
    assert root.get("aria-label") == "words"
    assert root.get("width") is None
    assert root.get("viewBox")


def test_inlining_leaves_the_chart_as_it_was(chart):
    before = ET.tostring(chart)
    svg.inline(chart, key="one", description="words")
    assert ET.tostring(chart) == before


def test_a_picture_holds_all_panels_and_the_legend(figure, tmp_path):
    rows = [
        [svg.render(draw_panel(figure, panel)) for panel in row] for row in figure.rows
    ]
    paths = [Path(path) for path in svg.save(figure, rows, tmp_path)]
    assert [path.name for path in paths] == ["strong.svg", "strong.png"]
    root = ET.fromstring(paths[0].read_text(encoding="utf-8"))
    assert len(root.findall(f"{{{svg.NAMESPACE}}}svg")) == 4
    texts = [element.text for element in root.findall(f"{{{svg.NAMESPACE}}}text")]
    assert "Strong scaling: the global batch is fixed" in texts
    assert "data axis, simulated" in texts
    assert f"measured: {LOOKS['measured'].meaning}" in texts
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    png = paths[1].read_bytes()
    assert png.startswith(b"\x89PNG\r\n")
    pixels = int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
    assert pixels == pytest.approx(
        (width * svg.PNG_SCALE, height * svg.PNG_SCALE), abs=2
    )


@pytest.mark.parametrize(("provenance", "look"), LOOKS.items())
def test_the_legend_shows_line_and_fill_of_each_provenance(provenance, look):
    root = ET.fromstring(svg.inline_swatch(SWATCHES[0], provenance))
    line = root.find(f".//{{{svg.NAMESPACE}}}line")
    mark = root.find(f".//{{{svg.NAMESPACE}}}path")
    assert line is not None
    assert mark is not None
    dash = ",".join(map(str, look.dash)) or "none"
    assert line.get("stroke-dasharray") == dash
    assert (mark.get("fill") == "var(--paper)") != look.filled


def test_no_two_provenances_look_alike():
    looks = {(look.filled, look.dash) for look in LOOKS.values()}
    assert len(looks) == len(LOOKS)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
    ]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    # WCAG 2.2, relative luminance and contrast ratio.
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("swatch", SWATCHES)
def test_series_can_be_seen_on_light_and_on_dark(swatch):
    assert contrast(swatch.light, "#ffffff") >= 3.8
    assert contrast(swatch.dark, "#15181d") >= 7
