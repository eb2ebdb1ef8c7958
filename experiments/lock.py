"""Lock: one runner at a time in the folder of a sweep on this machine's file system.

The kernel drops the lock with the runner, however that ends; nothing goes stale.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

FILE_NAME = ".lock"


class FolderBusyError(ValueError):
    """The folder cannot be written to now; the message says why and what to do."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder until the block ends; raises FolderBusyError if it is held."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise FolderBusyError(
            f"cannot write to {folder}: {error.strerror}; give another folder with "
            "--results"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            raise FolderBusyError(
                f"another run (process {holder or 'unknown'}) is writing to {folder}; "
                "wait for it, or give another folder with --results"
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
