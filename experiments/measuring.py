"""Measuring: points are run on the devices of this host and timed."""

import os
from collections.abc import Sequence

from experiments import cores as core_list
from experiments.environment import parent_environment
from experiments.execution import Setting
from experiments.host_memory import why_too_large
from experiments.launch import local
from experiments.places import Places
from experiments.preparation import Preparation
from experiments.protocol import Task
from experiments.work import Verdict
from meshes import hardware
from scaling.feasibility import why_infeasible
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.point import Point


class Measuring:
    """The work of `scaling run`."""

    task: Task = "measure"
    jobs: int = 1
    memory_bytes: int | None = None
    audit_every: int | None = None

    def __init__(self, data_command: Sequence[str] | None = None):
        """Takes what prepares data, without its arguments; None is the real one."""
        self._available = core_list.available_cores()
        self._preparation = Preparation(data_command)

    def environment(self) -> Environment:
        """Returns that of every run, before a worker has said its device."""
        return parent_environment(num_cores=core_list.num_cores(), environ=os.environ)

    def comparable(self, environment: Environment) -> Environment:
        """Returns all but the device kind, which only a worker knows."""
        return environment.model_copy(update={"device_kind": None})

    def provenance(self, point: Point) -> Provenance:
        """Returns `simulated` where devices of a CPU would share cores."""
        if _on_cpu(point) and not self.cores(point):
            return "simulated"
        return "measured"

    def verdict(self, point: Point) -> Verdict | None:
        """Returns why the point cannot run on this host, or None."""
        if (reason := why_infeasible(point) or local.why_not(point)) is not None:
            return Verdict("invalid", reason)
        if (reason := why_too_large(point)) is not None:
            return Verdict("out_of_memory", reason)
        return None

    def most_runs(self, point: Point, repeats: int) -> int:
        """Returns `repeats`; a simulated point has one run."""
        return repeats if self.provenance(point) == "measured" else 1

    def exhausts(self, run: Measurement) -> bool:
        """Returns whether memory ran out, whosever it was."""
        return run.status == "out_of_memory"

    def cores_lent(self, points: Sequence[Point]) -> tuple[int, ...]:
        """Returns the cores on which the runs will be: those handed out first.

        A simulated point is confined to none and so is on all of them.
        """
        devices = (each.mesh.num_devices for each in points if _on_cpu(each))
        return self._available[: max(devices, default=0)]

    def cores(self, point: Point) -> tuple[tuple[int, ...], ...] | None:
        """Returns the cores of each process on CPU; None confines none."""
        return core_list.assign(point.mesh, self._available) if _on_cpu(point) else None

    def notes(self, points: Sequence[Point]) -> list[str]:
        """Returns what of this shell does not reach the workers."""
        replaced = local.replaced_variables(points, os.environ)
        return [
            f"{name}={value} of this shell is not passed on: the point decides it"
            for name, value in replaced.items()
        ]

    def prepare(self, point: Point, setting: Setting) -> str | None:
        """Prepares the point's token records; returns why that failed, or None."""
        return self._preparation.why_not(point, setting)

    def keep(self, run: Measurement, name: str, places: Places) -> Measurement:
        """Returns the run: it leaves nothing but its log."""
        del name, places
        return run


def _on_cpu(point: Point) -> bool:
    return hardware.chip(point.chip).platform == "cpu"
