"""Keeping: what a run leaves is stored: its record, and beside it program and log."""

from experiments import record
from experiments import store
from experiments.execution import Executed
from experiments.execution import Setting
from experiments.progress import Progress
from experiments.summary import Account
from experiments.work import Verdict
from experiments.work import Work
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point


class Keeping:
    """Stores the runs of one command, and counts them in its account."""

    def __init__(
        self,
        work: Work,
        setting: Setting,
        environment: Environment,
        *,
        account: Account,
        progress: Progress,
    ):
        self._work = work
        self._setting = setting
        self._environment = environment
        self._account = account
        self._progress = progress

    def run_of(self, executed: Executed, run: Measurement) -> Measurement:
        """Stores a run that processes made, clears up after it, and returns it."""
        run = self._work.keep(run, executed.name, self._setting.places)
        self._store(run)
        self._clear_up(executed)
        return run

    def without_run(self, point: Point, verdict: Verdict) -> Measurement:
        """Stores and returns the record of a point for which no process is started."""
        run = record.not_run(
            point,
            sweep=self._setting.sweep,
            status=verdict.status,
            reason=verdict.reason,
            provenance=self._work.provenance(point),
            environment=self._environment,
        )
        self._store(run)
        return run

    def _store(self, run: Measurement) -> None:
        with self._account.part("storing"):
            store.save(self._setting.places.store, run)
        self._account.stored[run.status] += 1

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
