"""Timing: steps until their time has settled, then blocks of steps.

A block is a run of steps as training does them, ended by waiting for the last one's
loss and state. Steps are queued ahead of the device, except on CPU, where each is
waited for. All processes run the same steps: process 0 decides how many, between
windows and never inside one.
"""

import math
import statistics
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from experiments.protocol import Timing

SETTLED_FRACTION = 0.05
"""Two windows whose median step times differ by no more than this are settled."""
NOISY_WINDOWS = 4
"""After this many it is enough that the step gets no faster."""
WINDOWS_PER_BLOCK = 4
"""A window of warm-up steps is as long as this part of a block."""

Agree = Callable[[int], int]
"""Returns the number that process 0 passed."""
Save = Callable[[int, Any], None]
"""Saves (steps done, state); may return before it is durable."""


class Loop:
    """Training as it is timed: states chained, the next batch fetched meanwhile."""

    def __init__(
        self,
        *,
        step: Callable[[Any, Any], tuple[Any, Any]],
        state: Any,
        batches: Iterator[Any],
        queue_steps: bool,
        save: Save | None = None,
        save_every: int = 0,
    ):
        self.state = state
        self.loss: Any = None
        """Of the last step, float32 scalar on every device."""
        self.steps_done = 0
        self._step = step
        self._batches = batches
        self._batch = next(batches)
        self._queue_steps = queue_steps
        self._save = save
        self._save_every = save_every

    def run(self, steps: int) -> float:
        """Runs steps back to back, waits for all; returns seconds without the saves."""
        elapsed_s = 0.0
        while steps:
            unsaved = min(steps, self._steps_to_save(steps))
            elapsed_s += self._run_unsaved(unsaved)
            steps -= unsaved
            if self._save and self.steps_done % self._save_every == 0:
                self._save(self.steps_done, self.state)
        return elapsed_s

    def _run_unsaved(self, steps: int) -> float:
        started_s = time.perf_counter()
        for _ in range(steps):
            self.state, self.loss = self._step(self.state, self._batch)
            # The device works on the step while the host gets the next batch.
            self._batch = next(self._batches)
            if not self._queue_steps:
                jax.block_until_ready((self.loss, self.state))
        jax.block_until_ready((self.loss, self.state))
        self.steps_done += steps
        return time.perf_counter() - started_s

    def _steps_to_save(self, steps: int) -> int:
        if self._save is None:
            return steps
        return self._save_every - self.steps_done % self._save_every


def may_queue_steps(platform: str) -> bool:
    """Returns whether steps may be dispatched while earlier ones still run.

    Not on CPU: with several devices in a process, some of the executions in flight
    can take all threads of XLA's pool and wait there for a collective that the others
    then never join (seen with JAX 0.10.2 at 2 devices on 2 cores). One rule for all
    CPU meshes, so that what is compared is timed alike.
    """
    return platform != "cpu"


def from_process_0(number: int) -> int:
    """Returns the number that process 0 passed; waits for all processes."""
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def warm_up(
    loop: Loop, timing: Timing, *, agree: Agree, report: Callable[[float], None]
) -> int:
    """Runs steps until their time has settled; returns the steps of a block.

    The first step is a window of its own, the next windows last a part of a block
    each; see `settled`. Each step is waited for, and reported with its seconds.
    """
    windows_s: list[float] = []
    total_s = 0.0
    steps = 1
    while steps := agree(steps):
        times_s = []
        for _ in range(steps):
            times_s.append(loop.run(1))
            report(times_s[-1])
        total_s += sum(times_s)
        windows_s.append(statistics.median(times_s))
        over = settled(windows_s) or total_s >= timing.max_warm_up_s
        window_s = timing.min_block_s / WINDOWS_PER_BLOCK
        steps = 0 if over else _steps_in(window_s, windows_s[-1])
    return agree(_steps_in(timing.min_block_s, windows_s[-1]))


def settled(windows_s: Sequence[float]) -> bool:
    """Returns whether warming up is over, from the median step time of each window.

    It is when two windows in a row agree. On a machine where none do because of other
    work, it is when the newest of several is not the fastest: it gets no better.
    """
    *before_s, last_s = windows_s
    if not before_s:
        return False
    if abs(last_s - before_s[-1]) <= SETTLED_FRACTION * before_s[-1]:
        return True
    no_better = last_s >= (1 - SETTLED_FRACTION) * min(before_s)
    return len(windows_s) >= NOISY_WINDOWS and no_better


def time_blocks(
    loop: Loop, *, num_blocks: int, steps: int, report: Callable[[float], None]
) -> None:
    """Runs blocks of steps and reports the seconds of each as it ends."""
    for _ in range(num_blocks):
        report(loop.run(steps))


def _steps_in(duration_s: float, step_s: float) -> int:
    return max(1, math.ceil(duration_s / max(step_s, 1e-9)))
