"""Over networks: a collective over mesh axes, as what each network carries of it.

Between slices only the shards of a slice cross: a collective over both networks runs
within each slice and, of one part in so many devices, across.
"""

import math
from collections.abc import Iterator

from meshes.collectives import CollectiveKind
from meshes.collectives import sent_bytes
from meshes.spec import Axis
from meshes.spec import MeshSpec
from meshes.spec import Network
from scaling.cost import Collective


def all_reduce(
    axis: Axis, mesh: MeshSpec, *, payload: float, count: int
) -> Iterator[Collective]:
    """Yields an all-reduce over one axis, on whichever networks it lies.

    On both: reduce-scatter within the slice, all-reduce of 1/n across, all-gather
    within.
    """
    within = mesh.size(axis, "ici")
    if mesh.size(axis, "dcn") == 1:
        yield from on_one("all_reduce", (axis,), mesh, payload=payload, count=count)
        return
    across = payload / within
    yield from on_one("reduce_scatter", (axis,), mesh, payload=payload, count=count)
    yield from on_one("all_reduce", (axis,), mesh, "dcn", payload=across, count=count)
    yield from on_one("all_gather", (axis,), mesh, payload=payload, count=count)


def on_both(
    kind: CollectiveKind, axis: Axis, mesh: MeshSpec, *, payload: float, count: int
) -> Iterator[Collective]:
    """Yields a gather or scatter over one axis, on whichever networks it lies."""
    across = payload / mesh.size(axis, "ici")
    yield from on_one(kind, (axis,), mesh, payload=payload, count=count)
    yield from on_one(kind, (axis,), mesh, "dcn", payload=across, count=count)


def on_one(
    kind: CollectiveKind,
    axes: tuple[Axis, ...],
    mesh: MeshSpec,
    network: Network = "ici",
    *,
    payload: float,
    count: int,
) -> Iterator[Collective]:
    """Yields the collective, or nothing where the axes have one member there."""
    used: tuple[Axis, ...] = tuple(
        axis for axis in axes if mesh.size(axis, network) > 1
    )
    if used:
        size = math.prod(mesh.size(axis, network) for axis in used)
        yield Collective(
            kind=kind,
            axes=used,
            network=network,
            group_size=size,
            count=count,
            payload_bytes=payload,
            bytes=sent_bytes(kind, payload, size),
        )
