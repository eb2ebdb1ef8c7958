"""Absent: the devices of hardware that is not here, as its compiler describes them.

Imports JAX. A program can be compiled for these devices and not run on them.
"""

import importlib.util
from collections.abc import Sequence
from typing import Any

from jax.experimental import topologies

from experiments.protocol import NoCompilerError
from meshes import hardware
from meshes.targets import Target
from meshes.targets import target
from scaling.feasibility import compiled_slice
from scaling.point import Point

_COMPILERS = {"tpu": "libtpu", "cuda": "jax_cuda12_plugin"}
_EXTRAS = {"tpu": "tpu", "cuda": "cuda"}


def absent_devices(point: Point) -> Sequence[Any]:
    """Returns the devices of the point's slices.

    Raises NoCompilerError, saying what to install, ValueError where there is no such
    slice, and what JAX raises where the compiler does not know it.
    """
    wanted = target(
        hardware.chip(point.chip), compiled_slice(point), point.mesh.num_slices
    )
    _check_installed(wanted)
    return topologies.get_topology_desc(
        platform=wanted.platform, topology_name=wanted.topology_name, **wanted.options
    ).devices


def _check_installed(wanted: Target) -> None:
    module = _COMPILERS[wanted.platform]
    if importlib.util.find_spec(module) is None:
        extra = _EXTRAS[wanted.platform]
        raise NoCompilerError(
            f"the compiler for {wanted.platform} ({module}) is not installed; "
            f"`pip install 'scaling-toolkit[{extra}]'` brings it"
        )
