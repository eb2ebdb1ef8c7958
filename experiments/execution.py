"""Execution: one run of one point, from spawn to its record."""

import sys
import time
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments import cgroup
from experiments import log
from experiments import record
from experiments import survivors
from experiments.interrupt import Interrupt
from experiments.launch import local
from experiments.outcome import Outcome
from experiments.outcome import ProcessEnd
from experiments.outcome import outcome
from experiments.places import Places
from experiments.process import TERM_GRACE_S
from experiments.process import WorkerProcess
from experiments.process import end_all
from experiments.process import wait_readable
from experiments.protocol import Task
from experiments.protocol import Timing
from experiments.watch import Ending
from experiments.watch import Limits
from experiments.watch import watch
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.point import Point


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all runs of a sweep share."""

    task: Task
    sweep: str
    places: Places
    command: Sequence[str]
    timing: Timing
    limits: Limits
    interrupt: Interrupt
    tick: Callable[[], None]
    """Shows that time passes; called about once a second by the runner's own thread."""


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What came of a run."""

    measurement: Measurement | None
    """None if the runner was interrupted."""
    spawned_at_s: float
    """`time.monotonic()` just before spawn."""
    total_s: float
    """From just before spawn to the last exit."""
    name: str
    """Under which its logs and checkpoints lie."""
    logs: tuple[Path, ...]
    """One of each process."""


def execute(
    setting: Setting,
    point: Point,
    *,
    cores: tuple[tuple[int, ...], ...] | None,
    provenance: Provenance,
    environment: Environment,
) -> Executed:
    """Runs a point once and returns its record.

    No process of the run is left. Its logs and checkpoints are, if it has a record:
    whoever stores that clears up after it. A run whose coordinator's port was taken by
    another program in the meantime is started once more.
    """
    for attempt in ("first", "last"):
        run = _Run(setting, point, cores)
        done = run.go()
        measurement = None
        if done.ending == "interrupted":
            setting.places.discard(run.name, run.logs)
        elif attempt == "first" and _port_was_taken(done):
            setting.places.discard(run.name, run.logs)
            continue
        else:
            measurement = run.record(done, provenance, environment)
        return Executed(
            measurement=measurement,
            spawned_at_s=run.spawned_at_s,
            total_s=run.total_s,
            name=run.name,
            logs=run.logs,
        )
    raise AssertionError("the last attempt returns")


@dataclass(frozen=True, kw_only=True)
class _Done:
    ending: Ending
    outcome: Outcome
    ends: tuple[ProcessEnd, ...]


class _Run:
    """One attempt: the processes of a run while they live."""

    def __init__(
        self,
        setting: Setting,
        point: Point,
        cores: tuple[tuple[int, ...], ...] | None,
    ):
        self._setting = setting
        self._point = point
        self._cores = cores
        self._run = record.new_run()
        self.name = f"{point.id}.{self._run}"
        processes = range(local.num_processes(setting.task, point))
        self.logs = tuple(setting.places.log(self.name, index) for index in processes)
        self._started_at = record.now_utc()
        self.spawned_at_s = time.monotonic()
        self._ended_at_s = self.spawned_at_s

    @property
    def total_s(self) -> float:
        """Just before spawn to the end of the last process."""
        return self._ended_at_s - self.spawned_at_s

    def go(self) -> _Done:
        """Starts the processes, follows them to their end, and judges it."""
        kills_before = cgroup.oom_kills()
        mark = survivors.mark(str(self._setting.places.work), self._run)
        try:
            workers = self._start(mark)
        except OSError as error:
            reason = f"a process could not be started: {error}"
            judged = Outcome(status="error", reason=log.one_line(reason))
            return _Done(ending="abnormal", outcome=judged, ends=())
        try:
            ending = watch(
                workers,
                spawned_at_s=self.spawned_at_s,
                limits=self._setting.limits,
                interrupt=self._setting.interrupt,
            )
            states = [_state(worker) for worker in workers]
        finally:
            _end(workers)
            survivors.end_marked(mark)
        self._ended_at_s = max(worker.ended_at_s or 0.0 for worker in workers)
        kills_after = cgroup.oom_kills()
        counted = (kills_after or 0) > (kills_before or 0)
        done = self._judge(workers, states, ending, oom_kill_counted=counted)
        # Only now: the last words of a long log may be the reason. And once more, as
        # what was written since the watch last looked is as long as it likes.
        for worker in workers:
            worker.cut_log()
        return done

    def record(
        self, done: _Done, provenance: Provenance, environment: Environment
    ) -> Measurement:
        """Returns the Measurement of this run."""
        if not done.ends:
            return record.not_run(
                self._point,
                # Its own name, which is that of the logs of those that did start.
                run=self._run,
                sweep=self._setting.sweep,
                status=done.outcome.status,
                reason=done.outcome.reason or "",
                provenance=provenance,
                environment=environment,
            )
        return record.of_run(
            self._point,
            run=self._run,
            sweep=self._setting.sweep,
            started_at=self._started_at,
            spawned_at_s=self.spawned_at_s,
            ended_at_s=self._ended_at_s,
            ends=done.ends,
            cores=self._cores or [None] * len(done.ends),
            outcome=done.outcome,
            provenance=provenance,
            environment=environment,
        )

    def _start(self, mark: str) -> list[WorkerProcess]:
        places = self._setting.places
        checkpoints = None
        if self._point.checkpoint_every:
            checkpoints = places.checkpoints(self.name)
        launch = local.Launch(
            task=self._setting.task,
            point=self._point,
            run=self._run,
            mark=mark,
            cores=self._cores,
            spawned_at_s=self.spawned_at_s,
            data_folder=places.data,
            checkpoint_folder=checkpoints,
            timing=self._setting.timing,
            hlo_path=places.hlo(self.name),
        )
        return local.start(launch, command=self._setting.command, logs=self.logs)

    def _judge(
        self,
        workers: Sequence[WorkerProcess],
        states: Sequence[str | None],
        ending: Ending,
        *,
        oom_kill_counted: bool,
    ) -> _Done:
        ends = tuple(
            record.process_end(worker, log_text=log.excerpt(worker.log), state=state)
            for worker, state in zip(workers, states, strict=True)
        )
        judged = outcome(
            ends,
            ending=ending,
            limits=self._setting.limits,
            num_devices=self._point.mesh.num_devices,
            oom_kill_counted=oom_kill_counted,
        )
        return _Done(ending=ending, outcome=judged, ends=ends)


def _end(workers: Sequence[WorkerProcess]) -> None:
    """Ends what still runs; a worker that said why it fails may end by itself."""
    failed = [worker for worker in workers if worker.transcript.failed is not None]
    end_all([worker for worker in workers if worker not in failed])
    deadline = time.monotonic() + TERM_GRACE_S
    for worker in failed:
        while not worker.note_end() and time.monotonic() < deadline:
            left_s = deadline - time.monotonic()
            wait_readable(worker.exit_descriptors(), timeout_s=left_s)
    end_all(failed)
    for worker in workers:
        worker.close()


def _port_was_taken(done: _Done) -> bool:
    """Returns whether process 0 failed because its coordinator's port was in use."""
    if len(done.ends) < 2 or done.outcome.root != 0:
        return False
    text = f"{done.outcome.reason}\n{done.ends[0].log_text}"
    return "state" not in done.ends[0].transcript.phase_ends_s and log.says_port_taken(
        text
    )


def _state(worker: WorkerProcess) -> str | None:
    """Returns the kernel's letter for the state of a process, T if it is stopped."""
    try:
        stat = Path(f"/proc/{worker.pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0]


def worker_command() -> list[str]:
    """Returns the command of a worker, without the flag that the runner adds."""
    return [sys.executable, "-P", "-m", "experiments.worker"]
