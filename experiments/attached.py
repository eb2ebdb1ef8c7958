"""Attached: the devices that a worker finds, held to those the point asks for.

Nothing falls back to other devices: a mismatch ends the run with both names said.
"""

import os
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import jax
import jaxlib.version

from experiments.environment import flags
from experiments.environment import installed_versions
from experiments.protocol import Job
from experiments.protocol import Platform
from meshes.hardware import chip
from meshes.hardware import chip_of_device_kind

_CANNOT_START = "Unable to initialize backend"


class WrongPlatformError(Exception):
    """The attached devices are not those of the point's chip."""


def join(job: Job) -> None:
    """Joins the other processes of the run; a single process joins nothing.

    Everything is said explicitly: what Slurm and other managers leave in the
    environment may be of an allocation that this run is not all of.
    """
    if job.num_processes > 1:
        jax.distributed.initialize(
            coordinator_address=job.coordinator,
            num_processes=job.num_processes,
            process_id=job.process_index,
            cluster_detection_method="deactivate",
            initialization_timeout=120,
            # A dead or stuck peer is the runner's to notice, who names the root cause;
            # an abort over missing heartbeats would come first and blame the others.
            heartbeat_timeout_seconds=86_400,
        )


def attached_devices(
    chip_name: str, find: Callable[[], Sequence[Any]] = jax.devices
) -> Sequence[Any]:
    """Returns all devices of the run, whose `device_kind` says what chip they are.

    Raises WrongPlatformError if that is another one, or if none can be started.
    """
    try:
        devices = find()
    except (RuntimeError, AssertionError) as error:
        # JAX answers a missing CUDA plugin with an AssertionError without a word.
        if _CANNOT_START in str(error) or isinstance(error, AssertionError):
            platform = chip(chip_name).platform
            raise WrongPlatformError(
                f"no {platform} for chip {chip_name!r}: {error or 'plugin missing'}"
            ) from error
        raise
    if reason := why_not_chip(chip_name, devices):
        raise WrongPlatformError(reason)
    return devices


def why_not_chip(chip_name: str, devices: Sequence[Any]) -> str | None:
    """Returns why `devices` are not of the chip, one sentence, or None if they are."""
    kinds = sorted({device.device_kind for device in devices})
    if len(kinds) != 1:
        return f"chip {chip_name!r} asked for, device kinds {kinds} attached"
    try:
        found = chip_of_device_kind(kinds[0])
    except ValueError as error:
        return f"chip {chip_name!r} asked for: {error}"
    if found.name == chip_name:
        return None
    return f"chip {chip_name!r} asked for, {found.name!r} ({kinds[0]!r}) attached"


def platform(devices: Sequence[Any]) -> Platform:
    """Returns what the run's record says of the devices and of the software on them."""
    imported = {"jax": jax.__version__, "jaxlib": jaxlib.version.__version__}
    return Platform(
        device_kind=devices[0].device_kind,
        num_devices=len(devices),
        versions={**installed_versions(), **imported},
        flags=flags(os.environ),
    )


def peak_device_bytes(devices: Sequence[Any]) -> int | None:
    """Returns the largest peak of `devices`; None where the runtime counts none."""
    return max(_statistic(devices, "peak_bytes_in_use"), default=None)


def available_device_bytes(devices: Sequence[Any]) -> int | None:
    """Returns the smallest limit of `devices`; None where the runtime says none."""
    return min(_statistic(devices, "bytes_limit"), default=None)


def _statistic(devices: Sequence[Any], name: str) -> list[int]:
    # Never 0 for "not counted": memory_stats() is None on CPU, keys may be missing.
    found = [(device.memory_stats() or {}).get(name) for device in devices]
    return [value for value in found if value]
