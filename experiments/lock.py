"""Lock: one runner at a time in the folder of a sweep, and one on each core of a host.

The kernel drops a lock with the runner, however that ends; nothing goes stale.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterable
from collections.abc import Iterator
from pathlib import Path

FILE_NAME = ".lock"


class BusyError(ValueError):
    """What a run needs cannot be had now; the message says why and what to do."""


class FolderBusyError(BusyError):
    """The folder cannot be written to now."""


class CoresBusyError(BusyError):
    """Another runner is at work on the same cores."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder until the block ends; raises FolderBusyError if it is held."""
    cure = "give another folder with --results"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _opened(folder / FILE_NAME)
    except OSError as error:
        raise FolderBusyError(
            f"cannot write to {folder}: {error.strerror}; {cure}"
        ) from error
    with _closing(descriptor):
        try:
            holder = _take(descriptor)
        except OSError as error:
            raise FolderBusyError(
                f"cannot lock {folder}: {error.strerror}; its file system keeps no "
                f"locks: {cure}, on a disk of this host"
            ) from error
        if holder is not None:
            raise FolderBusyError(
                f"another run (process {holder}) is writing to {folder}; wait for it, "
                f"or {cure}"
            )
        yield


@contextlib.contextmanager
def cores_held(cores: Iterable[int], folder: Path | None = None) -> Iterator[None]:
    """Holds cores of this host until the block ends; raises CoresBusyError otherwise.

    Of two runs on the same cores one would measure the other. Runners of one user see
    each other in `folder`, by default in the system's folder for temporary files.
    """
    place = cores_folder() if folder is None else folder
    with contextlib.ExitStack() as stack:
        # In one order everywhere, so that of two that start together one goes on.
        for core in sorted(cores):
            stack.enter_context(_core_held(core, place))
        yield


def cores_folder() -> Path:
    """Returns where the locks of this user's cores lie."""
    return Path(tempfile.gettempdir()) / f"scaling-toolkit-cores-{os.getuid()}"


@contextlib.contextmanager
def _core_held(core: int, folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _opened(folder / f"{core}{FILE_NAME}")
    except OSError as error:
        raise CoresBusyError(_no_core_locks(folder, error)) from error
    with _closing(descriptor):
        try:
            holder = _take(descriptor)
        except OSError as error:
            raise CoresBusyError(_no_core_locks(folder, error)) from error
        if holder is not None:
            raise CoresBusyError(
                f"another run (process {holder}) is at work on core {core} of this "
                "host; wait for it, or give each run cores of its own with taskset"
            )
        yield


def _no_core_locks(folder: Path, error: OSError) -> str:
    return (
        f"cannot keep others off the cores by a lock in {folder}: {error.strerror}; "
        "name a folder of a local disk in TMPDIR"
    )


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> str | None:
    """Locks a file and writes this process's id there; returns whose it is if not ours.

    Raises OSError where the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        return holder or "unknown"
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return None
