"""Runner: measures the points of a sweep, one fresh process group for each run.

Plans what is still due, ends what an earlier runner left behind, then runs one point
after the other in shuffled rounds. Whatever a run does, it becomes a record.
"""

import contextlib
import os
from collections.abc import Iterable
from collections.abc import Sequence
from datetime import UTC
from datetime import datetime
from pathlib import Path

from experiments import cores as core_list
from experiments import log
from experiments import record
from experiments import schedule
from experiments import store
from experiments import survivors
from experiments.environment import parent_environment
from experiments.environment import resume_key
from experiments.environment import what_differs
from experiments.execution import Executed
from experiments.execution import Setting
from experiments.execution import execute
from experiments.execution import worker_command as real_worker
from experiments.forecast import Forecast
from experiments.interrupt import Interrupt
from experiments.interrupt import noticed
from experiments.launch import local
from experiments.lock import BusyError
from experiments.lock import cores_held
from experiments.lock import locked
from experiments.places import Places
from experiments.plan import why_too_large
from experiments.preparation import Preparation
from experiments.preparation import data_command as real_preparation
from experiments.progress import Progress
from experiments.protocol import Task
from experiments.schedule import Turn
from experiments.summary import Account
from experiments.summary import RunSummary
from experiments.sweep import Sweep
from experiments.watch import Limits
from meshes import hardware
from scaling.feasibility import why_infeasible
from scaling.feasibility import why_no_target
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Point
from scaling.quantity import counted
from scaling.samples import in_time_order


def run_sweep(
    sweep: Sweep,
    *,
    results: store.Folder = "results",
    repeats: int | None = None,
    timeout_s: float = 900.0,
    hang_s: float = 120.0,
    max_time_s: float | None = None,
    only: Iterable[str] = (),
    retry: Iterable[Status] = (),
    worker_command: Sequence[str] | None = None,
    data_command: Sequence[str] | None = None,
    task: Task = "measure",
    progress: Progress | None = None,
    cores_folder: Path | str | None = None,
) -> RunSummary:
    """Measures what is still due of a sweep and returns what that came to.

    Args:
      results: the results folder; the sweep has a folder in it.
      repeats: runs of each measured point; by default the sweep's own number. A
        simulated point has one.
      timeout_s: limit of one run.
      hang_s: limit of one step, once compiled.
      max_time_s: after this no further run is started.
      only: beginnings of the ids of the points to run; none is all.
      retry: statuses whose stored runs are made again.
      worker_command: the worker, without the flag that the runner adds.
      data_command: what prepares data, without its arguments.
      task: what is done with each point; one that is compiled has one run.
      progress: where a person can follow.
      cores_folder: where runners see who measures on which core; by default one for
        all of this user's on this host.

    Raises:
      ValueError: if `only` fits no point.
      BusyError: if another runner is at work in the folder or on the same cores, or
        the folder is read-only.
      NotStoredError: if a run cannot be written; those before it are.
    """
    points = schedule.selected(sweep.points, only)
    places = Places.of(results, sweep.name)
    shown = Progress() if progress is None else progress
    # A compiler takes every core, and what is measured there meanwhile would say so.
    measures = task == "measure"
    lent = _cores_lent(points) if measures else core_list.available_cores()
    held = cores_held(lent, None if cores_folder is None else Path(cores_folder))
    with noticed() as interrupt, locked(places.work), held:
        setting = Setting(
            task=task,
            sweep=sweep.name,
            places=places,
            command=real_worker() if worker_command is None else worker_command,
            timing=sweep.timing,
            limits=Limits(timeout_s=timeout_s, hang_s=hang_s),
            interrupt=interrupt,
            tick=shown.tick,
        )
        preparation = Preparation(
            places,
            command=real_preparation() if data_command is None else data_command,
            timeout_s=timeout_s,
            interrupt=interrupt,
            tick=shown.tick,
        )
        running = _Sweep(
            points, setting=setting, preparation=preparation, progress=shown
        )
        try:
            running.plan(sweep.repeats if repeats is None else repeats, retry)
            running.measure(max_time_s)
            return running.finish()
        finally:
            shown.close()


class _Sweep:
    """One command's way through a sweep."""

    def __init__(
        self,
        points: Sequence[Point],
        *,
        setting: Setting,
        preparation: Preparation,
        progress: Progress,
    ):
        self._points = points
        self._setting = setting
        self._preparation = preparation
        self._progress = progress
        self._account = Account()
        self._forecast = Forecast(setting.timing)
        self._seed = f"{setting.sweep} {datetime.now(UTC).date().isoformat()}"
        self._cores = core_list.available_cores()
        self._done: dict[str, list[Measurement]] = {}
        self._turns: list[Turn] = []
        self._num_ended = 0
        self._preempted: set[Turn] = set()
        self._wrong_platforms: dict[str, Measurement] = {}
        """By chip, the run that found it not to be attached: no other will find it."""
        with self._account.part("planning"):
            environ = local.for_compiling(os.environ) if self._compiles else os.environ
            self._environment = parent_environment(
                num_cores=core_list.num_cores(), environ=environ
            )

    def plan(self, repeats: int, retry: Iterable[Status]) -> None:
        """Clears up, reads what is stored, and settles which runs are due."""
        with self._account.part("planning"):
            places = self._setting.places
            left = _end_survivors(places.work)
            store.remove_unfinished(places.work)
            loaded = store.load(places.store)
            self._take_stored(loaded.measurements, tuple(retry))
            notes = self._notes(loaded.problems, left)
            notes += self._passed_over(loaded.measurements)
            self._progress.begin(self._points, notes)
            self._settle_without_run()
            due = {
                point: schedule.runs_due(
                    self._done[point.id], self._most(point, repeats)
                )
                for point in self._points
            }
            self._turns = schedule.rounds(due, seed=self._seed)

    def measure(self, max_time_s: float | None) -> None:
        """Makes the runs that are due, until they are made or it has to stop."""
        while self._turns and self._interrupt.signal is None:
            if max_time_s is not None and self._account.wall_s >= max_time_s:
                return
            if not self._take_turn(self._turns[0]):
                return

    def finish(self) -> RunSummary:
        """Returns the summary, which is also shown."""
        statuses: dict[str, Status | None] = {
            point.id: self._done[point.id][-1].status if self._done[point.id] else None
            for point in self._points
        }
        summary = self._account.summary(
            sweep=self._setting.sweep,
            folder=self._setting.places.store,
            seed=self._seed,
            statuses=statuses,
            num_left=len(self._turns),
            interrupted_by=self._interrupt.signal,
        )
        self._progress.finish(summary)
        return summary

    @property
    def _interrupt(self) -> Interrupt:
        return self._setting.interrupt

    def _take_stored(
        self, stored: Sequence[Measurement], retry: tuple[Status, ...]
    ) -> None:
        """Keeps what counts today: same environment, provenance and derived verdict."""
        key = resume_key(self._environment)
        kinds = ("compiled",) if self._compiles else ("measured", "simulated")
        stored = [run for run in stored if run.provenance in kinds]
        done = schedule.counted(stored, key=key, retry=retry)
        for point in self._points:
            today, verdict = self._provenance(point), self._verdict(point)
            self._done[point.id] = [
                run
                for run in done.get(point.id, [])
                if run.provenance == today and _is_settled_as(run, verdict)
            ]
        # Only now is known which points are out of memory; `only` hides none of them.
        others = (runs[-1] for id_, runs in done.items() if id_ not in self._done)
        exhausted = [run.point for run in others if self._exhausts(run)]
        exhausted += self._exhausted()
        for point in self._points:
            if schedule.dominating(point, exhausted) is None:
                runs = self._done[point.id]
                self._done[point.id] = [r for r in runs if r.status != "skipped"]
            self._forecast.learn(self._done[point.id])

    def _notes(self, problems: Sequence[str], left: Sequence[int]) -> list[str]:
        notes = [f"not read: {problem}" for problem in problems]
        if left:
            notes.append(f"ended {len(left)} processes of an earlier runner")
        replaced = {}
        if not self._compiles:
            replaced = local.replaced_variables(self._points, os.environ)
        notes += [
            f"{name}={value} of this shell is not passed on: the point decides it"
            for name, value in replaced.items()
        ]
        notes.append(f"order of the runs by the seed {self._seed!r}")
        return notes

    def _passed_over(self, stored: Sequence[Measurement]) -> list[str]:
        """Returns a sentence where stored runs do not count, being of another time."""
        key = resume_key(self._environment)
        others = [
            run.environment
            for run in in_time_order(stored)
            if run.id in self._done and resume_key(run.environment) != key
        ]
        if not others:
            return []
        return [
            f"{counted(len(others), 'stored run')} of another environment "
            f"{'stays' if len(others) == 1 else 'stay'} and will not be pooled with "
            f"today's ({what_differs(others[-1], self._environment)})"
        ]

    def _settle_without_run(self) -> None:
        """Records every point that cannot run, once."""
        for point in self._points:
            if not self._done[point.id] and (verdict := self._verdict(point)):
                run = self._not_run(point, *verdict)
                self._store(run)
                self._progress.settled(run)

    def _take_turn(self, turn: Turn) -> bool:
        """Makes one run, or records why not; returns False if interrupted."""
        point = turn.point
        self._progress.running(
            turn,
            number=self._num_ended + 1,
            total=self._num_ended + len(self._turns),
            left_s=lambda elapsed_s: self._forecast.left_s(
                self._turns, elapsed_s=elapsed_s
            ),
        )
        if (other := self._wrong_platforms.get(point.chip)) is not None:
            reason = f"as point {other.id}: {other.reason}"
            self._end_turn(turn, self._not_run(point, "wrong_platform", reason))
            return True
        if (smaller := schedule.dominating(point, self._exhausted())) is not None:
            reason = (
                f"dominated by {smaller.id}: out of memory at batch "
                f"{smaller.global_batch_size}"
            )
            self._end_turn(turn, self._not_run(point, "skipped", reason))
            return True
        with self._account.part("preparing data"):
            reason = None if self._compiles else self._preparation.why_not(point)
        if self._interrupt.signal is not None:
            return False
        if reason is not None:
            self._end_turn(turn, self._not_run(point, "error", reason))
            return True
        return self._run(turn)

    def _run(self, turn: Turn) -> bool:
        executed = execute(
            self._setting,
            turn.point,
            cores=self._assigned(turn.point),
            provenance=self._provenance(turn.point),
            environment=self._environment,
        )
        run = executed.measurement
        if run is None:
            self._account.add_lost_run(total_s=executed.total_s)
            return False
        self._account.add_run(run, total_s=executed.total_s)
        self._forecast.learn([run])
        if run.status == "wrong_platform":
            self._wrong_platforms[run.point.chip] = run
        self._end_turn(turn, run, executed)
        return True

    def _end_turn(
        self, turn: Turn, run: Measurement, executed: Executed | None = None
    ) -> None:
        if executed is not None and run.compiled is not None:
            run = self._with_program(run, executed.name)
        self._store(run)
        if executed is not None:
            self._clear_up(executed)
        self._turns.pop(0)
        self._num_ended += 1
        if run.status == "preempted" and turn not in self._preempted:
            # Once more, after all others; if it is preempted again, the next command.
            self._preempted.add(turn)
            self._turns.append(turn)
        if run.status not in schedule.REPEATED and run.status != "preempted":
            self._turns = [each for each in self._turns if each.point != turn.point]
        self._progress.ended(
            run,
            number=self._num_ended,
            total=self._num_ended + len(self._turns),
            left_s=self._forecast.left_s(self._turns),
        )

    def _with_program(self, run: Measurement, name: str) -> Measurement:
        """Returns the run once its program is kept, before it is stored itself.

        One that is stored is not compiled again, so without its program it is an error.
        """
        try:
            self._setting.places.keep_hlo(name)
        # A bucket's library raises errors of its own.
        except Exception as error:
            reason = log.one_line(f"the program could not be stored: {error}")
            lost = {"status": "error", "reason": reason, "compiled": None}
            return run.model_copy(update=lost)
        return run

    def _store(self, run: Measurement) -> None:
        with self._account.part("storing"):
            store.save(self._setting.places.store, run)
        self._account.stored[run.status] += 1
        if run.status != "preempted":
            self._done[run.id].append(run)

    def _clear_up(self, executed: Executed) -> None:
        """Keeps the log of a run that is stored, and removes its checkpoints."""
        places = self._setting.places
        with self._account.part("storing"):
            warnings = (
                places.keep_log(executed.name, executed.logs),
                places.discard_checkpoints(executed.name),
            )
        for warning in warnings:
            if warning is not None:
                self._progress.note(warning)

    def _not_run(self, point: Point, status: Status, reason: str) -> Measurement:
        return record.not_run(
            point,
            sweep=self._setting.sweep,
            status=status,
            reason=reason,
            provenance=self._provenance(point),
            environment=self._environment,
        )

    def _exhausted(self) -> list[Point]:
        return [
            runs[-1].point
            for runs in self._done.values()
            if runs and self._exhausts(runs[-1])
        ]

    def _exhausts(self, run: Measurement) -> bool:
        """Whether larger batches would run out of memory as this one did.

        That a compiler needs more than this host has says nothing about the device.
        """
        if run.status != "out_of_memory":
            return False
        return not self._compiles or run.phase == "compile"

    def _most(self, point: Point, repeats: int) -> int:
        return repeats if self._provenance(point) == "measured" else 1

    def _verdict(self, point: Point) -> tuple[Status, str] | None:
        """Returns with which status and why nothing is started for a point, or None."""
        if self._compiles:
            reason = why_infeasible(point) or why_no_target(point)
            return None if reason is None else ("invalid", reason)
        return _verdict(point)

    @property
    def _compiles(self) -> bool:
        return self._setting.task == "compile"

    def _assigned(self, point: Point) -> tuple[tuple[int, ...], ...] | None:
        if self._compiles or hardware.chip(point.chip).platform != "cpu":
            return None
        return core_list.assign(point.mesh, self._cores)

    def _provenance(self, point: Point) -> Provenance:
        if self._compiles:
            return "compiled"
        if hardware.chip(point.chip).platform != "cpu":
            return "measured"
        return "measured" if self._assigned(point) else "simulated"


def _verdict(point: Point) -> tuple[Status, str] | None:
    """Returns with which status and why a point cannot run here, or None."""
    if (reason := why_infeasible(point) or local.why_not(point)) is not None:
        return "invalid", reason
    if (reason := why_too_large(point)) is not None:
        return "out_of_memory", reason
    return None


def _is_settled_as(run: Measurement, verdict: tuple[Status, str] | None) -> bool:
    """Returns whether a stored run is no verdict of a check, or that of today's.

    What was derived without a process holds no longer than what it was derived from.
    """
    if run.processes or run.status not in ("invalid", "out_of_memory"):
        return True
    return verdict == (run.status, run.reason)


def _cores_lent(points: Sequence[Point]) -> tuple[int, ...]:
    """Returns the cores on which the runs of `points` will be: those handed out first.

    A simulated point is confined to none and so is on all of them.
    """
    cores = core_list.available_cores()
    on_cpu = (each for each in points if hardware.chip(each.chip).platform == "cpu")
    return cores[: max((each.mesh.num_devices for each in on_cpu), default=0)]


def _end_survivors(work: Path) -> tuple[int, ...]:
    """Ends what runners that are gone have left in this results folder.

    Of another sweep only while its folder can be held, so that nobody is at work there.
    """
    ended = list(survivors.end_marked(survivors.mark(str(work), "")))
    others = survivors.marked_folders(str(work.parent)) - {str(work)}
    for other in sorted(others):
        with contextlib.suppress(BusyError), locked(Path(other)):
            ended += survivors.end_marked(survivors.mark(other, ""))
    return tuple(ended)
