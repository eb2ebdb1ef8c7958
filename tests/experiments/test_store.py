"""Run files: written whole, never over another, and read whatever lies beside them."""

import errno
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import store
from meshes.spec import MeshSpec
from scaling.measurement import Block
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point


def run(number: int = 0, batch: int = 8, **fields: object) -> Measurement:
    point = Point(
        model="tiny",
        chip="cpu",
        mesh=MeshSpec.parse("1/data=2"),
        global_batch_size=batch,
        seq_len=64,
    )
    environment = Environment(
        versions={"jax": "0.10.2"},
        device_kind="cpu",
        host_cpu_model="a processor",
        flags={"XLA_FLAGS": "--x"},
        code_hash="0",
        commit=None,
        hostname="here",
        num_cores=2,
    )
    return Measurement(
        id=point.id,
        run=f"{number:012x}",
        sweep="s",
        point=point,
        status="ok",
        provenance="measured",
        started_at=f"2026-01-01T00:00:{number:05d}",
        environment=environment,
        phases_s={"start": 1.0},
        blocks=(Block(steps=3, elapsed_s=(0.25, 0.5)),),
    ).model_copy(update=fields)


def test_what_is_saved_is_loaded_from_the_sweep_and_from_the_results(tmp_path: Path):
    saved = [run(1), run(2, batch=16)]
    for each in reversed(saved):
        store.save(tmp_path / "s.1-b", each)
    for folder in (tmp_path, tmp_path / "s.1-b"):
        loaded = store.load(folder)
        assert loaded.measurements == tuple(saved)
        assert loaded.problems == ()


def test_the_file_is_named_by_point_and_run_and_nothing_else_is_left(tmp_path: Path):
    path = store.save(tmp_path, run(1))
    assert os.listdir(tmp_path) == [f"{run().id}.000000000001.json"]
    assert json.loads(Path(path).read_text())["point"]["mesh"] == "1/data=2"


def test_a_run_is_never_written_over(tmp_path: Path):
    store.save(tmp_path, run(1))
    with pytest.raises(FileExistsError, match="never rewritten"):
        store.save(tmp_path, run(1, status="error", reason="other"))
    assert store.load(tmp_path).measurements == (run(1),)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_full_or_broken_disk_is_said_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    def fsync(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(store.os, "fsync", fsync)
    said = f"{run(1).id}.000000000001 could not be stored in .*: {os.strerror(number)}"
    with pytest.raises(store.NotStoredError, match=said):
        store.save(tmp_path, run(1))
    assert os.listdir(tmp_path) == []


def test_a_file_without_a_descriptor_is_durable_once_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Remote(io.FileIO):
        def fileno(self) -> int:
            raise io.UnsupportedOperation("fileno")

    path = type(store._epath(tmp_path))
    monkeypatch.setattr(path, "open", lambda self, mode: Remote(self, mode))
    store.save(tmp_path, run(1))
    monkeypatch.undo()
    assert store.load(tmp_path).measurements == (run(1),)


def test_a_diverged_loss_survives(tmp_path: Path):
    store.save(tmp_path, run(1, losses=((0, 6.0), (1, math.nan), (2, math.inf))))
    (loaded,) = store.load(tmp_path).measurements
    assert loaded.losses[0] == (0, 6.0)
    assert math.isnan(loaded.losses[1][1])
    assert loaded.losses[2] == (2, math.inf)


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path):
    assert store.load(tmp_path / "none") == store.Loaded(measurements=(), problems=())


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not JSON: cut short, or not a run"),
        (b'{"format_version": 1, "id": "a', "is not JSON: cut short, or not a run"),
        (b"\xff\xfe\x00", "is not JSON: cut short, or not a run"),
        (b"[" * 100_000, "is not JSON: cut short, or not a run"),
        (b"[1, 2]", "is not a run: it has no format_version"),
        (b'{"rows": 3}', "is not a run: it has no format_version"),
        (b'{"format_version": 7}', "has format_version 7; this version reads 1"),
        (b'{"format_version": 1}', "is not a run: id: Field required"),
    ],
)
def test_a_file_that_is_no_run_is_one_problem_and_hides_nothing(
    tmp_path: Path, content: bytes, complaint: str
):
    store.save(tmp_path, run(1))
    (tmp_path / "other.json").write_bytes(content)
    loaded = store.load(tmp_path)
    assert loaded.measurements == (run(1),)
    assert loaded.problems == (f"{tmp_path / 'other.json'}: {complaint}",)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("format_version", 2, "format_version 2"),
        ("status", "fine", "status"),
        ("extra", 1, "extra"),
        ("run", "f" * 12, "the file was renamed"),
    ],
)
def test_a_run_with_one_field_changed_is_a_problem(
    tmp_path: Path, field: str, value: object, complaint: str
):
    path = Path(store.save(tmp_path, run(1)))
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    loaded = store.load(tmp_path)
    assert loaded.measurements == ()
    (problem,) = loaded.problems
    assert complaint in problem
    assert "\n" not in problem


def test_a_point_that_is_not_the_one_of_its_id_is_a_problem(tmp_path: Path):
    path = Path(store.save(tmp_path, run(1)))
    fields = json.loads(path.read_text())
    fields["point"]["global_batch_size"] = 9
    path.write_text(json.dumps(fields))
    assert "its point has the id" in store.load(tmp_path).problems[0]


def test_folders_and_files_of_others_are_left_alone(tmp_path: Path):
    store.save(tmp_path / "s", run(1))
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "host-cpu.json").write_text("{}")
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data" / "dataset_info.json").write_text("{}")
    (tmp_path / "s" / "folder.json").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    loaded = store.load(tmp_path)
    assert loaded.measurements == (run(1),)
    (problem,) = loaded.problems
    assert "folder.json: cannot be read" in problem


def test_what_unfinished_runs_left_is_removed_and_nothing_else(tmp_path: Path):
    store.save(tmp_path, run(1))
    ended = f"{run().id}.{1:012x}"
    unfinished = f"{run().id}.{2:012x}"
    keep = (f"{ended}.json", f"{ended}.log", "mine.log", ".lock", ".mine.json.partial")
    lose = (f"{unfinished}.log", f"{unfinished}.p1.log", f".{unfinished}.json.partial")
    for name in (*keep[1:], *lose):
        (tmp_path / name).write_text("x")
    (tmp_path / f".{unfinished}.checkpoints").mkdir()
    (tmp_path / f".{unfinished}.checkpoints" / "0").write_text("x")
    store.remove_unfinished(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(keep)


def test_a_writer_killed_at_any_moment_leaves_no_half_run(tmp_path: Path):
    """A child saves without end and is killed: all that is listed can be read."""
    store.save(tmp_path, run(0))
    source = next(tmp_path.glob("*.json"))
    program = (
        "import itertools, sys\n"
        "from pathlib import Path\n"
        "from experiments import store\n"
        "from scaling.measurement import Measurement\n"
        f"run = Measurement.model_validate_json(Path({str(source)!r}).read_bytes())\n"
        "for n in itertools.count(1):\n"
        f"    store.save({str(tmp_path)!r},"
        " run.model_copy(update={'run': f'{n:012x}'}))\n"
        "    print(n, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child.stdout:
        last = [child.stdout.readline() for _ in range(20)][-1]
        child.kill()
        last = (child.stdout.read().splitlines() or [last])[-1]
    child.wait()
    loaded = store.load(tmp_path)
    assert loaded.problems == ()
    assert len(loaded.measurements) >= int(last) + 1


def test_points_and_environments_are_shared_between_runs(tmp_path: Path):
    for number in range(3):
        store.save(tmp_path, run(number))
    first, *others = store.load(tmp_path).measurements
    assert all(other.point is first.point for other in others)
    assert all(other.environment is first.environment for other in others)
