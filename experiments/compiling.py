"""Compiling: points go through the compiler of hardware that need not be here."""

import os
from collections.abc import Sequence

from experiments import cores as core_list
from experiments import log
from experiments.compiler_log import warnings_in
from experiments.environment import COMPILING_SOURCES
from experiments.environment import parent_environment
from experiments.execution import Setting
from experiments.host_memory import host_memory_bytes
from experiments.launch import local
from experiments.places import Places
from experiments.protocol import Task
from experiments.sweep import slices_not_offered
from experiments.work import Verdict
from scaling.feasibility import why_infeasible
from scaling.feasibility import why_no_target
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.point import Point

_LENT_FRACTION = 0.9
"""Of this host's memory, to all compilations together."""


class Compiling:
    """The work of `scaling compile`."""

    task: Task = "compile"
    audit_every: int | None = 8

    def __init__(self, jobs: int = 1, memory_bytes: int | None = None):
        """Takes how many points are compiled at a time, and the memory of each.

        By default they share what this host has, less a tenth for all else.
        """
        self.jobs = jobs
        self.memory_bytes = memory_bytes or _share_bytes(jobs)

    def environment(self) -> Environment:
        """Returns that of every run, before a worker has said its device."""
        environ = local.for_compiling(os.environ)
        return parent_environment(
            num_cores=core_list.num_cores(), environ=environ, sources=COMPILING_SOURCES
        )

    def comparable(self, environment: Environment) -> Environment:
        """Returns all but the host's processor: the program is the same on any.

        Nor does the device kind count, which only a worker knows.
        """
        changed = {"device_kind": None, "host_cpu_model": ""}
        return environment.model_copy(update=changed)

    def provenance(self, point: Point) -> Provenance:
        """Returns `compiled`."""
        del point
        return "compiled"

    def verdict(self, point: Point) -> Verdict | None:
        """Returns why no compiler takes the point, or None."""
        reason = why_infeasible(point) or why_no_target(point)
        return None if reason is None else Verdict("invalid", reason)

    def most_runs(self, point: Point, repeats: int) -> int:
        """Returns one: the same compiler makes the same program."""
        del point, repeats
        return 1

    def exhausts(self, run: Measurement) -> bool:
        """Returns whether the device's memory is too small for the program.

        That a compiler needs more than this host has says nothing about the device.
        """
        return run.status == "out_of_memory" and run.phase == "compile"

    def cores_lent(self, points: Sequence[Point]) -> tuple[int, ...]:
        """Returns all cores.

        A compiler takes every one, and what is measured there meanwhile would say so.
        """
        del points
        return core_list.available_cores()

    def cores(self, point: Point) -> None:
        """Returns None: no process is confined."""
        del point

    def notes(self, points: Sequence[Point]) -> list[str]:
        """Returns which slices can be compiled for and not be had."""
        return slices_not_offered(points)

    def prepare(self, point: Point, setting: Setting) -> None:
        """Does nothing: what is compiled reads no data."""
        del point, setting

    def keep(self, run: Measurement, name: str, places: Places) -> Measurement:
        """Keeps the program, before the run itself is stored, and returns the run.

        With what the compiler warned of. One that is stored is not compiled again, so
        without its program it is an error.
        """
        if run.compiled is None:
            return run
        found = {"warnings": warnings_in(places.log(name))}
        changed: dict[str, object] = {"compiled": run.compiled.model_copy(update=found)}
        try:
            places.keep_hlo(name)
        # A bucket's library raises errors of its own.
        except Exception as error:
            reason = log.one_line(f"the program could not be stored: {error}")
            changed = {"status": "error", "reason": reason, "compiled": None}
        return run.model_copy(update=changed)


def _share_bytes(jobs: int) -> int | None:
    available = host_memory_bytes()
    return available and int(_LENT_FRACTION * available / jobs)
