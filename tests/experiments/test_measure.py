"""What measure reports of the loop; whole runs are in test_worker."""

import itertools
import math
import os

import jax
import pytest

from experiments import measure
from experiments.compilations import CompilationCounter
from experiments.event_writer import EventWriter
from experiments.protocol import EVENT
from experiments.protocol import Job
from experiments.protocol import StepEnded
from experiments.protocol import Timing
from experiments.timing import Loop
from scaling.point import Point

POINT = Point.model_validate(
    {
        "model": "tiny",
        "chip": "cpu",
        "mesh": "1/1",
        "global_batch_size": 8,
        "seq_len": 32,
    }
)
TIMING = Timing(num_blocks=2, min_block_s=1e-9, max_warm_up_s=1e-9)
JOB = Job(
    point=POINT, run="0" * 12, spawned_at_s=0.0, data_folder="data", timing=TIMING
)


def events_of(losses: list[float]) -> list:
    """Returns the events of a loop of one-step blocks with these losses."""
    read, write = os.pipe()
    with os.fdopen(read) as lines:
        loop = Loop(
            step=lambda state, batch: (state + 1, losses[state]),
            state=0,
            batches=itertools.repeat(None),
            queue_steps=True,
        )
        try:
            measure._time(loop, JOB, EventWriter(write), CompilationCounter())
        finally:
            os.close(write)
        return [EVENT.validate_json(line) for line in lines]


def test_every_warm_up_step_and_every_block_end_has_its_loss():
    events = events_of([6.0, 5.0, 4.0])
    assert [event.event for event in events] == [
        "step",
        "phase",
        "block",
        "step",
        "block",
        "step",
        "phase",
    ]
    steps = [event for event in events if isinstance(event, StepEnded)]
    assert [(step.step, step.loss) for step in steps] == [(0, 6.0), (1, 5.0), (2, 4.0)]
    assert [step.warm_up_s is None for step in steps] == [False, True, True]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_run(loss):
    with pytest.raises(FloatingPointError, match=f"the loss is {loss} at step 1"):
        events_of([6.0, loss, 4.0])


def test_what_saves_checkpoints_is_set_up_before_the_state_is_there(monkeypatch):
    """Orbax takes a second to import: no part of the warm-up, nor of anything timed."""

    def stop(_: Job) -> None:
        raise InterruptedError

    monkeypatch.setattr(measure, "_Checkpoints", stop)
    monkeypatch.setattr(
        measure.attached, "attached_devices", lambda _: jax.devices()[:1]
    )
    point = POINT.model_copy(update={"data": "synthetic", "checkpoint_every": 2})
    read, write = os.pipe()
    with os.fdopen(read) as lines:
        try:
            with pytest.raises(InterruptedError):
                measure.measure(
                    JOB.model_copy(update={"point": point}), EventWriter(write)
                )
        finally:
            os.close(write)
        events = [EVENT.validate_json(line) for line in lines]
    phases = [event.name for event in events if event.event == "phase"]
    assert phases == ["devices", "data"]
