"""Local launcher: the processes of a run as children on this machine.

On CPU a run has one process for every slice, joined over loopback. On TPU and GPU one
process holds all devices of the host; several slices need a launcher that starts
processes on several hosts, which there is none of yet.
"""

import os
import socket
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments import environment as environments
from experiments import survivors
from experiments.process import WorkerProcess
from experiments.process import end_all
from experiments.protocol import Job
from experiments.protocol import Task
from experiments.protocol import Timing
from meshes import hardware
from scaling.point import Point

# JAX would take SIGTERM as news of a preemption and go on, and so would never end.
_ALWAYS = {"JAX_ENABLE_PREEMPTION_SERVICE": "0"}
_COMPILE = {
    # Devices of absent hardware come from its compiler; JAX itself starts none of it.
    "JAX_PLATFORMS": "cpu",
    # libtpu locks the machine's TPU, of which there is none, for itself alone.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    # No metadata server is asked what TPU this machine is, nor is it complained about.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    # What libtpu warns of belongs into the run's log, not into a folder for all.
    "TPU_LOG_DIR": "disabled",
    "TPU_STDERR_LOG_LEVEL": "1",
}
_ABOUT_TPUS = ("TPU_", "CLOUD_TPU_", "MEGASCALE_")
"""How the names of variables begin that describe the TPUs of this machine."""
_JAX_PLATFORMS = {"cpu": "cpu", "tpu": "tpu", "gpu": "cuda"}


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What the processes of one run are told."""

    task: Task
    point: Point
    run: str
    mark: str
    """By which survivors of this run are found."""
    cores: tuple[tuple[int, ...], ...] | None
    """Of each process; None confines none."""
    spawned_at_s: float
    data_folder: Path
    checkpoint_folder: Path | None
    timing: Timing
    hlo_path: Path

    @property
    def num_processes(self) -> int:
        """Processes of the run."""
        return num_processes(self.task, self.point)


def num_processes(task: Task, point: Point) -> int:
    """Returns one for each slice, where the slices are there; one that compiles."""
    return point.mesh.num_slices if task == "measure" else 1


def why_not(point: Point) -> str | None:
    """Returns why this launcher cannot start a feasible point, or None."""
    if hardware.chip(point.chip).platform == "cpu" or point.mesh.num_slices == 1:
        return None
    return (
        f"mesh '{point.mesh}' has {point.mesh.num_slices} slices, which needs a "
        f"launcher for several hosts; on {point.chip} one slice can be measured"
    )


def start(
    launch: Launch, *, command: Sequence[str], logs: Sequence[Path]
) -> list[WorkerProcess]:
    """Starts every process of a run.

    Raises OSError if one cannot be started; none is left then.
    """
    environ = worker_environ(launch.point, task=launch.task, mark=launch.mark)
    coordinator = None
    if launch.num_processes > 1:
        coordinator = f"127.0.0.1:{free_port()}"
    workers: list[WorkerProcess] = []
    try:
        for index in range(launch.num_processes):
            job = _job(launch, index, coordinator)
            log = logs[index]
            workers.append(WorkerProcess(command, job=job, environ=environ, log=log))
    except OSError:
        end_all(workers)
        for worker in workers:
            worker.close()
        raise
    return workers


def worker_environ(
    point: Point,
    *,
    mark: str,
    task: Task = "measure",
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Returns the environment of a worker: the user's, with platform and mark set."""
    user = os.environ if environ is None else environ
    if task == "compile":
        return for_compiling(user) | _ALWAYS | _COMPILE | {survivors.MARK: mark}
    result = dict(user) | _ALWAYS
    result.pop("JAX_NUM_CPU_DEVICES", None)
    result[survivors.MARK] = mark
    platform = hardware.chip(point.chip).platform
    result["JAX_PLATFORMS"] = _JAX_PLATFORMS[platform]
    if platform == "cpu":
        result["JAX_NUM_CPU_DEVICES"] = str(point.mesh.devices_per_slice)
    return result


def for_compiling(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that reach a compiler: none about the machine's devices."""
    return {
        name: value
        for name, value in environ.items()
        if name not in ("JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS")
        and not name.startswith(_ABOUT_TPUS)
    }


def replaced_variables(
    points: Sequence[Point], environ: Mapping[str, str]
) -> dict[str, str]:
    """Returns the user's variables whose value a worker of `points` does not get."""
    result: dict[str, str] = {}
    for name in environments.SET_BY_RUNNER:
        if name in environ and any(
            worker_environ(point, mark="", environ=environ).get(name) != environ[name]
            for point in points
        ):
            result[name] = environ[name]
    return result


def free_port() -> int:
    """Returns a loopback port that was free just now; another may take it first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _job(launch: Launch, index: int, coordinator: str | None) -> Job:
    checkpoint = launch.checkpoint_folder
    return Job(
        task=launch.task,
        point=launch.point,
        run=launch.run,
        process_index=index,
        num_processes=launch.num_processes,
        coordinator=coordinator,
        cores=None if launch.cores is None else launch.cores[index],
        spawned_at_s=launch.spawned_at_s,
        data_folder=str(launch.data_folder),
        checkpoint_folder=None if checkpoint is None else str(checkpoint),
        timing=launch.timing,
        hlo_path=str(launch.hlo_path) if launch.task == "compile" else None,
    )
