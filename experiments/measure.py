"""Measure: one run of a point in this process, from its devices to its last block.

Imports JAX: nothing here may be imported before the process is confined to its cores.
"""

import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from experiments import attached
from experiments.agreement import check_same
from experiments.agreement import program_hash
from experiments.batches import batches
from experiments.compilations import CompilationCounter
from experiments.event_writer import EventWriter
from experiments.protocol import BlockEnded
from experiments.protocol import Finished
from experiments.protocol import Job
from experiments.protocol import StepEnded
from experiments.resident import peak_host_bytes
from experiments.timing import Loop
from experiments.timing import Save
from experiments.timing import from_process_0
from experiments.timing import may_queue_steps
from experiments.timing import time_blocks
from experiments.timing import warm_up
from experiments.train import Step
from experiments.train import TrainStep
from experiments.train import build_step
from experiments.train import state_bytes_per_device
from meshes.build import build_mesh

_log = logging.getLogger(__name__)


def measure(job: Job, events: EventWriter) -> None:
    """Runs the job to its end and reports everything, `finished` last.

    Raises what went wrong, a FloatingPointError where the loss is no finite number:
    such a loss is said in the error and is not reported as a sample.
    """
    counter = CompilationCounter()
    attached.join(job)
    devices = attached.attached_devices(job.point.chip)
    events.send(attached.platform(devices))
    mesh = build_mesh(job.point.mesh, devices)
    events.phase_ended("devices")
    data = _with_first_read(batches(job.point, job.data_folder, mesh))
    events.phase_ended("data")
    # Here, as what it takes to set up is no part of the warm-up.
    checkpoints = _Checkpoints(job)
    train_step = build_step(job.point, mesh)
    state = jax.block_until_ready(train_step.init())
    state_bytes = state_bytes_per_device(state)
    events.phase_ended("state")
    step = _compile(train_step, job)
    events.phase_ended("compile")
    loop = Loop(
        step=step,
        state=state,
        batches=data,
        queue_steps=may_queue_steps(devices[0].platform),
        save=checkpoints.save,
        save_every=job.point.checkpoint_every,
    )
    del state  # Donated to the first step.
    _time(loop, job, events, counter)
    checkpoints.close()
    events.send(
        Finished(
            compilations_in_window=counter.count,
            peak_device_bytes=attached.peak_device_bytes(jax.local_devices()),
            available_device_bytes=attached.available_device_bytes(jax.local_devices()),
            peak_host_bytes=peak_host_bytes(),
            state_bytes_per_device=state_bytes,
        )
    )


def _with_first_read(data: Iterator[Any]) -> Iterator[Any]:
    first = next(data)

    def all_of_it() -> Iterator[Any]:
        yield first
        yield from data

    return all_of_it()


def _compile(train_step: TrainStep, job: Job) -> Step:
    lowered = train_step.lower()
    own = program_hash(job.point, train_step.mesh, lowered.as_text())
    _log.info("program %s", own)
    if job.num_processes == 1:
        return lowered.compile()
    check_same(own)
    step = lowered.compile()
    # Waiting for a process that compiles longer is no part of the first step.
    from_process_0(0)
    return step


def _time(
    loop: Loop, job: Job, events: EventWriter, counter: CompilationCounter
) -> None:
    def report_step(elapsed_s: float | None) -> None:
        step, loss = loop.steps_done - 1, float(loop.loss)
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss} at step {step}")
        events.send(StepEnded(step=step, warm_up_s=elapsed_s, loss=loss))

    def report_block(elapsed_s: float) -> None:
        last_step = loop.steps_done - 1
        events.send(BlockEnded(steps=steps, elapsed_s=elapsed_s, last_step=last_step))
        report_step(None)

    agree = from_process_0 if job.num_processes > 1 else int
    steps = warm_up(loop, job.timing, agree=agree, report=report_step)
    events.phase_ended("warm_up")
    with counter:
        time_blocks(
            loop, num_blocks=job.timing.num_blocks, steps=steps, report=report_block
        )
    events.phase_ended("timed")


class _Checkpoints:
    """The run's checkpoints, or nothing where the point asks for none."""

    save: Save | None = None

    def __init__(self, job: Job):
        self._checkpoints = None
        if job.point.checkpoint_every:
            # Orbax takes a second to import.
            from experiments.checkpoint import Checkpoints

            if job.checkpoint_folder is None:
                raise ValueError(
                    "the point saves checkpoints and the job names no folder"
                )
            self._checkpoints = Checkpoints(Path(job.checkpoint_folder) / job.run)
            self.save = self._checkpoints.save

    def close(self) -> None:
        """Returns once everything is durable; raises if something is not."""
        if self._checkpoints is not None:
            self._checkpoints.close()
