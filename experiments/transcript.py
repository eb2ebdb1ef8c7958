"""Transcript: what one worker process has said so far, taken event by event."""

from pydantic import ValidationError

from experiments.protocol import EVENT
from experiments.protocol import BlockEnded
from experiments.protocol import Event
from experiments.protocol import Failed
from experiments.protocol import Finished
from experiments.protocol import PhaseEnded
from experiments.protocol import Platform
from experiments.protocol import StepEnded

MAX_LINE_BYTES = 1_000_000
"""A longer line is no event, and is not kept in memory while its end is awaited."""


class Transcript:
    """Grows while the process lives; a process that dies leaves what it had said."""

    def __init__(self, *, started_at_s: float):
        self.last_heard_at_s = started_at_s
        self.phase_ends_s: dict[str, float] = {}
        self.platform: Platform | None = None
        self.last_step: int | None = None
        self.warm_up_s: list[float] = []
        self.losses: list[tuple[int, float]] = []
        self.blocks: list[BlockEnded] = []
        self.finished: Finished | None = None
        self.failed: Failed | None = None
        self.num_malformed = 0
        """Whole lines that are no events."""
        self._rest = b""

    @property
    def stepping(self) -> bool:
        """Whether the next thing to hear is a step, so that silence is a hang."""
        return "compile" in self.phase_ends_s and "timed" not in self.phase_ends_s

    def feed(self, data: bytes, *, at_s: float) -> None:
        """Takes the bytes that arrived at `at_s`; a line may come in pieces."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take_line(line, at_s)
        if len(self._rest) > MAX_LINE_BYTES:
            # What follows up to the next line end is counted as malformed as well.
            self.num_malformed += 1
            self._rest = b""

    def _take_line(self, line: bytes, at_s: float) -> None:
        try:
            event = EVENT.validate_json(line)
        except ValidationError:
            self.num_malformed += 1
            return
        self.last_heard_at_s = at_s
        self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case PhaseEnded():
                self.phase_ends_s.setdefault(event.name, event.at_s)
            case Platform():
                self.platform = event
            case StepEnded():
                self._take_step(event)
            case BlockEnded():
                self.blocks.append(event)
                self.last_step = event.last_step
            case Finished():
                self.finished = event
            case Failed():
                # The first is the cause; a second one would be about ending.
                self.failed = self.failed or event

    def _take_step(self, event: StepEnded) -> None:
        self.last_step = event.step
        if event.warm_up_s is not None:
            self.warm_up_s.append(event.warm_up_s)
        if event.loss is not None:
            self.losses.append((event.step, event.loss))
