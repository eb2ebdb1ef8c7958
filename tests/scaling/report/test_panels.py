import pytest

from scaling.report.families import families
from scaling.report.findings import find
from scaling.report.panels import load_figure
from scaling.report.panels import scaling_figure


@pytest.fixture
def strong(findings):
    return figures(findings)[0]


def figures(found, kind="scaling"):
    build = {
        "scaling": lambda family: scaling_figure(
            family, name="x", reasons=found.reasons, threshold=0.8
        ),
        "load": lambda family: load_figure(family, name="x", reasons=found.reasons),
    }[kind]
    return [
        build(family)
        for family in families(found.judged, found.points)
        if family.kind == kind
    ]


def test_marks_are_the_points_of_the_curves(findings, strong):
    (vertical, _), (efficiency, _) = strong.rows
    curve = next(
        each
        for each in findings.curves
        if each.growth == "ici:fsdp" and each.regime == "strong"
    )
    shown = {
        (mark.x, mark.y)
        for mark in vertical.marks
        if mark.text.startswith("fsdp axis") and mark.y is not None
    }
    assert shown == {
        (point.num_devices, point.tokens_per_s)
        for point in curve.points
        if point.tokens_per_s
    }
    bounds = {
        (mark.low, mark.high)
        for mark in efficiency.marks
        if mark.text.startswith("fsdp axis") and mark.y is not None
    }
    assert bounds == {
        (point.efficiency_low, point.efficiency_high)
        for point in curve.points
        if point.efficiency
    }


def test_throughput_bounds_are_the_step_time_bounds_turned_round(findings, strong):
    (vertical, _), _ = strong.rows
    point = next(point for point in findings.curves[0].points if point.tokens_per_s)
    mark = next(mark for mark in vertical.marks if mark.y == point.tokens_per_s)
    tokens = 16 * 128
    assert mark.low == pytest.approx(tokens / point.step_time_high_s)
    assert mark.high == pytest.approx(tokens / point.step_time_low_s)


def test_directions_are_beside_each_other_and_never_mixed(strong):
    for vertical, horizontal in strong.rows:
        assert "vertical" in vertical.title
        assert "horizontal" in horizontal.title
    texts = [mark.text for mark in strong.rows[0][0].marks]
    assert not any("data=2/1" in text for text in texts)


def test_a_failure_is_a_mark_without_a_number_that_says_why(strong):
    failed = [mark for mark in strong.rows[1][0].marks if mark.status == "hang"]
    assert failed
    assert all(mark.y is None for mark in failed)
    assert "finished no step for 30 s" in failed[0].text


def test_simulated_points_have_no_efficiency_and_start_no_ideal(strong):
    (throughput, _), (efficiency, _) = strong.rows
    provenances = {mark.provenance for mark in throughput.marks}
    assert provenances == {"measured", "simulated"}
    assert {mark.provenance for mark in efficiency.marks} == {"measured"}
    assert {devices for devices, _ in throughput.starts} == {1}


def test_every_text_names_the_provenance(strong):
    marks = [mark for row in strong.rows for panel in row for mark in panel.marks]
    assert all(mark.provenance in mark.text for mark in marks)


def test_the_break_is_noted_where_it_is(strong):
    _, (vertical, horizontal) = strong.rows
    assert vertical.notes == ()
    (note,) = horizontal.notes
    assert (note.x, note.text) == (2, "below 0.8 from 2 (2 series)")


def test_a_single_broken_series_keeps_its_colour(new_story):
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    story.run("1/data=2", 16, step_time_s=0.09)
    _, (vertical, _) = figures(find(story.measurements))[0].rows
    (note,) = vertical.notes
    assert (note.series, note.text) == ((0,), "below 0.8 from 2")


def test_a_load_ends_out_of_memory(findings):
    (figure,) = figures(findings, "load")
    ((throughput, step_time),) = figure.rows
    assert [mark.x for mark in throughput.marks] == [2, 4, 8, 16, 32, 64, 128]
    endings = [mark.status for mark in step_time.marks if mark.y is None]
    assert endings == ["out_of_memory", "skipped"]


def test_reasons_cannot_hide_control_characters_in_a_text(new_story):
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    story.run("1/data=2", 16, status="error", reason="\x1b[2Jboom\nlater", repeats=1)
    figure = figures(find(story.measurements))[0]
    texts = [mark.text for row in figure.rows for panel in row for mark in panel.marks]
    (boom,) = {text for text in texts if "boom" in text}
    assert boom.isprintable()
    assert boom.endswith("[2Jboom later")
