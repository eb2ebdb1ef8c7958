"""Real workers that really fail, and a sweep that goes on past all of them.

Each fault is planted in a process that otherwise is the real worker: it is killed or
aborts between two blocks, has no memory left when the step is to run, or is stopped
while its peer waits for it in a collective.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import cgroup
from experiments import cores
from experiments import store
from experiments.protocol import Timing
from experiments.runner import run_sweep
from experiments.summary import RunSummary
from experiments.sweep import Sweep
from meshes.spec import MeshSpec
from scaling.measurement import Measurement
from scaling.point import Point

TESTS = Path(__file__).parent.parent
FAULTY_WORKER = TESTS / "faulty_worker.py"
FAKE_WORKER = TESTS / "fake_worker.py"

# Nothing here is about speed, and most of the time goes to compiling.
CHEAP = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
TIMING = Timing(num_blocks=3, min_block_s=0.05, max_warm_up_s=5.0)


def point(mesh: str = "1/1", batch: int = 8, **fields: object) -> Point:
    return Point(
        model="tiny",
        chip="cpu",
        mesh=MeshSpec.parse(mesh),
        global_batch_size=batch,
        seq_len=32,
        compute_dtype="float32",
        data="synthetic",
    ).model_copy(update=fields)


FAULTS = {
    "killed": point(batch=2),
    "aborts": point(batch=4),
    "memory": point(batch=8192),
    "well": point(batch=16),
    "peer killed": point("data=2/1", batch=2),
}
# In a sweep of its own: it is found out by a limit, which no other run should near.
STOPPED = {"peer stopped": point("data=2/1", batch=4)}
ALL_FAULTS = FAULTS | STOPPED


class Aftermath:
    """What the sweeps over all faults have left."""

    def __init__(self, summary: RunSummary, runs: tuple[Measurement, ...]):
        self.summary = summary
        """Of the sweep that goes on past its faults."""
        self._runs = {run.id: run for run in runs}

    def of(self, fault: str) -> Measurement:
        return self._runs[ALL_FAULTS[fault].id]


@pytest.fixture(scope="module", autouse=True)
def _cheap_compilation() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", CHEAP)
        yield


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    results = tmp_path_factory.mktemp("results")

    def swept(name: str, faults: dict[str, Point], *, hang_s: float) -> RunSummary:
        # On one core the two-process points still run, as simulated ones.
        return run_sweep(
            Sweep(
                name=name,
                question="Does the sweep go on?",
                points=tuple(faults.values()),
                timing=TIMING,
            ),
            results=results,
            repeats=1,
            timeout_s=300.0,
            hang_s=hang_s,
            worker_command=[sys.executable, "-P", str(FAULTY_WORKER)],
            cores_folder=results / "cores",
        )

    summary = swept("faults", FAULTS, hang_s=60.0)
    swept("stopped", STOPPED, hang_s=20.0)
    yield Aftermath(summary, store.load(results).measurements)
    left = [p for p in Path("/proc").glob("[0-9]*") if _mentions(p, str(results))]
    assert left == []


def _mentions(process: Path, text: str) -> bool:
    try:
        return f"SCALING_RUN={text}".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def test_every_point_has_a_final_status_and_the_healthy_one_is_ok(
    aftermath: Aftermath,
):
    assert set(aftermath.summary.statuses) == {each.id for each in FAULTS.values()}
    assert None not in aftermath.summary.statuses.values()
    assert aftermath.summary.num_left == 0
    well = aftermath.of("well")
    assert (well.status, well.reason) == ("ok", None)
    assert len(well.blocks) == TIMING.num_blocks
    assert well.environment.flags == {"XLA_FLAGS": CHEAP}


@pytest.mark.parametrize(
    ("fault", "number"), [("killed", signal.SIGKILL), ("aborts", signal.SIGABRT)]
)
def test_a_signal_between_two_blocks_is_a_crash(
    aftermath: Aftermath, fault: str, number: signal.Signals
):
    run = aftermath.of(fault)
    assert run.status == "crash"
    assert f"was ended by {number.name} after step" in str(run.reason)
    assert run.processes[0].exit_code == -number
    assert len(run.blocks) == 1


def test_memory_that_cannot_be_had_is_out_of_memory(aftermath: Aftermath):
    run = aftermath.of("memory")
    assert (run.status, run.phase) == ("out_of_memory", "run")
    assert "RESOURCE_EXHAUSTED" in str(run.reason)


def test_a_killed_peer_is_the_root_and_not_who_waited_for_it(aftermath: Aftermath):
    run = aftermath.of("peer killed")
    assert run.status == "crash"
    assert str(run.reason).startswith("process 1 was ended by SIGKILL")
    assert [each.collateral for each in run.processes] == [True, False]


def test_a_peer_that_stands_still_is_a_hang_that_names_it(aftermath: Aftermath):
    run = aftermath.of("peer stopped")
    assert run.status == "hang"
    assert str(run.reason).endswith("stopped: process 1")
    assert [each.last_step is not None for each in run.processes] == [True, True]
    assert all(each.collateral for each in run.processes)
    # The one that waits ends when asked, if it is given the time; the stopped one
    # cannot be asked.
    waiting, stopped = (each.exit_code for each in run.processes)
    assert waiting in (-signal.SIGTERM, -signal.SIGKILL)
    assert stopped == -signal.SIGKILL


def test_a_killed_runner_loses_only_the_run_in_flight(tmp_path: Path):
    """On real text, by the command line: kill -9, then the same command again."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from experiments.protocol import Timing\n"
        "from experiments.sweep import Sweep\n"
        "from scaling.point import Point\n"
        "points = tuple(\n"
        "    Point(model='tiny', chip='cpu', mesh=mesh, global_batch_size=4,\n"
        "          seq_len=32, compute_dtype='float32')\n"
        "    for mesh in ('1/1', 'data=2/1')\n"
        ")\n"
        "sweep = Sweep(name='mine', question='Does it go on?', points=points,\n"
        f"              repeats=2, timing=Timing(**{TIMING.model_dump()}))\n"
    )
    results = tmp_path / "results"
    command = [sys.executable, "-m", "experiments.cli", "run", str(file)]
    command += ["--results", str(results)]
    # Whoever else measures on this host's cores meanwhile is not to be in the way.
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environ) as runner:
        deadline = time.monotonic() + 300
        while not (first := store.load(results).measurements):
            assert runner.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        while not any(_mentions(p, str(results)) for p in Path("/proc").glob("[0-9]*")):
            assert runner.poll() is None
            time.sleep(0.02)
        runner.kill()
    deadline = time.monotonic() + 30
    while any(_mentions(p, str(results)) for p in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline, "a worker survived its runner"
        time.sleep(0.05)
    assert store.load(results).problems == ()
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env=environ
    )
    assert done.returncode == 0, done.stderr
    runs = store.load(results).measurements
    # More runs than could end between two looks; on one core one of them simulated.
    number = 4 if cores.num_cores() > 1 else 3
    assert [(run.status, run.reason) for run in runs] == [("ok", None)] * number
    assert first[0] in runs
    assert {run.point.mesh.num_slices for run in runs} == {1, 2}
    losses = [run.losses[0][1] for run in runs]
    assert losses == pytest.approx([losses[0]] * number, rel=1e-4)


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A memory control group with room for a Python process and little else."""
    own = next(cgroup.folders("memory", cgroup.MOUNT, cgroup.MEMBERSHIP), None)
    limits = ("memory.limit_in_bytes", "memory.max")
    group = None if own is None else own / f"scaling-test-{os.getpid()}"
    try:
        assert group is not None
        group.mkdir()
    except (OSError, AssertionError):
        pytest.skip("a memory control group of one's own takes root and a writable one")
    try:
        found = [group / name for name in limits if (group / name).exists()]
        if not found:
            pytest.skip("the memory controller is not passed on to control groups here")
        limit = 150 * 2**20
        found[0].write_text(str(limit))
        _keep_from_swap(group, limit)
        yield group
    finally:
        _wait_until_empty(group)
        group.rmdir()


def _keep_from_swap(group: Path, limit: int) -> None:
    """Lets nothing of the group be swapped out: the kill would come late or never."""
    # One counts memory and swap together, the other swap alone; some kernels neither.
    values = {"memory.memsw.limit_in_bytes": limit, "memory.swap.max": 0}
    for name, value in values.items():
        if (group / name).exists():
            (group / name).write_text(str(value))


def _wait_until_empty(group: Path) -> None:
    deadline = time.monotonic() + 30
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_a_kill_for_memory_that_the_group_counts_is_out_of_memory(
    memory_group: Path, tmp_path: Path
):
    """The kernel kills the worker and not the runner, which is in the same group."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"*": {"do": "devour"}}))
    sweep = Sweep(name="s", question="Who is killed?", points=(point(),), timing=TIMING)
    program = (
        "import os, sys\n"
        f"open({str(memory_group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        "from experiments.runner import run_sweep\n"
        "from experiments.sweep import Sweep\n"
        "run_sweep(Sweep.model_validate_json(sys.argv[1]), repeats=1,\n"
        f"          results={str(tmp_path)!r}, worker_command=sys.argv[2:],\n"
        f"          cores_folder={str(tmp_path / '.cores')!r})\n"
    )
    worker = [sys.executable, "-S", str(FAKE_WORKER), str(script)]
    command = [sys.executable, "-c", program, sweep.model_dump_json(), *worker]
    subprocess.run(command, check=True, timeout=120)
    (run,) = store.load(tmp_path).measurements
    assert (run.status, run.phase) == ("out_of_memory", "host")
    assert run.processes[0].exit_code == -signal.SIGKILL
    assert "killed by the kernel" in str(run.reason)
