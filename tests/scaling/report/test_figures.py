import pytest

from scaling.report.families import families
from scaling.report.figures import draw_panel
from scaling.report.marks import LOOKS
from scaling.report.marks import PAPER
from scaling.report.panels import load_figure
from scaling.report.panels import scaling_figure


@pytest.fixture(scope="module")
def figures(findings):
    return [
        scaling_figure(family, name="x", reasons=findings.reasons, threshold=0.8)
        if family.kind == "scaling"
        else load_figure(family, name="x", reasons=findings.reasons)
        for family in families(findings.judged, findings.points)
    ]


def specification(figure, row, column):
    # Validates against the schema of Vega-Lite, which drawing leaves out.
    return draw_panel(figure, figure.rows[row][column]).to_dict()


def layers(specification, kind):
    return [each for each in specification["layer"] if each["mark"]["type"] == kind]


def test_every_chart_is_valid_and_carries_its_own_data(figures):
    for figure in figures:
        for row, panels in enumerate(figure.rows):
            for column in range(len(panels)):
                chart = specification(figure, row, column)
                assert "url" not in str(chart)


def test_axes_say_what_they_show_in_which_unit(figures):
    axes = specification(figures[0], 0, 0)["layer"][0]["encoding"]
    assert axes["x"]["scale"]["type"] == "log"
    assert axes["x"]["scale"]["base"] == 2
    assert axes["x"]["axis"]["values"] == [1, 2, 4]
    assert axes["x"]["axis"]["title"] == "devices, over all slices"
    assert axes["y"]["axis"]["title"] == "tokens/s, whole mesh, logarithmic"
    efficiency = specification(figures[0], 1, 0)["layer"][0]["encoding"]
    assert efficiency["y"]["scale"]["domain"][0] == 0


def test_fill_and_line_tell_the_provenance(figures):
    chart = specification(figures[0], 0, 0)
    points = layers(chart, "point")[1]["data"]["values"]
    fills = {row["words"]: row["fill"] for row in points}
    hollow = {words for words, fill in fills.items() if fill == PAPER}
    assert hollow == {words for words in fills if "simulated" in words} != set()
    dashes = [each["mark"].get("strokeDash") for each in layers(chart, "line")]
    assert dashes.count(list(LOOKS["simulated"].dash)) == 1


def test_the_threshold_and_the_break_are_drawn(figures):
    chart = specification(figures[0], 1, 1)
    texts = [each["mark"].get("text") for each in layers(chart, "text")]
    assert "threshold 0.8" in texts
    assert "below 0.8 from 2 (2 series)" in texts


def test_intervals_are_drawn_with_the_bounds_of_the_curve(findings, figures):
    chart = specification(figures[0], 1, 0)
    drawn = {
        (row["low"], row["high"])
        for each in layers(chart, "rule")
        for row in each["data"]["values"]
        if "low" in row
    }
    curve = next(each for each in findings.curves if each.growth == "ici:data")
    last = curve.points[-1]
    assert (last.efficiency_low, last.efficiency_high) in drawn


def test_failures_are_crosses_with_their_status(figures):
    chart = specification(figures[0], 0, 0)
    words = [
        row["text"]
        for each in layers(chart, "text")
        for row in each["data"]["values"]
        if "text" in row
    ]
    assert set(words) == {"hang", "invalid"}


def test_an_empty_panel_says_so(new_story):
    from scaling.report.findings import find

    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    story.run("1/data=2", 16, step_time_s=0.06)
    found = find(story.measurements)
    (family,) = families(found.judged, found.points)
    figure = scaling_figure(family, name="x", reasons={}, threshold=0.8)
    texts = [
        each["mark"].get("text") for each in layers(specification(figure, 0, 1), "text")
    ]
    assert texts == ["no points"]
