"""The runner interrupted, killed, or not alone: what is left, and how it goes on."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from experiments import cores
from experiments import lock
from experiments import store
from experiments import survivors
from experiments.lock import BusyError
from experiments.lock import CoresBusyError
from experiments.lock import FolderBusyError
from scaling.point import Point

if TYPE_CHECKING:
    from conftest import Fake

MakePoint = Callable[..., Point]

# Said by a fake worker before it hangs. Its log is there before it is: a process has
# neither children nor its own environment until it has said something.
HANGS = "hanging now"


def marked(folder: Path) -> list[int]:
    """Returns the processes that work for a sweep's folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
        except OSError:
            continue
        if f"SCALING_RUN={folder}:".encode() in environ:
            found.append(int(process.name))
    return found


def wait_until(condition: Callable[[], object], *, within_s: float) -> float:
    """Returns how long it took until the condition held."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < within_s, "waited too long"
        time.sleep(0.02)
    return time.monotonic() - began_s


def wait_for(
    runner: subprocess.Popen[str], folder: Path, pattern: str, text: str = ""
) -> None:
    """Waits until the runner has come so far that such a file has that text."""

    def there_or_dead() -> bool:
        # A log without fault is removed: it may be gone before it can be read.
        found = any(text in read(file) for file in folder.glob(pattern))
        return found or runner.poll() is not None

    def read(file: Path) -> str:
        with contextlib.suppress(FileNotFoundError):
            return file.read_text()
        return ""

    wait_until(there_or_dead, within_s=60)
    if runner.poll() is not None:
        pytest.fail(f"the runner ended: {runner.communicate()}")


def points_of(make_point: MakePoint) -> list[Point]:
    return [make_point("1/1", batch) for batch in (1, 2, 3)]


@pytest.mark.parametrize("behaviour", [{}, {"deaf": True, "ignore_term": True}])
def test_killed_with_9_no_worker_survives_and_the_next_command_completes(
    fake: "Fake", make_point: MakePoint, behaviour: dict[str, object]
):
    points = points_of(make_point)
    fake.behave({"1/1 B=2": {"do": "hang", "say": "x", **behaviour}})
    runner = fake.start(*points, repeats=2)
    with runner:
        # The first round reaches the point that hangs, wherever it is in the order.
        wait_for(runner, fake.folder, "*.log")
        runner.kill()
    wait_until(lambda: not marked(fake.folder), within_s=30)
    before = fake.stored()
    assert all(run.status == "ok" for run in before)
    fake.behave({})
    summary = fake.run(*points, repeats=2)
    after = fake.stored()
    assert summary.statuses == {point.id: "ok" for point in points}
    assert len(after) == 6
    assert {run.run for run in before} <= {run.run for run in after}
    left = [path.name for path in fake.folder.iterdir() if path.suffix != ".json"]
    assert left == [".lock"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_an_interrupted_runner_ends_its_workers_and_stores_nothing_half(
    fake: "Fake", make_point: MakePoint, number: signal.Signals, code: int
):
    fake.behave({"*": {"do": "hang", "say": HANGS, "children": ["own"]}})
    runner = fake.start(*points_of(make_point), repeats=2)
    assert runner.stderr is not None
    with runner:
        wait_for(runner, fake.folder, "*.log", HANGS)
        runner.send_signal(number)
        said = runner.stderr.read()
        assert runner.wait(timeout=60) == code
    assert marked(fake.folder) == []
    assert [path.name for path in fake.folder.iterdir()] == [".lock"]
    assert "interrupted with 6 runs still due; the same command goes on" in said
    assert "Traceback" not in said


def slices_of(make_point: MakePoint) -> list[Point]:
    fields = {"chip": "v5e", "slice_shape": (4, 4), "seq_len": 256}
    return [make_point("1/fsdp=16", 16 * each, **fields) for each in (1, 2, 3, 4)]


def both_hang(fake: "Fake", points: list[Point]) -> subprocess.Popen[str]:
    """Returns a runner two of whose compilations at a time hang."""
    fake.behave({"*": {"do": "hang", "say": HANGS}})
    runner = fake.start(*points, kind="compiling", work={"jobs": 2})
    wait_until(
        lambda: [*fake.folder.glob("*.log")][1:] and len(marked(fake.folder)) >= 2,
        within_s=60,
    )
    return runner


def test_an_interrupt_ends_all_compilations_in_flight(
    fake: "Fake", make_point: MakePoint
):
    runner = both_hang(fake, slices_of(make_point))
    assert runner.stderr is not None
    with runner:
        runner.send_signal(signal.SIGINT)
        said = runner.stderr.read()
        assert runner.wait(timeout=60) == 130
    assert marked(fake.folder) == []
    assert [path.name for path in fake.folder.iterdir()] == [".lock"]
    assert "interrupted with 4 runs still due" in said
    assert "Traceback" not in said


def test_killed_with_9_several_compilations_are_lost_and_made_again(
    fake: "Fake", make_point: MakePoint
):
    points = slices_of(make_point)
    fake.behave({})
    assert fake.compile(points[0]).stored == {"ok": 1}
    with both_hang(fake, points) as runner:
        runner.kill()
    wait_until(lambda: not marked(fake.folder), within_s=30)
    fake.behave({})
    assert fake.compile(*points, work={"jobs": 2}).stored == {"ok": 3}
    assert len([*fake.folder.glob("*.hlo.gz")]) == 4


def test_what_cannot_be_stored_ends_the_other_compilations_too(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    first, *others = slices_of(make_point)
    fake.behave({"1/fsdp=16 B=16": {}, "*": {"do": "hang"}})

    def save(*_: object) -> str:
        raise store.NotStoredError("no space")

    monkeypatch.setattr(store, "save", save)
    with pytest.raises(store.NotStoredError):
        fake.compile(first, *others[:1], work={"jobs": 2})
    assert marked(fake.folder) == []


def test_an_interrupt_while_data_is_prepared(fake: "Fake", make_point: MakePoint):
    runner = fake.start(
        make_point(data="text"),
        work={"data_command": ["sh", "-c", "echo x; sleep 100"]},
    )
    assert runner.stderr is not None
    with runner:
        wait_for(runner, fake.folder, ".preparing.log")
        runner.send_signal(signal.SIGINT)
        said = runner.stderr.read()
        assert runner.wait(timeout=60) == 130
    assert "interrupted with 1 run still due" in said
    assert fake.stored() == ()


def test_a_second_runner_is_refused_while_the_first_works(
    fake: "Fake", make_point: MakePoint
):
    fake.behave({"*": {"do": "hang", "say": HANGS}})
    runner = fake.start(make_point())
    with runner:
        wait_for(runner, fake.folder, "*.log", HANGS)
        with pytest.raises(FolderBusyError, match=f"process {runner.pid}.*--results"):
            fake.run(make_point())
        assert len(marked(fake.folder)) == 1, "the other's worker must live on"
        runner.send_signal(signal.SIGINT)
        runner.communicate(timeout=60)
    fake.behave({})
    assert fake.run(make_point()).stored == {"ok": 1}


def test_a_second_runner_in_another_folder_is_refused_the_same_cores(
    fake: "Fake",
    make_point: MakePoint,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    core, *_ = cores.spread(os.sched_getaffinity(0))
    fake.behave({"*": {"do": "hang", "say": HANGS}})
    runner = fake.start(make_point())
    with runner:
        wait_for(runner, fake.folder, "*.log", HANGS)
        other = {"results": tmp_path / "elsewhere"}
        monkeypatch.setattr(cores, "available_cores", lambda: (core,))
        said = f"process {runner.pid}.*core {core} .*wait for it.*taskset"
        with pytest.raises(CoresBusyError, match=said):
            fake.run(make_point(), **other)
        assert not list((tmp_path / "elsewhere").rglob("*.json"))
        # Cores of its own are no matter.
        fake.behave({})
        monkeypatch.setattr(cores, "available_cores", lambda: (core + 1000,))
        assert fake.run(make_point(), **other).stored == {"ok": 1}
        runner.send_signal(signal.SIGINT)
        runner.communicate(timeout=60)
    monkeypatch.setattr(cores, "available_cores", lambda: (core,))
    assert fake.run(make_point(), **other).stored == {}


def test_a_simulated_point_takes_all_cores_and_another_chip_none(
    fake: "Fake", make_point: MakePoint
):
    for core, point in ((1, make_point("1/data=4")), (1, make_point("1/data=2"))):
        with (
            lock.cores_held([core], fake.cores_folder),
            pytest.raises(CoresBusyError, match="core 1 "),
        ):
            fake.run(point)
    with lock.cores_held([0, 1], fake.cores_folder):
        fake.run(make_point("data=2/fsdp=4", chip="v5e", slice_shape=(2, 2)))
    with lock.cores_held([1], fake.cores_folder):
        assert fake.run(make_point()).stored == {"ok": 1}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    with (
        pytest.raises(FolderBusyError, match=r"cannot lock .*: .*; .*--results"),
        lock.locked(tmp_path),
    ):
        pass
    with (
        pytest.raises(CoresBusyError, match=r"by a lock in .*: .*; .*TMPDIR"),
        lock.cores_held([0], tmp_path),
    ):
        pass
    assert issubclass(FolderBusyError, BusyError)


def test_survivors_of_the_same_results_are_ended_and_no_others(
    fake: "Fake", make_point: MakePoint, tmp_path: Path
):
    def sleeper(mark: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-S", "-c", "import time; time.sleep(100)"],
            env={**os.environ, survivors.MARK: mark},
        )

    left, at_work = fake.results / "left", fake.results / "at_work"
    ours = sleeper(f"{fake.folder}:0123456789ab"), sleeper(f"{left}:0123456789ab")
    others = [
        sleeper(f"{at_work}:0123456789ab"),
        sleeper(f"{fake.results}2/fake:0123456789ab"),
        sleeper(f"{tmp_path}:0123456789ab"),
        sleeper(""),
    ]
    try:
        # A process carries its environment only once it has been replaced by exec.
        for folder in (fake.folder, left, at_work, Path(f"{fake.results}2/fake")):
            wait_until(lambda at=folder: marked(at), within_s=30)
        with lock.locked(at_work):
            fake.run(make_point())
        assert [each.wait(timeout=30) for each in ours] == [-signal.SIGKILL] * 2
        assert [other.poll() for other in others] == [None] * 4
        assert "ended 2 processes of an earlier runner" in fake.output.getvalue()
    finally:
        for process in (*ours, *others):
            process.kill()
            process.wait()


def test_a_folder_that_cannot_be_written_is_refused_in_a_sentence(
    fake: "Fake", make_point: MakePoint
):
    fake.results.write_text("a file, not a folder")
    with pytest.raises(ValueError, match=r"cannot write to .*; give another folder"):
        fake.run(make_point())
