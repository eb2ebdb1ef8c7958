"""Watch: follows the worker processes of one run until they end or have to be ended.

A run ends by itself, by its limits, by the first process that ends abnormally (its
siblings would only wait for it), or because the runner is interrupted. Several runs may
be watched at a time, each by a thread of its own.
"""

import time
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import PositiveFloat
from pydantic import PositiveInt

from experiments.interrupt import Interrupt
from experiments.process import WorkerProcess
from experiments.process import wait_readable
from experiments.resident import resident_bytes

Ending = Literal["ended", "abnormal", "memory", "hang", "timeout", "interrupted"]

_TICK_S = 1.0
_MEMORY_TICK_S = 0.2
"""Between two looks at how much memory a run takes: a compiler's grows quickly."""


class Limits(BaseModel):
    """How long a run may take, how long a step may, and how much memory a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout_s: PositiveFloat = 900.0
    """From the spawn of a run to its end."""
    hang_s: PositiveFloat = 120.0
    """Without a step, once the step is compiled; also to exit after finishing."""
    memory_bytes: PositiveInt | None = None
    """Resident on this host in all processes of a run together; None is no limit."""


def watch(
    workers: Sequence[WorkerProcess],
    *,
    spawned_at_s: float,
    limits: Limits,
    interrupt: Interrupt,
) -> Ending:
    """Returns how the run came to its end; processes may still be running then."""
    tick_s = _TICK_S if limits.memory_bytes is None else _MEMORY_TICK_S
    while True:
        running = [worker for worker in workers if not worker.ended]
        descriptors = [fd for worker in running for fd in worker.descriptors()]
        timeout_s = min(tick_s, _until_limit_s(running, spawned_at_s, limits))
        wait_readable([*descriptors, interrupt.fileno()], timeout_s=timeout_s)
        # Ends before words: what a dead process caused in another one comes later.
        for worker in running:
            worker.note_end()
        for worker in running:
            worker.listen()
        if ending := _ending(workers, spawned_at_s, limits, interrupt):
            return ending
        for worker in running:
            worker.cut_log()


def _ending(
    workers: Sequence[WorkerProcess],
    spawned_at_s: float,
    limits: Limits,
    interrupt: Interrupt,
) -> Ending | None:
    abnormal = any(worker.abnormal_at_s is not None for worker in workers)
    running = [worker for worker in workers if not worker.ended]
    # A run that is complete is kept, even if the runner is to stop now.
    if not running and not abnormal:
        return "ended"
    if interrupt.signal is not None:
        return "interrupted"
    if abnormal:
        return "abnormal"
    if _takes_too_much(running, limits):
        return "memory"
    now_s = time.monotonic()
    if any(silent_for_s(worker, now_s) >= limits.hang_s for worker in running):
        return "hang"
    if now_s - spawned_at_s >= limits.timeout_s:
        return "timeout"
    return None


def _takes_too_much(running: Sequence[WorkerProcess], limits: Limits) -> bool:
    if limits.memory_bytes is None:
        return False
    groups = {worker.pid for worker in running}
    return resident_bytes(groups) > limits.memory_bytes


def silent_for_s(worker: WorkerProcess, now_s: float) -> float:
    """Returns how long a step, or the exit, has been due; 0 while none is."""
    transcript = worker.transcript
    if worker.ended or not (transcript.stepping or transcript.finished is not None):
        return 0.0
    return now_s - transcript.last_heard_at_s


def _until_limit_s(
    running: Sequence[WorkerProcess], spawned_at_s: float, limits: Limits
) -> float:
    now_s = time.monotonic()
    silent_s = max((silent_for_s(worker, now_s) for worker in running), default=0.0)
    return min(limits.hang_s - silent_s, limits.timeout_s - (now_s - spawned_at_s))
