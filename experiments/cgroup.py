"""Control group: what the kernel lets this process use, and whom it killed.

Reads version 2 and version 1 hierarchies. Limits hold for a group and everything
below it, so every ancestor is asked; a container that does not see its own path sees
its limits at the root of the mount.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

# Version 1 writes "no limit" as the largest page-aligned 64-bit number.
_UNLIMITED_BYTES = 2**62


def cpu_quota(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> float | None:
    """Returns how many cores' worth of time the group may use; None if unlimited."""
    quotas = [
        quota
        for folder in folders("cpu", mount, membership)
        if (quota := _quota(folder)) is not None
    ]
    return min(quotas, default=None)


def memory_limit_bytes(
    mount: Path = MOUNT, membership: Path = MEMBERSHIP
) -> int | None:
    """Returns how much memory the group may use; None if unlimited."""
    limits = [
        limit
        for folder in folders("memory", mount, membership)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _number(folder / name)) is not None and limit < _UNLIMITED_BYTES
    ]
    return min(limits, default=None)


def oom_kills(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int | None:
    """Returns how many processes of the group the kernel has killed for memory.

    None where nothing counts them, as in the root group of version 2.
    """
    for folder in folders("memory", mount, membership):
        for name in ("memory.events", "memory.oom_control"):
            for line in _lines(folder / name):
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
    return None


def folders(controller: str, mount: Path, membership: Path) -> Iterator[Path]:
    """Yields the group's folder and its ancestors', innermost first."""
    for line in _lines(membership):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root = mount
        elif controller in controllers.split(","):
            root = next(
                (
                    mount / name
                    for name in (controllers, controller)
                    if (mount / name).is_dir()
                ),
                mount / controller,
            )
        else:
            continue
        own = root / path.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root) and folder.is_dir():
                yield folder


def _quota(folder: Path) -> float | None:
    if lines := _lines(folder / "cpu.max"):
        quota, _, period = lines[0].partition(" ")
        return None if quota == "max" else int(quota) / int(period or 100_000)
    quota_us = _number(folder / "cpu.cfs_quota_us")
    period_us = _number(folder / "cpu.cfs_period_us")
    if quota_us is None or quota_us <= 0 or not period_us:
        return None
    return quota_us / period_us


def _number(path: Path) -> int | None:
    with contextlib.suppress(ValueError, IndexError):
        return int(_lines(path)[0])
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
