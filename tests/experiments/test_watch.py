"""When silence is a hang, from planted transcripts and a given time."""

from types import SimpleNamespace
from typing import Any

import pytest

from experiments.protocol import Finished
from experiments.protocol import PhaseEnded
from experiments.protocol import StepEnded
from experiments.transcript import Transcript
from experiments.watch import silent_for_s

PHASES = ("start", "devices", "data", "state", "compile", "warm_up", "timed")


def heard(*events: Any) -> Any:
    """Returns a worker that has said these, one second after the other."""
    transcript = Transcript(started_at_s=0.0)
    for second, event in enumerate(events, start=1):
        line = event.model_dump_json().encode() + b"\n"
        transcript.feed(line, at_s=float(second))
    return SimpleNamespace(ended=False, transcript=transcript)


def phases(up_to: str) -> list[PhaseEnded]:
    names = PHASES[: PHASES.index(up_to) + 1]
    return [PhaseEnded(name=name, at_s=0.0) for name in names]


@pytest.mark.parametrize("last", ["start", "devices", "data", "state"])
def test_before_it_has_compiled_a_worker_may_be_silent(last: str):
    assert silent_for_s(heard(*phases(last)), 1000.0) == 0.0
    assert silent_for_s(heard(), 1000.0) == 0.0


def test_once_it_has_compiled_a_step_is_due():
    assert silent_for_s(heard(*phases("compile")), 1000.0) == 1000.0 - 5
    stepped = heard(*phases("compile"), StepEnded(step=0, warm_up_s=0.1, loss=6.0))
    assert silent_for_s(stepped, 1000.0) == 1000.0 - 6


def test_after_its_last_step_it_may_take_its_time_until_it_has_finished():
    assert silent_for_s(heard(*phases("timed")), 1000.0) == 0.0
    finished = heard(*phases("timed"), Finished(compilations_in_window=0))
    assert silent_for_s(finished, 1000.0) == 1000.0 - 8


def test_one_that_has_ended_is_not_silent():
    worker = heard(*phases("compile"))
    worker.ended = True
    assert silent_for_s(worker, 1000.0) == 0.0
