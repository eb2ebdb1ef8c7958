"""Build: a MeshSpec laid over real devices, and the shardings of arrays on it.

A slice is what the fast network joins: on TPU the devices of one `slice_index`, on GPU
those of one NVLink domain, on CPU those of one process. Every mesh axis is its dcn part
outside its ici part, so that neighbours along an axis share a slice wherever they can.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AxisType
from jax.sharding import Mesh
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

from meshes.rules import spec_entries
from meshes.spec import AXES
from meshes.spec import MeshSpec


def build_mesh(spec: MeshSpec, devices: Sequence[Any] | None = None) -> Mesh:
    """Returns the mesh of `spec` over `devices`, or over all that are attached.

    It always has the six axes of `AXES`, with `Auto` axis types. Raises ValueError
    where the devices or the slices are not exactly those that `spec` asks for.
    """
    array = device_array(spec, jax.devices() if devices is None else devices)
    return Mesh(array, AXES, axis_types=(AxisType.Auto,) * len(AXES))


def named_sharding(mesh: Mesh, logical_axes: Sequence[str]) -> NamedSharding:
    """Returns the sharding that the rules give an array with these dims on `mesh`."""
    return NamedSharding(mesh, PartitionSpec(*spec_entries(logical_axes)))


def device_array(spec: MeshSpec, devices: Sequence[Any]) -> NDArray[np.object_]:
    """Returns the devices in the shape of the mesh, one dim for each of `AXES`.

    Needs of a device `platform`, `process_index` and, off CPU, `slice_index`; of a TPU
    also `device_kind`, `coords` and `core_on_chip`. Ids are never used: over several
    processes they are not contiguous.
    """
    if len(devices) != spec.num_devices:
        raise ValueError(
            f"mesh {spec} needs {spec.num_devices} devices and {len(devices)} are "
            "attached; a mesh uses all of them"
        )
    slices = _slices(spec, devices)
    ici = [spec.size(axis, "ici") for axis in AXES]
    dcn = [spec.size(axis, "dcn") for axis in AXES]
    stacked = np.stack([_slice_array(ici, members) for members in slices])
    # [dcn 0 … dcn 5, ici 0 … ici 5] to [dcn 0, ici 0, dcn 1, ici 1, …]
    outer_inner = [d + part for d in range(len(AXES)) for part in (0, len(AXES))]
    return (
        stacked.reshape(*dcn, *ici)
        .transpose(outer_inner)
        .reshape([outer * inner for outer, inner in zip(dcn, ici, strict=True)])
    )


def _slices(spec: MeshSpec, devices: Sequence[Any]) -> list[list[Any]]:
    """Returns the devices of each slice, checked against what `spec` asks for."""
    key = _slice_key(spec, devices)
    groups: dict[int, list[Any]] = {}
    # Stable: within a process the order of jax.devices() stays.
    for device in sorted(devices, key=lambda d: (_slice(d, key), d.process_index)):
        groups.setdefault(_slice(device, key), []).append(device)
    if len(groups) != spec.num_slices:
        raise ValueError(
            f"mesh {spec} needs slices: {spec.num_slices} (the product left of the "
            f"slash); found: {len(groups)} (by {key})"
        )
    sizes = [len(group) for group in groups.values()]
    if set(sizes) != {spec.devices_per_slice}:
        raise ValueError(
            f"mesh {spec} needs {spec.devices_per_slice} devices in each slice; found "
            f"{', '.join(map(str, sizes))} (by {key})"
        )
    return list(groups.values())


def _slice(device: Any, key: str) -> int:
    return getattr(device, key, 0)  # no slice_index on a platform of one slice


def _slice_key(spec: MeshSpec, devices: Sequence[Any]) -> str:
    """Returns the attribute of a device that tells its slice.

    CPU devices all report slice 0. So do the GPUs of one NVLink domain, whatever
    process drives them: there the processes are the slices only if `spec` asks for
    more than the one.
    """
    platform = devices[0].platform
    if platform == "cpu":
        return "process_index"
    domains = len({_slice(device, "slice_index") for device in devices})
    if platform == "gpu" and domains == 1 and spec.num_slices > 1:
        return "process_index"
    return "slice_index"


def _slice_array(ici: Sequence[int], devices: Sequence[Any]) -> NDArray[np.object_]:
    """Returns the devices of one slice in the shape `ici`.

    On a TPU the axes follow the torus; an axis that fits no whole torus dims gets a
    part of one rather than being refused.
    """
    if devices[0].platform != "tpu":
        array = np.empty(len(devices), dtype=object)
        array[:] = devices
        return array.reshape(ici)
    try:
        return mesh_utils.create_device_mesh(
            ici, devices, allow_split_physical_axes=True
        )
    except AssertionError as error:
        raise ValueError(
            f"the {len(devices)} devices of a slice are not all cores of all chips of "
            "a box; give whole slices"
        ) from error
