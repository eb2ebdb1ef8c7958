"""Survivors: processes of runs whose runner is gone, found by a mark and ended.

Every worker carries `SCALING_RUN=<folder of the sweep>:<run>` in its environment,
and so does whatever it starts. Nothing without that exact mark is touched.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from experiments.lock import BusyError
from experiments.lock import locked

MARK = "SCALING_RUN"
PROC = Path("/proc")

_GONE_WITHIN_S = 5.0


def mark(folder: str, run: str) -> str:
    """Returns the value of `MARK` for a run that writes into `folder`."""
    return f"{folder}:{run}"


def end_marked(prefix: str) -> tuple[int, ...]:
    """Ends every process whose mark starts with `prefix`; returns their ids.

    Comes back once they are gone, or after five seconds.
    """
    marked = [pid for pid in _processes() if _is_marked(pid, prefix)]
    ended = [pid for pid in marked if _kill(pid, prefix)]
    deadline = time.monotonic() + _GONE_WITHIN_S
    while any(_is_marked(pid, prefix) for pid in ended):
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return tuple(ended)


def end_left_behind(work: Path) -> tuple[int, ...]:
    """Ends what runners that are gone have left in the results folder of `work`.

    `work` is a sweep's folder, held by this process. Of another sweep only while its
    folder can be held, so that nobody is at work there.
    """
    ended = list(end_marked(mark(str(work), "")))
    for other in sorted(_marked_folders(str(work.parent)) - {str(work)}):
        with contextlib.suppress(BusyError), locked(Path(other)):
            ended += end_marked(mark(other, ""))
    return tuple(ended)


def _marked_folders(root: str) -> set[str]:
    """Returns the folders within `root` into which some process's run writes."""
    prefix = f"{root}/"
    marks = (_mark_of(pid) for pid in _processes())
    return {
        found.rpartition(":")[0]
        for found in marks
        if found is not None and found.startswith(prefix)
    }


def _kill(pid: int, prefix: str) -> bool:
    """Kills `pid` if it still carries the mark: ids are used again."""
    try:
        pidfd = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return False
    try:
        if not _is_marked(pid, prefix):
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _processes() -> Iterator[int]:
    own = os.getuid()
    with contextlib.suppress(OSError), os.scandir(PROC) as entries:
        for entry in entries:
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == own:
                    yield int(entry.name)


def _is_marked(pid: int, prefix: str) -> bool:
    found = _mark_of(pid)
    return found is not None and found.startswith(prefix)


def _mark_of(pid: int) -> str | None:
    # A zombie's environment reads as empty, so it counts as gone.
    try:
        environ = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    variables = environ.split(b"\0")
    name = f"{MARK}=".encode()
    found = next((each for each in variables if each.startswith(name)), None)
    return None if found is None else os.fsdecode(found.removeprefix(name))
