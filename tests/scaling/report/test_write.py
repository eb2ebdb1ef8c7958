import csv
from pathlib import Path

from scaling.report import write
from scaling.report.findings import find
from scaling.report.projection import Projection
from scaling.report.write import write_report

NOTHING = Projection(judged=(), points={})


def names(folder):
    return {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.*")}


def test_page_tables_and_pictures_are_written(written):
    figures = ("strong", "weak", "load", "analytic_strong", "analytic_weak")
    assert names(written.page.parent) == {
        "report.html",
        "points.csv",
        "samples.csv",
        *(f"pictures/{name}.{kind}" for name in figures for kind in ("svg", "png")),
    }
    assert len(written.pictures) == 10
    assert all(Path(path).stat().st_size > 1000 for path in written.pictures)


def test_files_hold_what_the_tables_say(findings, written):
    with Path(written.points).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(curve.points) for curve in findings.curves)
    with Path(written.samples).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(
        len(block.elapsed_s) for run in findings.measurements for block in run.blocks
    )


def test_the_same_runs_give_the_same_page(findings, written, tmp_path):
    again = write_report(findings, tmp_path / "again")
    assert again.page.read_bytes() == written.page.read_bytes()


def test_a_second_report_replaces_the_first(new_story, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "project", lambda _: NOTHING)
    story = new_story()
    story.run("1/1", 16, step_time_s=0.1)
    story.run("1/data=2", 16, step_time_s=0.06)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "weak_3.png").write_bytes(b"of a report before")
    (pictures / "mine.png").write_bytes(b"of somebody else")
    write_report(find(story.measurements), tmp_path)
    found = {path.name for path in pictures.iterdir()}
    assert found == {"strong.svg", "strong.png", "mine.png"}


def test_of_many_figures_those_that_break_are_drawn(new_story, monkeypatch, tmp_path):
    monkeypatch.setattr(write, "project", lambda _: NOTHING)
    monkeypatch.setattr(write, "MAX_FIGURES", 1)
    story = new_story()
    for regime, efficiency in (("strong", 0.95), ("weak", 0.5)):
        story.run("1/1", 16, step_time_s=0.1, regime=regime)
        doubled = 2 if regime == "weak" else 1
        story.run(
            "1/data=2",
            16 * doubled,
            step_time_s=0.1 * doubled / 2 / efficiency,
            regime=regime,
        )
    paths = write_report(find(story.measurements), tmp_path)
    assert {path.name for path in paths.pictures} >= {"weak.svg"}
    assert "strong.svg" not in {path.name for path in paths.pictures}
    assert "1 more figures are not drawn" in paths.page.read_text()
