"""Compile: one point's training step through the compiler of absent hardware.

Imports JAX. What comes out is the scheduled program as text, gzipped, and the memory it
takes of a device; nothing is run, and nothing here turns either into seconds.
"""

import gzip
import hashlib
from pathlib import Path
from typing import Any

from experiments import absent
from experiments import attached
from experiments.attached import WrongPlatformError
from experiments.event_writer import EventWriter
from experiments.protocol import DoesNotFitError
from experiments.protocol import Finished
from experiments.protocol import Job
from experiments.resident import peak_host_bytes
from experiments.train import build_step
from meshes.build import build_mesh
from meshes.hardware import chip
from scaling.measurement import CompiledProgram
from scaling.point import Point


def compile_point(job: Job, events: EventWriter) -> None:
    """Compiles the job's point and reports what the compiler says of it.

    Raises what the compiler raised, its out-of-memory errors among it, and
    DoesNotFitError where it raised none and should have.
    """
    devices = absent.absent_devices(job.point)
    if reason := attached.why_not_chip(job.point.chip, devices):
        raise WrongPlatformError(reason)
    events.send(attached.platform(devices))
    mesh = build_mesh(job.point.mesh, devices)
    events.phase_ended("devices")
    lowered = build_step(job.point, mesh).lower()
    stablehlo = lowered.as_text()
    events.phase_ended("state")
    compiled = lowered.compile()
    program = _program(compiled, stablehlo)
    _check_fits(job.point, program)
    text = compiled.as_text()
    assert text is not None
    assert job.hlo_path is not None
    _write(Path(job.hlo_path), text)
    # Last, as silence after it counts as a hang.
    events.phase_ended("compile")
    events.send(
        Finished(
            program=program,
            peak_host_bytes=peak_host_bytes(),
        )
    )


def _program(compiled: Any, stablehlo: str) -> CompiledProgram:
    memory = compiled.memory_analysis()
    return CompiledProgram(
        program_hash=hashlib.sha256(stablehlo.encode()).hexdigest(),
        arguments_bytes=memory.argument_size_in_bytes,
        outputs_bytes=memory.output_size_in_bytes,
        aliases_bytes=memory.alias_size_in_bytes,
        temporaries_bytes=memory.temp_size_in_bytes,
        code_bytes=memory.generated_code_size_in_bytes,
        live_peak_bytes=getattr(memory, "peak_memory_in_bytes", None) or None,
    )


def _check_fits(point: Point, program: CompiledProgram) -> None:
    """Raises DoesNotFitError for what XLA's GPU compiler accepts though too large.

    That compiler only warns. The TPU compiler refuses by a rule of its own, in which
    not all it lists is alive at once.
    """
    of = chip(point.chip)
    available = of.available_hbm_bytes_per_device
    if of.platform == "gpu" and available and program.peak_bytes > available:
        raise DoesNotFitError(
            needed_bytes=program.peak_bytes, available_bytes=available
        )


def _write(path: Path, text: str) -> None:
    # Under a name that is cleaned up, until it is whole. Level 1: the last percent of
    # size would cost as long as tracing the step did.
    unfinished = path.with_name(f".{path.name}")
    with gzip.open(unfinished, "wt", compresslevel=1, encoding="utf-8") as file:
        file.write(text)
    unfinished.rename(path)
