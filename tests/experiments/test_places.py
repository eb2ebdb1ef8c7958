"""Where runs, logs and records are, on this machine and for results elsewhere."""

import shutil
from pathlib import Path

import pytest

from experiments.places import Places


@pytest.fixture
def here(tmp_path: Path) -> Places:
    places = Places.of(tmp_path, "s")
    places.work.mkdir()
    return places


def test_a_local_folder_is_store_and_workplace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    places = Places.of("results", "s")
    assert places.store == str(tmp_path / "results" / "s")
    assert places.work == tmp_path / "results" / "s"
    assert places.data == tmp_path / "results" / ".data"


def test_results_in_a_bucket_are_worked_on_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    places = Places.of("gs://bucket/results/", "s")
    other = Places.of("gs://other/results", "s")
    assert places.store == "gs://bucket/results/s"
    assert places.work.is_relative_to("/home/me/.cache/scaling-toolkit")
    assert places.work != other.work


def test_the_logs_of_all_processes_become_one(here: Places):
    logs = [here.log("a.b"), here.log("a.b", 1), here.log("a.b", 2)]
    for path, text in zip(logs, ("zero\n", "", "two\n"), strict=True):
        path.write_text(text)
    here.keep_log("a.b", logs)
    assert [path.name for path in here.work.iterdir()] == ["a.b.log"]
    assert (here.work / "a.b.log").read_text() == "zero\n\n[process 2]\ntwo\n"


def test_an_empty_log_is_not_kept(here: Places):
    here.log("a.b").touch()
    here.keep_log("a.b", [here.log("a.b")])
    assert list(here.work.iterdir()) == []


def test_a_log_goes_where_the_run_goes(tmp_path: Path):
    (tmp_path / "work").mkdir()
    (tmp_path / "far").mkdir()
    places = Places(
        store=str(tmp_path / "far"), work=tmp_path / "work", data=tmp_path / "data"
    )
    places.log("a.b").write_text("words\n")
    places.keep_log("a.b", [places.log("a.b")])
    assert (tmp_path / "far" / "a.b.log").read_text() == "words\n"
    assert list(places.work.iterdir()) == []


def test_a_run_that_is_not_recorded_leaves_nothing(here: Places):
    logs = [here.log("a.b"), here.log("a.b", 1)]
    logs[0].write_text("x")
    here.checkpoints("a.b").mkdir()
    (here.checkpoints("a.b") / "0").write_text("x")
    here.discard("a.b", logs)
    assert list(here.work.iterdir()) == []


def test_a_log_that_cannot_be_kept_is_a_warning(here: Places):
    here.log("a.b").write_text("words")
    # Where the log of process 1 should be is something that no file can be.
    here.log("a.b", 1).mkdir()
    (here.log("a.b", 1) / "x").touch()
    warning = here.keep_log("a.b", [here.log("a.b"), here.log("a.b", 1)])
    assert str(warning).startswith("the log of a.b could not be kept: ")
    assert here.log("a.b").read_text().startswith("words")


def test_checkpoints_that_cannot_be_removed_are_a_warning(
    here: Places, monkeypatch: pytest.MonkeyPatch
):
    here.checkpoints("a.b").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        assert "could not be removed" in str(here.discard_checkpoints("a.b"))
    assert here.discard_checkpoints("a.b") is None


def test_a_process_that_was_not_started_has_no_log_to_keep(here: Places):
    here.log("a.b").write_text("zero\n")
    assert here.keep_log("a.b", [here.log("a.b"), here.log("a.b", 1)]) is None
    assert here.log("a.b").read_text() == "zero\n"
    assert here.keep_log("c.d", [here.log("c.d")]) is None
