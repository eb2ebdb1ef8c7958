"""Rewrites: what XLA's TPU compiler makes of a collective over a whole slice.

A group that fills a torus of several dims is no ring, and the compiler runs its
collectives by the algorithm that it has for all-reduces: of what a gather is asked for,
it sums slices of zeros; of what a scatter is asked for, it sums everything and keeps a
part. Twice the bytes of the collective that was asked for. Read off programs that were
compiled for v4 4x4x4 and 4x4x12, v5e 4x4 and 16x16, v5p 4x4x4, and v7x 4x4x4 with
libtpu 0.0.50; groups of a part of a slice, or of a single dim, stay what they are, and
so do those of v5e 2x2 and v7x 2x2x2.
"""

from collections.abc import Mapping

from meshes.collectives import CollectiveKind
from meshes.collectives import sent_bytes
from scaling.cost import Collective
from scaling.point import Point

SUMMED: Mapping[str, tuple[CollectiveKind, ...]] = {
    "v4": ("all_gather", "reduce_scatter"),
    "v5e": ("reduce_scatter",),
    "v5p": ("all_gather", "reduce_scatter"),
    "v6e": ("reduce_scatter",),
    # Its SparseCores scatter.
    "v7x": ("all_gather",),
}
"""By chip, the collectives over a whole slice that become all-reduces."""
_SHORTEST = 4
"""Chips along the shortest dim of a slice in which they do."""


def as_compiled(each: Collective, point: Point) -> Collective:
    """Returns the collective as the compiler of the point's chip runs it."""
    if each.network != "ici" or each.kind not in SUMMED.get(point.chip, ()):
        return each
    if not _fills_the_slice(each, point):
        return each
    kind: CollectiveKind = "all_reduce"
    sent = sent_bytes(kind, each.payload_bytes, each.group_size)
    return each.model_copy(update={"kind": kind, "bytes": sent})


def _fills_the_slice(each: Collective, point: Point) -> bool:
    shape = point.slice_shape or (1,)
    return (
        len(shape) > 1
        and min(shape) >= _SHORTEST
        and each.group_size == point.mesh.devices_per_slice
    )
