import json
import math

import pytest

from experiments import cli
from experiments import store
from experiments.compare_text import verdict
from meshes.spec import MeshSpec
from scaling.compare import compare
from scaling.measurement import Block
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point

ENVIRONMENT = Environment(
    versions={"jax": "0.10.2"},
    device_kind="cpu",
    host_cpu_model="a core",
    flags={},
    code_hash="c",
    commit=None,
    hostname="h",
    num_cores=2,
)


def runs_of(mesh, step_times_s):
    point = Point(
        model="tiny",
        chip="cpu",
        mesh=MeshSpec.parse(mesh),
        global_batch_size=16,
        seq_len=128,
    )
    return [
        Measurement(
            id=point.id,
            run=f"{number:012x}",
            sweep="mine",
            point=point,
            status="ok",
            provenance="measured",
            started_at=f"2026-01-01T00:00:{number:02d}+00:00",
            environment=ENVIRONMENT,
            blocks=tuple(Block(steps=1, elapsed_s=(time,)) for _ in range(5)),
            compilations_in_window=0,
        )
        for number, time in enumerate(step_times_s)
    ]


def stored(folder, step_times_s):
    """Stores runs of one and of two devices, the latter in half the time."""
    for run in runs_of("1/1", step_times_s):
        store.save(folder / "mine", run)
    for run in runs_of("1/data=2", [time / 2 for time in step_times_s]):
        store.save(folder / "mine", run)
    return str(folder)


@pytest.fixture
def scaling(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as caught:
            cli.main(["scaling", *arguments])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return run


def test_report_writes_the_page_and_prints_one_json_document(scaling, tmp_path):
    results = stored(tmp_path / "results", (0.100, 0.101, 0.102))
    code, out, err = scaling("report", results, "--json")
    assert code == 0
    document = json.loads(out)
    assert set(document) == {"verdict", "verdicts", "curves", "doubts"}
    page = tmp_path / "results" / "report" / "report.html"
    assert page.is_file()
    assert str(page) in err
    # What it wrote there is not read as runs the next time.
    again = scaling("report", results, "--json", "--out", str(tmp_path / "out"))
    assert json.loads(again[1]) == document
    assert "not read" not in again[2]


def test_the_threshold_reaches_the_verdicts(scaling, tmp_path):
    results = stored(tmp_path / "results", (0.100, 0.101, 0.102))
    _, out, _ = scaling("report", results, "--json", "--threshold", "0.5")
    assert {each["threshold"] for each in json.loads(out)["verdicts"]} == {0.5}


def test_files_that_cannot_be_read_are_named_and_hide_nothing(scaling, tmp_path):
    results = stored(tmp_path / "results", (0.100, 0.101))
    bad = tmp_path / "results" / "mine" / "bad.json"
    bad.write_text("{")
    code, out, err = scaling("report", results)
    assert code == 0
    assert f"not read: {bad}" in err
    assert "1/data=2" in out


def test_compare_says_what_differs_and_how_sure_that_is(scaling, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    a = stored(tmp_path / "a", (0.100, 0.101, 0.102))
    b = stored(tmp_path / "b", (0.050, 0.0505, 0.051))
    code, out, err = scaling("compare", a, b)
    assert (code, err) == (0, "")
    assert "B is faster" in out
    assert "The environments do not differ." in out
    same = scaling("compare", a, a)[1]
    assert "not distinguishable" in same
    document = json.loads(scaling("compare", a, b, "--json")[1])
    assert [each["ratio"] for each in document["points"]] == [
        pytest.approx(2.0),
        pytest.approx(2.0),
    ]


def test_compare_needs_a_point_in_common(scaling, tmp_path):
    a = stored(tmp_path / "a", (0.1, 0.1))
    for run in runs_of("data=2/1", (0.1, 0.1)):
        store.save(tmp_path / "b" / "mine", run)
    code, out, err = scaling("compare", a, str(tmp_path / "b"))
    assert (code, out) == (2, "")
    assert "no point in common" in err


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((0.2, 0.2 * math.exp(0.01)), "B is slower"),
        ((0.05, 0.05 * math.exp(0.01)), "B is faster"),
        ((0.1, 0.1 * math.exp(0.01)), "not distinguishable"),
        ((0.1,), "one run is too few"),
    ],
)
def test_words_for_a_comparison(times, words):
    before = runs_of("1/1", (0.1, 0.1 * math.exp(0.01)))
    (point,) = compare(before, runs_of("1/1", times)).points
    assert verdict(point) == words
