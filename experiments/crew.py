"""Crew: the runs that go on at a time, each followed by a thread of its own.

The threads do nothing but follow: turns, records and progress stay with the runner's.
"""

import signal
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED
from concurrent.futures import Future
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait
from types import TracebackType
from typing import Self

from experiments.execution import Executed
from experiments.execution import Setting
from experiments.execution import execute
from experiments.schedule import Turn
from experiments.work import Work
from scaling.measurement import Environment
from scaling.point import Point

_TICK_S = 1.0


class Crew:
    """As many runs at a time as the work allows; ends with the block it is used in."""

    def __init__(self, work: Work, setting: Setting, environment: Environment):
        self._work = work
        self._setting = setting
        self._environment = environment
        self._threads = ThreadPoolExecutor(work.jobs)
        self._running: dict[Future[Executed], Turn] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            # Nobody would store what the runs in flight come to.
            self._setting.interrupt.request(signal.SIGTERM)
        self._threads.shutdown()

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns whose runs go on, the longest first."""
        return list(self._running.values())

    @property
    def is_full(self) -> bool:
        """Whether no further run may be started now."""
        return len(self._running) == self._work.jobs

    def start(self, turn: Turn) -> None:
        """Starts the run of a turn."""
        self._running[self._threads.submit(self._execute, turn.point)] = turn

    def ended(self) -> Iterator[tuple[Turn, Executed]]:
        """Waits until runs have ended, at most a second, and yields what they were."""
        done, _ = wait(self._running, timeout=_TICK_S, return_when=FIRST_COMPLETED)
        for future in done:
            yield self._running.pop(future), future.result()

    def _execute(self, point: Point) -> Executed:
        return execute(
            self._setting,
            point,
            cores=self._work.cores(point),
            provenance=self._work.provenance(point),
            environment=self._environment,
        )
