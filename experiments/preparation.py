"""Preparation: token records, made once before the first run that reads them.

In a process of its own: the parent holds neither the dataset library nor its memory.
"""

import os
import sys
import time
from collections.abc import Sequence

from experiments import log
from experiments import survivors
from experiments.execution import Setting
from experiments.process import Child
from experiments.process import end_all
from experiments.process import wait_readable
from experiments.protocol import SYNTHETIC
from scaling.point import Point

_TICK_S = 1.0
_LOG_NAME = ".preparing.log"


def data_command() -> list[str]:
    """Returns the command that prepares data, without its arguments."""
    return [sys.executable, "-P", "-m", "experiments.data"]


class Preparation:
    """The data of a sweep: prepared on demand, each kind once."""

    def __init__(self, command: Sequence[str] | None = None):
        """Takes the command that prepares data; None is the real one."""
        self._command = data_command() if command is None else command
        self._reasons: dict[tuple[str, int], str | None] = {}

    def why_not(self, point: Point, setting: Setting) -> str | None:
        """Prepares the data of `point`; returns why that failed, or None.

        Returns None as well if the runner is interrupted meanwhile.
        """
        if point.data == SYNTHETIC:
            return None
        kind = point.data, point.seq_len
        if kind not in self._reasons:
            reason = self._prepare(point, setting)
            if setting.interrupt.signal is not None:
                return None
            self._reasons[kind] = reason
        return self._reasons[kind]

    def _prepare(self, point: Point, setting: Setting) -> str | None:
        places = setting.places
        places.data.mkdir(parents=True, exist_ok=True)
        path = places.work / _LOG_NAME
        path.unlink(missing_ok=True)
        arguments = [str(places.data), str(point.seq_len), point.data]
        mark = survivors.mark(str(places.work), "preparing")
        try:
            child = Child(
                [*self._command, *arguments],
                environ={**os.environ, survivors.MARK: mark},
                log=path,
            )
        except OSError as error:
            return f"data {point.data!r} could not be prepared: {error}"
        _wait(child, setting)
        end_all([child])
        if child.exit_code == 0:
            path.unlink(missing_ok=True)
            return None
        if child.stopped_by_us:
            why = f"not done after {setting.limits.timeout_s:g} s"
        else:
            words = log.last_words(log.excerpt(path))
            why = words or f"exit code {child.exit_code}"
        return log.one_line(f"data {point.data!r} could not be prepared: {why}")


def _wait(child: Child, setting: Setting) -> None:
    deadline = time.monotonic() + setting.limits.timeout_s
    while not child.note_end() and setting.interrupt.signal is None:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return
        descriptors = [*child.exit_descriptors(), setting.interrupt.fileno()]
        wait_readable(descriptors, timeout_s=min(_TICK_S, left_s))
        setting.tick()
