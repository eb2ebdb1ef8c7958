import html
import re
from html.parser import HTMLParser

import pytest

from scaling import quantity
from scaling.measurement import STATUSES
from scaling.report import page as page_module
from scaling.report import sections
from scaling.report.findings import find
from scaling.report.marks import LOOKS
from scaling.report.page import render_page
from scaling.report.projection import Projection
from scaling.report.words import efficiency_text

LOADING = {"src", "href", "xlink:href", "srcset", "data", "poster", "action", "style"}
NOTHING = Projection(judged=(), points={})


class Collector(HTMLParser):
    """Tags, what attributes may load, and the words between the tags."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.loads = []
        self.words = []
        self.rows = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value for name, value in attrs if name in LOADING]
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        self.words.append(data)
        if self.rows:
            self.rows[-1].append(data)


@pytest.fixture(scope="module")
def parsed(page):
    return Collector(page)


def text_of(row):
    return " ".join("".join(row).split())


def rendered(found):
    return render_page(found, figures=(), projected=(), projection=NOTHING, left_out=0)


def test_nothing_is_loaded_from_anywhere(page, parsed):
    local = re.compile(r"#\w+|(pictures/)?\w+\.(csv|svg|png)")
    assert [each for each in parsed.loads if not local.fullmatch(each)] == []
    assert not {"script", "link", "iframe", "img", "object"} & set(parsed.tags)
    # Names of XML vocabularies are the only addresses.
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_the_browser_is_told_to_load_and_run_nothing(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1] == "default-src 'none'; style-src 'unsafe-inline'"


def test_what_came_from_outside_is_text_and_not_markup(page, parsed):
    assert "<script" not in page
    assert "<b>bold</b>" not in page
    words = "".join(parsed.words)
    assert "<script>alert('owned')</script>" in words
    assert "--xla_dump_to=<here>" in words
    assert "is not JSON <b>bold</b>" in words


def test_names_are_escaped_as_reasons_are(new_story):
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    run = story.measurements[0]
    story.measurements = [run.model_copy(update={"sweep": "<img src=x onerror=y>"})]
    assert "<img" not in rendered(find(story.measurements))


def test_the_verdict_comes_first_and_whole(findings, parsed):
    words = " ".join("".join(parsed.words).split())
    position = words.index(findings.verdict)
    assert position < words.index("Curves")
    assert parsed.tags.index("h1") < parsed.tags.index("svg")


def test_every_provenance_is_explained(page):
    for provenance, look in LOOKS.items():
        assert f"<b>{provenance}</b>" in page
        assert html.escape(look.meaning) in page


def test_the_numbers_beside_the_charts_are_those_of_the_curves(findings, parsed):
    rows = [text_of(row) for row in parsed.rows]
    for curve in findings.curves:
        for point in curve.points:
            shown = (
                curve.provenance,
                point.mesh,
                quantity.rate(point.tokens_per_s),
                quantity.seconds(point.step_time_s),
                efficiency_text(point),
                quantity.ratio(point.marginal_efficiency),
                point.status,
            )
            assert any(all(part in row for part in shown) for row in rows), shown


def test_every_point_is_listed_with_status_and_reason(findings, parsed):
    rows = [text_of(row) for row in parsed.rows]
    for run in findings.measurements:
        mine = [row for row in rows if run.id in row]
        assert any(run.status in row for row in mine)
        if run.reason:
            assert any(run.reason in row for row in mine)


def test_every_chart_has_words_for_who_cannot_see_it(page):
    charts = re.findall(r'<svg[^>]*role="img"[^>]*>', page)
    assert len(charts) == 4 + 4 + 2 + 8
    assert all(re.search(r'aria-label="[^"]{40,}"', chart) for chart in charts)


def test_the_analytic_panel_is_apart_and_labelled(page):
    _, _, after = page.partition('class="analytic-panel"')
    panel, _, _ = after.partition('id="points"')
    assert "Nothing here was run" in panel
    assert 'class="provenance analytic"' in panel
    assert 'class="provenance measured"' not in panel


def test_doubts_and_unreadable_files_are_shown(findings, new_story, parsed):
    assert "cpu_story/x.json" in "".join(parsed.words)
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    story.run("1/data=2", 16, step_time_s=0.03)
    words = "".join(Collector(rendered(find(story.measurements))).words)
    assert "the baseline 1/1 may be slow" in words


def test_doubts_about_timings_are_shown_and_do_not_drown_the_reader(new_story):
    story = new_story()
    story.run("1/1", 64, step_time_s=0.1)
    for batch in range(1, 21):
        story.run("1/1", batch, step_time_s=0.1, repeats=1)
    page = rendered(find(story.measurements))
    assert page.count("1 run has no interval; repeat with --repeats 5") == 3
    assert "too few runs at 17 more points" in page
    assert 'href="#doubts"' in page


def test_a_doubt_about_all_points_is_said_once(new_story):
    story = new_story()
    for batch in range(1, 21):
        story.run("1/1", batch, step_time_s=0.1, repeats=1, regime="weak")
    page = rendered(find(story.measurements))
    assert page.count("1 run has no interval; repeat with --repeats 5") == 1
    assert "too few runs at all 20 points; worst tiny on cpu, mesh 1/1, batch" in page


def test_an_impossible_utilisation_is_one_doubt(new_story):
    story = new_story()
    for mesh in ("1/1", "1/data=2"):
        story.run(mesh, 16, step_time_s=1e-7)
    runs = []
    for run in story.measurements:
        point = run.point.model_copy(update={"chip": "v5e"})
        runs.append(run.model_copy(update={"point": point, "id": point.id}))
    found = [each for each in sections.doubts(find(runs), most=1) if "peak" in each]
    assert len(found) == 1
    assert "blocks above the peak FLOP/s at all 2 points" in found[0]
    assert not any("mfu" in each for each in sections.doubts(find(runs)))


def test_settings_are_said_once_where_all_points_share_them(new_story):
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    story.run("1/data=2", 16, step_time_s=0.06)
    page = rendered(find(story.measurements))
    assert "All have the same settings: seq_len 128, compute_dtype float32" in page
    assert "<th>settings</th>" not in page
    point = story.measurements[-1].point.model_copy(update={"remat": "full"})
    other = story.measurements[-1].model_copy(update={"point": point, "id": point.id})
    page = rendered(find([*story.measurements, other]))
    assert "All have the same settings" not in page
    assert "remat full</td>" in page


def test_what_was_not_lost_is_none_and_never_negative(new_story):
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    story.run("1/data=2", 16, step_time_s=0.0499)
    story.run("data=2/1", 16, step_time_s=0.08)
    rows = sections.judged_rows(find(story.measurements).judged)
    lost = {row.found.direction: row.lost for row in rows}
    # Efficiency 1.00 [0.99, 1.01]: what the bounds leave is under 1 ms of 50.
    assert re.fullmatch(r"none \[at most .* [mµ]s\]", lost["vertical"]), lost
    # Of 80 ms a lossless step would take 50.
    assert re.fullmatch(r"30\S* ms \[2\S* ms to 3\S* ms\]", lost["horizontal"]), lost
    single = [*story.measurements[:1], *story.measurements[5:6]]
    (row,) = sections.judged_rows(find(single).judged)
    assert row.lost == "none" or row.lost.endswith("s")
    assert "-" not in row.lost


def test_the_spread_behind_the_intervals_stands_below_each_figure(page):
    assert page.count("has another interval on each. Spread: ") == 3
    assert re.search(r"data axis vertical \d+\.\d % \(\d+ degrees of freedom\)", page)


def test_the_load_is_said_in_words(page):
    assert "busy from batch 32 on" in page or "not surely saturated" in page
    assert "out of memory at batch 64" in page


def test_the_environment_is_of_a_run_that_saw_a_device(new_story):
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    blind = new_story(story.environment.model_copy(update={"device_kind": None}))
    blind.run("1/data=2", 16, status="crash", reason="no device", repeats=1)
    found = find([*story.measurements, *blind.measurements])
    (row,) = sections.environment_rows(found)
    assert row.environment.device_kind == "cpu"
    assert row.newest == blind.measurements[-1].started_at
    # Where none did, that is what is said.
    (row,) = sections.environment_rows(find(blind.measurements))
    assert row.environment.device_kind is None


def test_how_steps_are_waited_for_and_devices_laid_out_is_said(page):
    _, _, conventions = page.partition('id="conventions"')
    assert "on CPU every step is waited for" in conventions
    assert "create_device_mesh" in conventions


def test_no_curve_and_no_run_is_a_page_too(new_story):
    story = new_story()
    for status in STATUSES:
        reason = None if status == "ok" else f"why {status}"
        story.run("1/1", 16, status=status, reason=reason, repeats=1)
    for found in (find(story.measurements), find([])):
        page = rendered(found)
        assert "No scaling curve" in page
        assert "Undefined" not in page


def test_environments_are_told_apart_once_there_are_several(new_story):
    old = new_story()
    new = new_story(
        old.environment.model_copy(update={"hostname": "host-2", "code_hash": "f" * 16})
    )
    for story in (old, new):
        story.run("1/1", 16, step_time_s=0.1)
    page = rendered(find([*old.measurements, *new.measurements]))
    assert page.index("host-2") < page.index("host-1"), "the newest comes first"


def test_a_big_sweep_lists_its_first_points_and_says_so(new_story, monkeypatch):
    monkeypatch.setattr(page_module, "MAX_ROWS", 3)
    story = new_story()
    for batch in range(1, 6):
        story.run("1/1", batch, step_time_s=0.1, repeats=1)
    assert "The first 3 of 5 points" in rendered(find(story.measurements))
