"""EventWriter: the worker's end of the pipe on which the runner listens."""

import os
import time

from experiments.protocol import Event
from experiments.protocol import PhaseEnded


class EventWriter:
    """Writes events to a file descriptor, each whole and at once."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self.last_phase: str | None = None
        """Name of the phase that ended last."""

    def send(self, event: Event) -> None:
        """Writes one event; raises OSError when nobody listens any more."""
        line = event.model_dump_json(exclude_none=True).encode() + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]

    def phase_ended(self, name: str, *, at_s: float | None = None) -> None:
        """Says that a phase of the run ended, now unless another time is given."""
        at_s = time.monotonic() if at_s is None else at_s
        self.send(PhaseEnded(name=name, at_s=at_s))
        self.last_phase = name
