import io

from rich.console import Console

from scaling.report.findings import find
from scaling.report.terminal import print_report


def printed(findings, *, color=False):
    file = io.StringIO()
    console = Console(
        file=file, width=80, force_terminal=color, highlight=False, legacy_windows=False
    )
    print_report(findings, console)
    return file.getvalue()


def test_it_fits_80_columns_without_cutting_a_status(findings):
    text = printed(findings)
    assert max(len(line) for line in text.splitlines()) <= 80
    for status in ("ok", "hang", "crash", "invalid", "skipped", "out_of_memory"):
        assert status in text


def test_efficiency_and_interval_stand_together(findings):
    curve = next(each for each in findings.curves if each.growth == "ici:data")
    point = curve.points[-1]
    interval = f"[{point.efficiency_low:.2f}, {point.efficiency_high:.2f}]"
    assert f"{point.efficiency:.2f} {interval}" in printed(findings)


def test_the_verdict_comes_last_and_whole(findings):
    text = " ".join(printed(findings).split())
    assert text.endswith(findings.verdict)


def test_simulated_curves_say_that_they_are_not_judged(findings):
    assert "(simulated, not judged)" in printed(findings)


def test_a_reason_cannot_paint_or_move_the_cursor(new_story):
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    story.run(
        "1/data=2",
        16,
        status="error",
        reason="\x1b[31m\x1b[2J[bold]not markup[/bold]",
        repeats=1,
    )
    text = printed(find(story.measurements))
    assert "\x1b" not in text
    assert "[bold]not markup[/bold]" in text


def test_doubts_are_few_and_stand_before_the_verdict(new_story):
    story = new_story()
    story.run("1/1", 64, step_time_s=0.1)
    for batch in range(1, 21):
        story.run("1/1", batch, step_time_s=0.1, repeats=1)
    found = find(story.measurements)
    text = " ".join(printed(found).split())
    assert text.count("doubt: ") == 2
    assert "1 run has no interval; repeat with --repeats 5" in text
    assert "doubt: too few runs at 19 more points" in text
    assert text.index("19 more points") < text.index(found.verdict)


def test_a_load_says_where_it_is_busy_and_whether_memory_ended(new_story):
    story = new_story()
    for batch, rate in ((8, 50), (16, 100), (32, 101)):
        story.run("1/1", batch, step_time_s=batch / rate)
    text = " ".join(printed(find(story.measurements)).split())
    assert (
        "load on 1/1 (tiny on cpu): busy from batch 16 on; no batch ran out of memory"
    ) in text
    assert ", environment " not in text


def test_environments_are_named_where_there_are_several(new_story):
    old = new_story()
    new = new_story(old.environment.model_copy(update={"code_hash": "f" * 16}))
    for story in (old, new):
        for mesh, batch in (("1/1", 16), ("1/data=2", 16), ("1/1", 32)):
            story.run(mesh, batch, step_time_s=0.1)
    found = find([*old.measurements, *new.measurements])
    text = " ".join(printed(found).split())
    for series in {each.series for each in found.curves}:
        assert text.count(f", environment {series})") == 2


def test_nothing_measured_says_so():
    assert printed(find([])).strip().startswith("No verdict")


def test_a_long_mesh_is_broken_after_its_commas(new_story):
    story = new_story()
    for mesh in ("data=2,fsdp=2/fsdp=4,tensor=2", "data=2,fsdp=2/fsdp=8,tensor=2"):
        story.run(mesh, 64, step_time_s=0.1, repeats=1)
    words = printed(find(story.measurements)).split()
    for line in ("data=2,", "fsdp=2/fsdp=4,", "tensor=2"):
        assert line in words
