"""Cores: which cores the worker processes of a run on CPU are confined to.

The CPU devices of a process share one thread pool, so a process with n devices gets
n cores that no other process of the run has. With fewer cores than devices nothing
is confined, and the run is simulated: shown, never judged.
"""

import math
import os
from collections.abc import Iterable
from pathlib import Path

from experiments import cgroup
from meshes.spec import MeshSpec

TOPOLOGY = Path("/sys/devices/system/cpu")


def available_cores() -> tuple[int, ...]:
    """Returns the cores this process may use, in the order to hand them out.

    One thread of every physical core comes before any second thread; a control
    group's quota cuts the list. Empty where the system has no affinity.
    """
    if not hasattr(os, "sched_getaffinity"):
        return ()
    cores = spread(os.sched_getaffinity(0))
    quota = cgroup.cpu_quota()
    return cores if quota is None else cores[: max(1, math.floor(quota))]


def num_cores() -> int:
    """Returns how many cores this process may use, at least one."""
    return len(available_cores()) or os.cpu_count() or 1


def assign(
    mesh: MeshSpec, cores: tuple[int, ...]
) -> tuple[tuple[int, ...], ...] | None:
    """Returns the cores of each process of a run; None if there are too few."""
    if mesh.num_devices > len(cores):
        return None
    each = mesh.devices_per_slice
    return tuple(
        cores[index * each : (index + 1) * each] for index in range(mesh.num_slices)
    )


def spread(cores: Iterable[int], topology: Path = TOPOLOGY) -> tuple[int, ...]:
    """Returns `cores` with one thread of every physical core first."""
    wanted = sorted(cores)
    seen: dict[tuple[int, int], int] = {}
    rank: dict[int, tuple[int, int, int]] = {}
    for core in wanted:
        package, physical = _place(core, topology)
        thread = seen.get((package, physical), 0)
        seen[package, physical] = thread + 1
        rank[core] = (thread, package, core)
    return tuple(sorted(wanted, key=rank.__getitem__))


def _place(core: int, topology: Path) -> tuple[int, int]:
    """Returns (package, physical core) of a core; itself where it is not known."""
    folder = topology / f"cpu{core}" / "topology"
    try:
        return (
            int((folder / "physical_package_id").read_text()),
            int((folder / "core_id").read_text()),
        )
    except (OSError, ValueError):
        return 0, core
