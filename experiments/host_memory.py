"""Host memory: how much this host has, and whether a point on CPU fits into it."""

import os

from experiments import cgroup
from meshes import hardware
from scaling import quantity
from scaling.feasibility import host_bytes_needed
from scaling.point import Point


def why_too_large(point: Point) -> str | None:
    """Returns why this host's memory cannot hold a feasible point, or None.

    All devices of a point on CPU live in it; of other chips nothing is asked.
    """
    if hardware.chip(point.chip).platform != "cpu":
        return None
    needed, available = host_bytes_needed(point), host_memory_bytes()
    if available is None or needed <= available:
        return None
    number = point.mesh.num_devices
    devices = "its device needs" if number == 1 else f"its {number} devices need"
    return (
        f"{devices} at least {quantity.bytes_(needed)} of this host's memory, which "
        f"has {quantity.bytes_(available)}"
    )


def host_memory_bytes() -> int | None:
    """Returns the memory this process may use: the host's, or its group's limit."""
    try:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    limit = cgroup.memory_limit_bytes()
    return installed if limit is None else min(installed, limit)
