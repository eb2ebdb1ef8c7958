"""The worker, started as the runner starts it and heard to its end."""

import contextlib
import itertools
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from experiments.batches import batches
from experiments.data import prepare
from experiments.log import says_port_taken
from experiments.protocol import EVENT
from experiments.protocol import Job
from experiments.protocol import Timing
from experiments.worker import failure
from meshes.build import build_mesh
from models.counts import num_parameters
from models.presets import MODELS
from scaling.measurement import PHASES
from scaling.point import Point

WORKER = (sys.executable, "-P", "-m", "experiments.worker")
FAULTY_WORKER = (
    sys.executable,
    "-P",
    str(Path(__file__).parent.parent / "faulty_worker.py"),
)
ATTEMPTS = 3
"""At two processes that are to meet at a port: another program may take it first."""
SHORT = Timing(num_blocks=3, min_block_s=0.05, max_warm_up_s=2.0)


class SpawnedWorker:
    """One worker process; its events as they come."""

    def __init__(
        self, job: Job, *, log: Path, command: Sequence[str] = WORKER, **environ: str
    ):
        read, write = os.pipe()
        devices = job.point.mesh.devices_per_slice
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [*command, "--events_fd", str(write)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[write],
                env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), **environ},
            )
        os.close(write)
        self.log = log
        self.events: list[Any] = []
        self._lines = os.fdopen(read)
        assert self.process.stdin is not None
        # One that has died already is found out by whoever hears it.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(job.model_dump_json().encode() + b"\n")
            self.process.stdin.flush()

    def hear(self) -> Iterator[Any]:
        """Yields the events that are still to come."""
        for line in self._lines:
            self.events.append(EVENT.validate_json(line))
            yield self.events[-1]

    def hear_until(self, event: str, **fields: object) -> Any:
        """Returns the next event of that kind with those fields."""
        for heard in self.hear():
            if heard.event == event and fields.items() <= dict(heard).items():
                return heard
        raise AssertionError(f"no {event}:\n{self.log.read_text()}")

    def of_kind(self, event: str) -> list[Any]:
        """Returns the events of one kind that were heard."""
        return [heard for heard in self.events if heard.event == event]

    def losses(self) -> dict[int, float]:
        """Returns the loss of each step that was reported."""
        return {heard.step: heard.loss for heard in self.of_kind("step")}

    def end(self) -> int:
        """Hears the rest; returns the exit code."""
        for _ in self.hear():
            pass
        code = self.process.wait(timeout=60)
        self.close()
        return code

    def close(self) -> None:
        """Ends it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._lines.close()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


def spawn(
    point: Point,
    folder: Path,
    *,
    cores: tuple[int, ...] | None = None,
    command: Sequence[str] = WORKER,
    **environ: str,
) -> list[SpawnedWorker]:
    """Returns the workers of a run of `point`, one for each slice of its mesh."""
    count = point.mesh.num_slices
    coordinator = f"127.0.0.1:{_free_port()}" if count > 1 else None
    spawned_at_s = time.monotonic()
    return [
        SpawnedWorker(
            Job(
                point=point,
                run="0123456789ab",
                process_index=index,
                num_processes=count,
                coordinator=coordinator,
                spawned_at_s=spawned_at_s,
                data_folder=str(folder / "data"),
                checkpoint_folder=str(folder / "checkpoints"),
                timing=SHORT,
                cores=cores,
            ),
            log=folder / f"worker{index}.log",
            command=command,
            **environ,
        )
        for index in range(count)
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def point_of(mesh: str = "1/1", **fields: object) -> Point:
    return Point.model_validate(
        {
            "model": "tiny",
            "chip": "cpu",
            "mesh": mesh,
            "global_batch_size": 8,
            "seq_len": 32,
            "compute_dtype": "float32",
            **fields,
        }
    )


@pytest.fixture
def spawned(tmp_path: Path) -> Iterator[Callable[..., list[SpawnedWorker]]]:
    """Returns `spawn` with a folder that holds the data; ends what is left."""
    workers: list[SpawnedWorker] = []

    def spawn_here(point: Point, **options: Any) -> list[SpawnedWorker]:
        prepare(point, tmp_path / "data")
        made = spawn(point, tmp_path, **options)
        workers.extend(made)
        return made

    yield spawn_here
    for worker in workers:
        worker.close()


@dataclass(frozen=True, kw_only=True)
class EndedRun:
    worker: SpawnedWorker
    status: str
    """`/proc/PID/status` once JAX was up."""
    core: int
    checkpoints: Path
    exit_code: int


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> EndedRun:
    """Returns one whole run of one process on one core, which saves checkpoints."""
    folder = tmp_path_factory.mktemp("run")
    point = point_of("1/data=2", checkpoint_every=2)
    prepare(point, folder / "data")
    core = min(os.sched_getaffinity(0))
    (worker,) = spawn(point, folder, cores=(core,))
    try:
        worker.hear_until("platform")
        status = Path(f"/proc/{worker.process.pid}/status").read_text()
        return EndedRun(
            worker=worker,
            status=status,
            core=core,
            checkpoints=folder / "checkpoints",
            exit_code=worker.end(),
        )
    finally:
        worker.close()


@pytest.mark.fast
def test_a_run_says_what_it_runs_on_and_where_it_is(ended):
    assert ended.exit_code == 0, ended.worker.log.read_text()
    (platform,) = ended.worker.of_kind("platform")
    assert (platform.device_kind, platform.num_devices) == ("cpu", 2)
    assert {"python", "jax", "jaxlib", "flax", "optax"} <= platform.versions.keys()
    phases = ended.worker.of_kind("phase")
    assert tuple(phase.name for phase in phases) == PHASES[:-1]
    stamps = [phase.at_s for phase in phases]
    assert stamps == sorted(stamps)


@pytest.mark.fast
def test_a_process_stays_on_its_cores(ended):
    assert f"Cpus_allowed_list:\t{ended.core}\n" in ended.status


@pytest.mark.fast
def test_steps_and_blocks_follow_each_other(ended):
    steps = ended.worker.of_kind("step")
    warm = [step for step in steps if step.warm_up_s is not None]
    assert [step.step for step in warm] == list(range(len(warm)))
    assert len(warm) >= 2
    blocks = ended.worker.of_kind("block")
    size = blocks[0].steps
    assert [block.steps for block in blocks] == [size] * SHORT.num_blocks
    ends = [len(warm) - 1 + size * (n + 1) for n in range(len(blocks))]
    assert [block.last_step for block in blocks] == ends
    assert [step.step for step in steps[len(warm) :]] == ends
    assert all(block.elapsed_s > 0 for block in blocks)


@pytest.mark.fast
def test_the_loss_on_the_real_text_falls(ended):
    losses = ended.worker.losses()
    assert losses[0] == pytest.approx(math.log(512), rel=0.02)
    assert losses[max(losses)] < losses[0] - 0.1


@pytest.mark.fast
def test_a_run_ends_with_what_it_took(ended):
    finished = ended.worker.events[-1]
    assert finished.event == "finished"
    assert finished.compilations_in_window == 0
    assert finished.peak_device_bytes is None
    assert finished.peak_host_bytes > 50 * 2**20
    state_bytes = 12 * num_parameters(MODELS["tiny"])
    assert state_bytes <= finished.state_bytes_per_device <= 1.1 * state_bytes


@pytest.mark.fast
def test_the_newest_checkpoint_is_whole_when_the_run_has_finished(ended):
    (checkpoints,) = ended.checkpoints.iterdir()
    saved = sorted(int(folder.name) for folder in checkpoints.iterdir())
    steps_done = ended.worker.of_kind("block")[-1].last_step + 1
    assert saved[-1] == steps_done // 2 * 2


@pytest.mark.fast
def test_two_processes_learn_what_one_learns(spawned, ended):
    # The slower network carries the tensor axis: both processes read the same rows.
    for _ in range(ATTEMPTS):
        workers = spawned(point_of("tensor=2/data=2"))
        codes = [worker.end() for worker in workers]
        logs = [worker.log.read_text() for worker in workers]
        if not any(map(says_port_taken, logs)):
            break
    assert codes == [0, 0], logs
    first, second = (worker.losses() for worker in workers)
    assert first == second
    assert _blocks(workers[0]) == _blocks(workers[1])
    alone = ended.worker.losses()
    both = first.keys() & alone.keys()
    assert {0, 1} <= both
    for step in both:
        assert first[step] == pytest.approx(alone[step], rel=1e-5)


def _blocks(worker: SpawnedWorker) -> list[tuple[int, int]]:
    return [(block.steps, block.last_step) for block in worker.of_kind("block")]


TWO_PROCESSES = """
import itertools, sys
from pathlib import Path
import jax, numpy as np
from experiments.agreement import check_same
from experiments.batches import batches, local_rows
from experiments.timing import from_process_0
from meshes.build import build_mesh, named_sharding
from scaling.point import Point

index, port, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
jax.distributed.initialize(f"127.0.0.1:{port}", 2, index)
point = Point.model_validate_json(sys.argv[4])
expected = np.load(folder / "expected.npy")
for text in ("data=2/data=2", "fsdp=2/tensor=2", "tensor=2/fsdp=2", "data=2/tensor=2"):
    moved = point.model_validate({**point.model_dump(), "mesh": text})
    mesh = build_mesh(moved.mesh)
    rows = local_rows(named_sharding(mesh, ("batch",)), (8, 33))
    assert len(rows) == (8 if text.startswith("tensor") else 4), (text, rows)
    for step, batch in enumerate(itertools.islice(batches(moved, folder, mesh), 3)):
        assert batch.shape == (8, 33), batch.shape
        for shard in batch.addressable_shards:
            np.testing.assert_array_equal(shard.data, expected[step][shard.index])
assert from_process_0(5 + index) == 5
check_same("00" * 32)
try:
    check_same(f"{index:02x}" * 32)
except RuntimeError as error:
    assert "processes [1]" in str(error), error
else:
    raise AssertionError("different programs were not told apart")
print("agreed")
jax.distributed.shutdown()
"""


def test_batches_and_agreement_over_two_processes(tmp_path):
    point = point_of()
    prepare(point, tmp_path)
    mesh = build_mesh(point.mesh, jax.devices()[:1])
    first = itertools.islice(batches(point, tmp_path, mesh), 3)
    np.save(tmp_path / "expected.npy", [np.asarray(batch) for batch in first])
    for _ in range(ATTEMPTS):
        codes, outputs = two_processes(str(tmp_path), point.model_dump_json())
        if not any(map(says_port_taken, outputs)):
            break
    assert codes == [0, 0], outputs
    assert all("agreed" in output for output in outputs)


def two_processes(*arguments: str) -> tuple[list[int], list[str]]:
    """Returns exit codes and outputs of `TWO_PROCESSES`."""
    port = str(_free_port())
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", TWO_PROCESSES, str(index), port, *arguments],
            env={**os.environ, "JAX_NUM_CPU_DEVICES": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [process.returncode for process in processes], outputs


@pytest.mark.fast
def test_other_devices_than_the_points_are_refused(spawned):
    (worker,) = spawned(point_of("1/1", chip="v5e"))
    assert worker.end() == 1
    failed = worker.events[-1]
    assert failed.status == "wrong_platform"
    assert failed.reason == "chip 'v5e' asked for, 'cpu' ('cpu') attached"


def test_another_number_of_devices_is_refused(spawned):
    (worker,) = spawned(point_of("1/data=2"), JAX_NUM_CPU_DEVICES="3")
    assert worker.end() == 1
    failed = worker.events[-1]
    assert failed.status == "error"
    assert "2 devices and 3 are attached" in failed.reason
    assert "Traceback" in worker.log.read_text()


def test_the_worker_ends_when_the_runner_is_gone(spawned):
    (worker,) = spawned(point_of())
    worker.hear_until("phase", name="data")
    worker.process.stdin.close()
    # In the middle of a compilation, and long before it would have finished.
    worker.process.wait(timeout=60)
    worker.end()
    assert "finished" not in {event.event for event in worker.events}


PARENT = """
import os, subprocess, sys, time
read, write = os.pipe()
child = subprocess.Popen(
    [sys.executable, "-P", "-m", "experiments.worker", "--events_fd", "1"],
    stdin=read,
    # The child holds the pipe open itself: only the death of the parent is left.
    pass_fds=[write],
)
os.write(write, sys.argv[1].encode() + b"\\n")
print(child.pid, flush=True)
time.sleep(600)
"""


def test_the_worker_dies_with_its_parent(tmp_path):
    job = Job(
        point=point_of(data="synthetic"),
        run="0" * 12,
        spawned_at_s=0,
        data_folder=str(tmp_path),
        # By itself it would go on for an hour.
        timing=Timing(num_blocks=3600, min_block_s=1.0),
    )
    # Its standard output stays open: the worker is not to end for want of a listener.
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, job.model_dump_json()],
        stdout=subprocess.PIPE,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "1"},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            assert b"start" in parent.stdout.readline()
            assert is_running(pid)
        finally:
            parent.kill()
            parent.wait()
        try:
            deadline = time.monotonic() + 30
            while is_running(pid):
                assert time.monotonic() < deadline, "it outlived its parent"
                time.sleep(0.01)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Returns whether a process is there; one that nobody has waited for is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_running_out_of_memory_is_reported_with_its_bytes(spawned):
    point = point_of(model="small", data="synthetic")
    (worker,) = spawned(point, command=FAULTY_WORKER)
    assert worker.end() == 1
    failed = worker.events[-1]
    assert (failed.status, failed.phase) == ("out_of_memory", "run")
    assert failed.needed_bytes > 2**20


def test_failures_have_one_line_and_their_phase():
    failed = failure(ValueError("first\n  second"), after="devices")
    assert (failed.status, failed.reason) == ("error", "ValueError: first second")
    memory = RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")
    assert failure(memory, after="state").phase == "compile"
    assert failure(memory, after="compile").phase == "run"
    assert failure(memory, after="compile").needed_bytes == 64
    assert failure(MemoryError(), after="state").phase == "host"
