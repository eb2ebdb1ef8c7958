"""Interrupt: Ctrl-C or a polite kill of the runner, noticed at defined moments only.

A KeyboardInterrupt could arrive between starting a process and remembering it. Here
the signal only makes a file descriptor readable, which every wait of the runner
includes. A second signal has its usual effect.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """Whether the runner was asked to stop, and by which signal."""

    def __init__(self):
        self.signal: int | None = None
        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        """Returns a descriptor that is readable once a signal has come."""
        return self._read

    def request(self, number: int) -> None:
        """Asks the runner to stop as if the signal `number` had come."""
        if self.signal is None:
            self.signal = number
            os.write(self._write, b"!")

    def close(self) -> None:
        """Releases the descriptors."""
        os.close(self._read)
        os.close(self._write)


@contextlib.contextmanager
def noticed() -> Iterator[Interrupt]:
    """Yields an Interrupt that the signals of `SIGNALS` set until the block ends."""
    interrupt = Interrupt()
    before: dict[signal.Signals, object] = {}

    def handle(number: int, frame: object) -> None:
        del frame
        interrupt.request(number)
        signal.signal(number, signal.SIG_DFL)

    # Only the main thread may set handlers, and an ignored signal (nohup) stays so.
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handle)
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]
        interrupt.close()
