"""Process: one child of the runner in a session of its own, until it is gone.

A WorkerProcess is a child that is told a Job and reports events; preparing data is a
plain child. Ending one ends its whole process group.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

from experiments import launch
from experiments.protocol import Job
from experiments.transcript import Transcript

TETHER = Path(launch.__file__).with_name("tether.py")

TERM_GRACE_S = 3.0
"""Between asking a process group to end and ending it."""
KILL_GRACE_S = 10.0
"""How long a killed process is waited for; one stuck in the kernel is left behind."""

MAX_LOG_BYTES = 64 * 2**20
KEPT_LOG_BYTES = 2**20

_POLL_S = 0.05
_READ_BYTES = 2**18


class Child:
    """A process in its own session whose output goes to a log file."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        log: Path,
        pass_fds: Sequence[int] = (),
    ):
        self.log = log
        self.exit_code: int | None = None
        self.ended_at_s: float | None = None
        self.stopped_by_us = False
        """Whether it was still running when the runner ended it."""
        # Appending, so that a log that is cut short goes on at its new end.
        with open(log, "ab", buffering=0) as output:
            self._popen = subprocess.Popen(
                tethered(command),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                pass_fds=pass_fds,
                start_new_session=True,
            )
        self._pidfd = _pidfd(self._popen.pid)

    @property
    def pid(self) -> int:
        """The process id, which is also its group's."""
        return self._popen.pid

    @property
    def ended(self) -> bool:
        """Whether its end has been taken note of."""
        return self.ended_at_s is not None

    def exit_descriptors(self) -> list[int]:
        """Returns what becomes readable at its exit; nothing where there is no such."""
        return [] if self._pidfd is None else [self._pidfd]

    def note_end(self) -> bool:
        """Takes note of the end if it has come; ends what it left in its group."""
        if self.ended or not self._has_exited():
            return self.ended
        self.ended_at_s = time.monotonic()
        # Before the exit is collected, the id cannot belong to anybody else.
        self.signal_group(signal.SIGKILL)
        self.exit_code = self._popen.wait()
        self._release()
        return True

    def signal_group(self, number: signal.Signals) -> None:
        """Sends a signal to the process and all of its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def give_up(self) -> None:
        """Takes note that the process could not be ended; its exit code is unknown."""
        self.ended_at_s = time.monotonic()
        self._release()

    def cut_log(self) -> None:
        """Keeps a log that has grown beyond `MAX_LOG_BYTES` to its first part."""
        with contextlib.suppress(OSError):
            if self.log.stat().st_size > MAX_LOG_BYTES:
                os.truncate(self.log, KEPT_LOG_BYTES)
                with open(self.log, "ab") as log:
                    log.write(b"\n[the runner cut this log here: too much output]\n")

    def _has_exited(self) -> bool:
        if self._pidfd is not None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            return bool(poll.poll(0))
        return self._popen.poll() is not None

    def _release(self) -> None:
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


class WorkerProcess(Child):
    """A worker of one run: told its Job, heard through its events."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        job: Job,
        environ: Mapping[str, str],
        log: Path,
    ):
        self.index = job.process_index
        self.cores = job.cores
        self.transcript = Transcript(started_at_s=job.spawned_at_s)
        self.abnormal_at_s: float | None = None
        """When it first failed or ended otherwise than by finishing; None for one that
        was well until the runner ended it."""
        self._said_all = False
        self._events, write = os.pipe()
        os.set_blocking(self._events, False)
        try:
            super().__init__(
                [*command, "--events_fd", str(write)],
                environ=environ,
                log=log,
                pass_fds=(write,),
            )
        except OSError:
            os.close(self._events)
            raise
        finally:
            os.close(write)
        self._tell(job)

    def descriptors(self) -> list[int]:
        """Returns what becomes readable at its exit or when it has said something."""
        events = [] if self._said_all else [self._events]
        return [*self.exit_descriptors(), *events]

    def listen(self) -> None:
        """Takes all events that have arrived."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._events, _READ_BYTES):
                self.transcript.feed(data, at_s=time.monotonic())
            self._said_all = True
        if self.transcript.failed is not None:
            self._note_abnormal(time.monotonic())

    def note_end(self) -> bool:
        """Takes note of the end if it has come, with all events sent before it."""
        if self.ended or not super().note_end():
            return self.ended
        self.listen()
        finished = self.transcript.finished is not None
        if self.exit_code != 0 or not finished:
            self._note_abnormal(self.ended_at_s)
        return True

    def close(self) -> None:
        """Releases the event pipe; call once the process has ended."""
        os.close(self._events)

    def _note_abnormal(self, at_s: float | None) -> None:
        # What it does once the runner ends it says nothing about the run.
        if self.abnormal_at_s is None and not self.stopped_by_us:
            self.abnormal_at_s = at_s

    def _tell(self, job: Job) -> None:
        assert self._popen.stdin is not None
        # A worker that died at once is found out by its exit, not here.
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(job.model_dump_json().encode() + b"\n")
            self._popen.stdin.flush()


def wait_readable(descriptors: Iterable[int], *, timeout_s: float) -> None:
    """Waits until one of `descriptors` is readable, at most `timeout_s`."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    if not hasattr(os, "pidfd_open"):
        timeout_s = min(timeout_s, _POLL_S)
    poll.poll(max(0.0, timeout_s) * 1000)


def end_all(children: Sequence[Child]) -> None:
    """Ends every child that still runs, with its group, and waits for its end."""
    for child in children:
        child.stopped_by_us |= not child.note_end()
    _end_by(children, signal.SIGTERM, TERM_GRACE_S)
    _end_by(children, signal.SIGKILL, KILL_GRACE_S)
    for child in children:
        if not child.ended:
            child.give_up()


def _end_by(children: Sequence[Child], number: signal.Signals, grace_s: float) -> None:
    deadline = time.monotonic() + grace_s
    for child in children:
        if not child.note_end():
            child.signal_group(number)
    while running := [child for child in children if not child.note_end()]:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return
        pidfds = [fd for child in running for fd in child.exit_descriptors()]
        wait_readable(pidfds, timeout_s=left_s)


def tethered(command: Sequence[str]) -> list[str]:
    """Returns `command` so that it ends, at the latest, when this process does."""
    return [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), *command]


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None
