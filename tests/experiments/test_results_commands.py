import json
import math

import pytest

from experiments import cli
from experiments import store
from experiments.commands.compare import verdict
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


def runs_of(mesh, step_times_s, provenance="measured", **fields):
    point = Point(
        model="tiny",
        chip="cpu",
        mesh=MeshSpec.parse(mesh),
        **{"global_batch_size": 16, "seq_len": 128, **fields},
    )
    return [
        Measurement(
            id=point.id,
            run=f"{number:012x}",
            sweep="mine",
            point=point,
            status="ok",
            provenance=provenance,
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


def test_compare_fits_80_columns_with_every_mesh_and_word_whole(
    scaling, tmp_path, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    long = "data=2/data=2,fsdp=2,tensor=2"
    for side, time in (("a", 0.1), ("b", 0.12)):
        for mesh in (long, "1/data=2", "1/1"):
            for regime in ("weak", "strong"):
                for run in runs_of(mesh, (time, 1.01 * time), regime=regime):
                    store.save(tmp_path / side / "mine", run)
    out = scaling("compare", str(tmp_path / "a"), str(tmp_path / "b"))[1]
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 80
    titles = [line for line in lines if line.startswith("tiny on cpu")]
    assert titles == [
        "tiny on cpu, 128 tokens, strong, measured",
        "tiny on cpu, 128 tokens, weak, measured",
    ]
    first = lines[lines.index(titles[0]) + 2 : lines.index(titles[1])]
    meshes = [line.split()[0] for line in first]
    assert meshes == ["1/1", "1/data=2", "data=2/data=2,", "fsdp=2,tensor=2"]
    assert all(line.split()[1] == "16" for line in first[:3])


def test_points_that_look_alike_are_told_apart_by_their_id(scaling, tmp_path):
    runs = [*runs_of("1/1", (0.1,)), *runs_of("1/1", (0.1,), remat="full")]
    for run in runs:
        store.save(tmp_path / "a" / "mine", run)
    out = scaling("compare", str(tmp_path / "a"), str(tmp_path / "a"))[1]
    assert all(run.id in out for run in runs)


def test_compare_says_what_has_no_counterpart_and_why(scaling, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    a = stored(tmp_path / "a", (0.1, 0.1))
    b = stored(tmp_path / "b", (0.1, 0.1))
    for side, provenance in (("a", "measured"), ("b", "simulated")):
        for run in runs_of("1/data=4", (0.1, 0.1), provenance):
            store.save(tmp_path / side / "mine", run)
    for run in runs_of("data=2/1", (0.1,), regime="weak"):
        store.save(tmp_path / "a" / "mine", run)
    out = " ".join(scaling("compare", a, b)[1].split())
    assert (
        "only in A: mesh data=2/1, batch 16: tiny on cpu, 128 tokens, weak, measured"
    ) in out
    assert "B has it simulated, which is not compared" in out
    assert "A has it measured, which is not compared" in out


def test_compare_of_nothing_but_other_provenances_says_that(scaling, tmp_path):
    for side, provenance in (("a", "measured"), ("b", "simulated")):
        for run in runs_of("1/data=4", (0.1, 0.1), provenance):
            store.save(tmp_path / side / "mine", run)
    code, _, err = scaling("compare", str(tmp_path / "a"), str(tmp_path / "b"))
    assert code == 2
    assert "measured against simulated, which are not compared" in err


def test_a_file_is_no_results_folder(scaling, tmp_path):
    results = stored(tmp_path / "results", (0.1, 0.1))
    file = tmp_path / "README.md"
    file.write_text("words")
    for arguments in (
        ("report", str(file)),
        ("compare", results, str(file)),
        ("compare", str(file), results),
    ):
        code, out, err = scaling(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith(f"scaling: '{file}' is a file; it takes ")


def test_a_report_that_cannot_be_written_is_one_sentence(scaling, tmp_path):
    results = stored(tmp_path / "results", (0.1, 0.1))
    file = tmp_path / "file"
    file.write_text("words")
    for out in (file, file / "below", "/proc/x", "/proc/1/x/y"):
        code, printed, err = scaling("report", results, "--out", str(out))
        assert (code, printed) == (2, "")
        assert err.startswith(f"scaling: the report cannot be written to '{out}': ")
        assert err.endswith("; choose another folder with --out\n")
        assert err.count("\n") == 1
    assert file.read_text() == "words"


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
