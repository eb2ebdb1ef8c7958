"""Worker: the process that runs one job, as `experiments.protocol` says.

`python -P -m experiments.worker --events_fd N`, the Job as the first line on standard
input. It ends at once when that input ends, because then the runner is gone.
"""

import argparse
import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
import time
from typing import BinaryIO
from typing import NoReturn

_FIRST_LINE_AT_S = time.monotonic()

from experiments.event_writer import EventWriter  # noqa: E402
from experiments.protocol import DoesNotFitError  # noqa: E402
from experiments.protocol import Failed  # noqa: E402
from experiments.protocol import Job  # noqa: E402
from experiments.protocol import NoCompilerError  # noqa: E402

_PR_SET_PDEATHSIG = 1

_log = logging.getLogger("experiments.worker")


def main(arguments: list[str]) -> NoReturn:
    """Runs one job; exits 0 only after everything it was asked for is done."""
    parser = argparse.ArgumentParser(prog="experiments.worker")
    parser.add_argument("--events_fd", type=int, required=True)
    events = EventWriter(parser.parse_args(arguments).events_fd)
    _die_with_parent()
    job = Job.model_validate_json(sys.stdin.buffer.readline())
    threading.Thread(target=_exit_at_end, args=[sys.stdin.buffer], daemon=True).start()
    events.phase_ended("start", at_s=_FIRST_LINE_AT_S)
    _set_up_log()
    if job.cores is not None:
        # XLA sizes its thread pools by this when it starts.
        os.sched_setaffinity(0, job.cores)
    _exit(_run(job, events))


def _run(job: Job, events: EventWriter) -> int:
    try:
        _do(job, events)
    except Exception as error:
        _log.exception("the run failed after phase %s", events.last_phase)
        # Without a listener the runner is gone, and this process about to be.
        with contextlib.suppress(OSError):
            events.send(failure(error, after=events.last_phase))
        return 1
    _leave(job)
    return 0


def _do(job: Job, events: EventWriter) -> None:
    if job.task == "compile":
        from experiments.compile import compile_point

        compile_point(job, events)
    else:
        from experiments.measure import measure

        measure(job, events)


def failure(error: Exception, *, after: str | None) -> Failed:
    """Returns what a run failed with, whose phase `after` had ended before."""
    from experiments.attached import WrongPlatformError
    from experiments.memory_errors import out_of_memory

    reason = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, WrongPlatformError | NoCompilerError):
        return Failed(status="wrong_platform", reason=" ".join(str(error).split()))
    if isinstance(error, DoesNotFitError):
        return Failed(
            status="out_of_memory",
            reason=str(error),
            phase="compile",
            needed_bytes=error.needed_bytes,
            available_device_bytes=error.available_bytes,
        )
    phase = "compile" if after == "state" else "run"
    if memory := out_of_memory(error, phase):
        return Failed(
            status="out_of_memory",
            reason=reason,
            phase=memory.phase,
            needed_bytes=memory.needed_bytes,
            available_device_bytes=memory.available_bytes,
        )
    return Failed(status="error", reason=reason)


def _leave(job: Job) -> None:
    """Waits for the other processes, so that no exit looks like a death to them."""
    if job.num_processes > 1:
        import jax

        jax.distributed.shutdown()


def _exit(code: int) -> NoReturn:
    # Taking an interpreter with JAX apart takes longer than some runs' steps.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _exit_at_end(stream: BinaryIO) -> None:
    while stream.read(1024):
        pass
    os._exit(1)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _set_up_log() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    logging.getLogger("experiments").setLevel(logging.INFO)
    # XLA says at level 1 that it replicates an array to reshard it; 2 would hide it.
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = level if level in ("0", "1") else "1"


if __name__ == "__main__":
    main(sys.argv[1:])
