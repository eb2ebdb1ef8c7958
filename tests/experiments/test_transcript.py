"""What is kept of the events of a worker, in whatever pieces they arrive."""

import itertools
import json
import math

from hypothesis import given
from hypothesis import strategies as st

from experiments.protocol import StepEnded
from experiments.transcript import MAX_LINE_BYTES
from experiments.transcript import Transcript

EVENTS = (
    {"event": "phase", "name": "start", "at_s": 1.0},
    {"event": "phase", "name": "compile", "at_s": 3.0},
    {"event": "step", "step": 1, "warm_up_s": 0.5, "loss": 6.0},
    {"event": "block", "steps": 4, "elapsed_s": 0.8, "last_step": 5},
    {"event": "step", "step": 5, "loss": 5.5},
)
LINES = b"".join(json.dumps(event).encode() + b"\n" for event in EVENTS)


@given(cuts=st.lists(st.integers(0, len(LINES)), max_size=8))
def test_events_are_the_same_however_they_are_cut(cuts: list[int]):
    transcript = Transcript(started_at_s=0.0)
    edges = [0, *sorted(cuts), len(LINES)]
    for start, stop in itertools.pairwise(edges):
        transcript.feed(LINES[start:stop], at_s=9.0)
    assert transcript.phase_ends_s == {"start": 1.0, "compile": 3.0}
    assert transcript.warm_up_s == [0.5]
    assert transcript.losses == [(1, 6.0), (5, 5.5)]
    assert [(block.steps, block.elapsed_s) for block in transcript.blocks] == [(4, 0.8)]
    assert transcript.last_step == 5
    assert transcript.num_malformed == 0


def test_silence_is_a_hang_only_between_compiling_and_the_last_block():
    transcript = Transcript(started_at_s=0.0)
    assert not transcript.stepping
    transcript.feed(LINES, at_s=9.0)
    assert transcript.stepping
    assert transcript.last_heard_at_s == 9.0
    transcript.feed(b'{"event": "phase", "name": "timed", "at_s": 9.5}\n', at_s=9.5)
    assert not transcript.stepping


def test_lines_that_are_no_events_are_counted_and_do_not_sound_like_life():
    transcript = Transcript(started_at_s=0.0)
    transcript.feed(b'hello\n{"event": "nap"}\n\xff\xfe\n', at_s=9.0)
    assert transcript.num_malformed == 3
    assert transcript.last_heard_at_s == 0.0


def test_an_endless_line_is_not_kept():
    transcript = Transcript(started_at_s=0.0)
    for _ in range(3):
        transcript.feed(b"x" * (MAX_LINE_BYTES + 1), at_s=9.0)
    transcript.feed(b"\n" + LINES, at_s=9.0)
    assert transcript.num_malformed >= 1
    assert transcript.last_step == 5


def test_a_diverged_loss_arrives_as_not_a_number():
    line = StepEnded(step=3, loss=math.nan).model_dump_json().encode()
    transcript = Transcript(started_at_s=0.0)
    transcript.feed(line + b"\n", at_s=9.0)
    ((step, loss),) = transcript.losses
    assert step == 3
    assert math.isnan(loss)


def test_the_first_failure_is_the_cause():
    transcript = Transcript(started_at_s=0.0)
    for reason in ("first", "second"):
        event = {"event": "failed", "status": "error", "reason": reason}
        transcript.feed(json.dumps(event).encode() + b"\n", at_s=9.0)
    assert transcript.failed is not None
    assert transcript.failed.reason == "first"
