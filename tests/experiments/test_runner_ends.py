"""The runner interrupted, killed, or not alone: what is left, and how it goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from experiments import survivors
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
        found = any(not text or text in f.read_text() for f in folder.glob(pattern))
        return found or runner.poll() is not None

    wait_until(there_or_dead, within_s=30)
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
    wait_until(lambda: not marked(fake.folder), within_s=5)
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
        assert runner.wait(timeout=10) == code
    assert marked(fake.folder) == []
    assert [path.name for path in fake.folder.iterdir()] == [".lock"]
    assert "interrupted with 6 runs still due; the same command goes on" in said
    assert "Traceback" not in said


def test_an_interrupt_while_data_is_prepared(fake: "Fake", make_point: MakePoint):
    runner = fake.start(
        make_point(data="text"), data_command=["sh", "-c", "echo x; sleep 100"]
    )
    assert runner.stderr is not None
    with runner:
        wait_for(runner, fake.folder, ".preparing.log")
        runner.send_signal(signal.SIGINT)
        said = runner.stderr.read()
        assert runner.wait(timeout=10) == 130
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
        runner.communicate(timeout=10)
    fake.behave({})
    assert fake.run(make_point()).stored == {"ok": 1}


def test_survivors_of_the_same_folder_are_ended_and_no_others(
    fake: "Fake", make_point: MakePoint, tmp_path: Path
):
    def sleeper(mark: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-S", "-c", "import time; time.sleep(100)"],
            env={**os.environ, survivors.MARK: mark},
        )

    ours = sleeper(f"{fake.folder}:0123456789ab")
    others = [
        sleeper(f"{fake.folder}2:0123456789ab"),
        sleeper(f"{tmp_path}:0123456789ab"),
        sleeper(""),
    ]
    try:
        # A process carries its environment only once it has been replaced by exec.
        wait_until(lambda: ours.pid in marked(fake.folder), within_s=10)
        fake.run(make_point())
        assert ours.wait(timeout=5) == -signal.SIGKILL
        assert [other.poll() for other in others] == [None] * 3
        assert "ended 1 processes of an earlier runner" in fake.output.getvalue()
    finally:
        for process in (ours, *others):
            process.kill()
            process.wait()


def test_a_folder_that_cannot_be_written_is_refused_in_a_sentence(
    fake: "Fake", make_point: MakePoint
):
    fake.results.write_text("a file, not a folder")
    with pytest.raises(ValueError, match=r"cannot write to .*; give another folder"):
        fake.run(make_point())
