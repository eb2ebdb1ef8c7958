"""Runner: takes the points of a sweep in turns, one fresh process group for each run.

Plans what is still due, ends what an earlier runner left behind, then runs one point
after the other in shuffled rounds, or as many at a time as the work allows. Whatever a
run does, it becomes a record.
"""

from collections.abc import Iterable
from collections.abc import Sequence
from datetime import UTC
from datetime import datetime
from pathlib import Path

from experiments import schedule
from experiments import store
from experiments import survivors
from experiments.crew import Crew
from experiments.execution import Executed
from experiments.execution import Setting
from experiments.execution import worker_command as real_worker
from experiments.forecast import Forecast
from experiments.interrupt import Interrupt
from experiments.interrupt import noticed
from experiments.keeping import Keeping
from experiments.lock import cores_held
from experiments.lock import locked
from experiments.measuring import Measuring
from experiments.places import Places
from experiments.progress import Progress
from experiments.schedule import Turn
from experiments.settled import Settled
from experiments.skipping import Skipping
from experiments.summary import Account
from experiments.summary import RunSummary
from experiments.sweep import Sweep
from experiments.watch import Limits
from experiments.work import Verdict
from experiments.work import Work
from scaling import quantity
from scaling.measurement import Measurement
from scaling.measurement import Status
from scaling.point import Point


def run_sweep(
    sweep: Sweep,
    work: Work | None = None,
    *,
    results: store.Folder = "results",
    repeats: int | None = None,
    timeout_s: float = 900.0,
    hang_s: float = 120.0,
    max_time_s: float | None = None,
    only: Iterable[str] = (),
    retry: Iterable[Status] = (),
    worker_command: Sequence[str] | None = None,
    progress: Progress | None = None,
    cores_folder: Path | str | None = None,
) -> RunSummary:
    """Does what is still due of a sweep and returns what that came to.

    Args:
      work: what is done with each point; by default it is measured.
      results: the results folder; the sweep has a folder in it.
      repeats: runs of each point that may have several; by default the sweep's number.
      timeout_s: limit of one run.
      hang_s: limit of one step, once compiled.
      max_time_s: after this no further run is started.
      only: beginnings of the ids of the points to run; none is all.
      retry: statuses whose stored runs are made again.
      worker_command: the worker, without the flag that the runner adds.
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
    work = Measuring() if work is None else work
    folder = None if cores_folder is None else Path(cores_folder)
    held = cores_held(work.cores_lent(points), folder)
    with noticed() as interrupt, locked(places.work), held:
        setting = Setting(
            task=work.task,
            sweep=sweep.name,
            places=places,
            command=real_worker() if worker_command is None else worker_command,
            timing=sweep.timing,
            limits=Limits(
                timeout_s=timeout_s, hang_s=hang_s, memory_bytes=work.memory_bytes
            ),
            interrupt=interrupt,
            tick=shown.tick,
        )
        running = _Sweep(points, work=work, setting=setting, progress=shown)
        try:
            running.plan(sweep.repeats if repeats is None else repeats, retry)
            running.take_turns(max_time_s)
            return running.finish()
        finally:
            shown.close()


class _Sweep:
    """One command's way through a sweep."""

    def __init__(
        self,
        points: Sequence[Point],
        *,
        work: Work,
        setting: Setting,
        progress: Progress,
    ):
        self._points = points
        self._work = work
        self._setting = setting
        self._progress = progress
        self._account = Account()
        self._forecast = Forecast(setting.timing, work.jobs)
        self._seed = f"{setting.sweep} {datetime.now(UTC).date().isoformat()}"
        with self._account.part("planning"):
            environment = work.environment()
        self._crew = Crew(work, setting, environment)
        self._keeping = Keeping(
            work, setting, environment, account=self._account, progress=progress
        )
        self._settled = Settled(points, work, environment)
        self._skipping = Skipping(
            points,
            self._settled,
            audit_every=work.audit_every,
            seed=setting.sweep,
        )
        self._turns: list[Turn] = []
        self._num_ended = 0
        self._preempted: set[Turn] = set()
        self._wrong_platforms: dict[str, Measurement] = {}
        """By chip, the run that found it not to be attached: no other will find it."""

    def plan(self, repeats: int, retry: Iterable[Status]) -> None:
        """Clears up, reads what is stored, and settles which runs are due."""
        with self._account.part("planning"):
            places = self._setting.places
            ended = survivors.end_left_behind(places.work)
            store.remove_unfinished(places.work)
            loaded = store.load(places.store)
            self._settled.take(loaded.measurements, retry=retry)
            for point in self._points:
                self._forecast.learn(self._settled.of(point))
            notes = self._notes(loaded.problems, ended)
            notes += self._settled.passed_over(loaded.measurements)
            self._progress.begin(self._points, notes, left_s=self._left_s)
            self._settle_without_run()
            due = {point: self._settled.due(point, repeats) for point in self._points}
            self._turns = schedule.rounds(due, seed=self._seed)

    def take_turns(self, max_time_s: float | None) -> None:
        """Makes the runs that are due, until they are made or it has to stop."""
        with self._crew:
            while self._turns_started(max_time_s):
                for turn, executed in self._crew.ended():
                    self._take(turn, executed)
                self._progress.tick()

    def finish(self) -> RunSummary:
        """Returns the summary, which is also shown."""
        summary = self._account.summary(
            sweep=self._setting.sweep,
            folder=self._setting.places.store,
            seed=self._seed,
            statuses=self._settled.statuses(),
            num_left=len(self._turns),
            interrupted_by=self._interrupt.signal,
        )
        self._progress.finish(summary)
        return summary

    @property
    def _interrupt(self) -> Interrupt:
        return self._setting.interrupt

    def _notes(self, problems: Sequence[str], ended: Sequence[int]) -> list[str]:
        notes = [f"not read: {problem}" for problem in problems]
        if ended:
            notes.append(f"ended {len(ended)} processes of an earlier runner")
        notes += self._work.notes(self._points)
        notes.append(f"order of the runs by the seed {self._seed!r}")
        return notes

    def _settle_without_run(self) -> None:
        """Records every point that cannot run, once."""
        for point in self._points:
            if not self._settled.of(point) and (verdict := self._work.verdict(point)):
                run = self._keeping.without_run(point, verdict)
                self._settled.add(run)
                self._progress.settled(run)

    def _turns_started(self, max_time_s: float | None) -> bool:
        """Starts what may be started; returns whether runs go on."""
        while self._started(max_time_s):
            pass
        if not self._crew.turns and not self._turns and self._add_audits():
            return self._turns_started(max_time_s)
        return bool(self._crew.turns)

    def _add_audits(self) -> bool:
        """Adds turns for skipped points that are run all the same."""
        audits = self._skipping.audits()
        if audits and (exception := self._skipping.exception()) is not None:
            fits, smaller = exception
            self._progress.note(
                f"batch {fits.global_batch_size} of {fits.id} fits and batch "
                f"{smaller.global_batch_size} of {smaller.id} did not: "
                f"{quantity.counted(len(audits), 'skipped point')} made all the same"
            )
        self._turns += [Turn(point, 0) for point in audits]
        return bool(audits)

    def _started(self, max_time_s: float | None) -> bool:
        """Starts the next run if there may be one; returns whether a turn was taken."""
        late = max_time_s is not None and self._account.wall_s >= max_time_s
        if (
            self._crew.is_full
            or late
            or not self._turns
            or self._interrupt.signal is not None
        ):
            return False
        turn = self._turns.pop(0)
        self._progress.running(turn, number=self._number + 1, total=self._total + 1)
        if (verdict := self._why_not_now(turn.point)) is not None:
            self._end_turn(turn, self._keeping.without_run(turn.point, verdict))
        elif self._interrupt.signal is not None:
            self._turns.insert(0, turn)
        else:
            self._crew.start(turn)
        return True

    def _take(self, turn: Turn, executed: Executed) -> None:
        run = executed.measurement
        times_s = {
            "spawned_at_s": executed.spawned_at_s,
            "total_s": executed.total_s,
        }
        if run is None:
            self._account.add_lost_run(**times_s)
            self._turns.insert(0, turn)
            return
        self._account.add_run(run, **times_s)
        self._forecast.learn([run])
        if run.status == "wrong_platform":
            self._wrong_platforms[run.point.chip] = run
        self._end_turn(turn, self._keeping.run_of(executed, run))

    def _why_not_now(self, point: Point) -> Verdict | None:
        """Returns why a point needs no process, or None; makes what its run reads."""
        if (other := self._wrong_platforms.get(point.chip)) is not None:
            return Verdict("wrong_platform", f"as point {other.id}: {other.reason}")
        if (verdict := self._skipping.verdict(point)) is not None:
            return verdict
        with self._account.part("preparing data"):
            reason = self._work.prepare(point, self._setting)
        return None if reason is None else Verdict("error", reason)

    def _end_turn(self, turn: Turn, run: Measurement) -> None:
        """Takes in a run that is stored."""
        self._settled.add(run)
        self._num_ended += 1
        if run.status == "preempted" and turn not in self._preempted:
            # Once more, after all others; if it is preempted again, the next command.
            self._preempted.add(turn)
            self._turns.append(turn)
        if run.status not in schedule.REPEATED and run.status != "preempted":
            self._turns = [each for each in self._turns if each.point != turn.point]
        self._progress.ended(run, number=self._num_ended, total=self._total)

    @property
    def _number(self) -> int:
        """How many runs have begun."""
        return self._num_ended + len(self._crew.turns)

    @property
    def _total(self) -> int:
        """How many runs there are in all, by what is known now."""
        return self._number + len(self._turns)

    def _left_s(self, elapsed_s: Sequence[float]) -> float:
        """Returns the time left, where those that go on have taken `elapsed_s`."""
        turns = [*self._crew.turns, *self._turns]
        return self._forecast.left_s(turns, elapsed_s=elapsed_s)
