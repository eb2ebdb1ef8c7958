"""Rewrites: what XLA's TPU compiler makes of a collective that is no ring.

A group that fills a slice of several dims, or interleaves with others in one, has no
ring of neighbours, and the compiler runs its collectives by the algorithm that it has
for all-reduces: of what a gather is asked for, it sums slices of zeros; of what a
scatter is asked for, it sums everything and keeps a part. Twice the bytes of the
collective that was asked for. Read off programs of libtpu 0.0.50
(`tests/golden/accountings.json`): whole slices of v4 4x4x4 and 4x4x12, v5e 4x4 and
16x16, v5p 2x2x4, 2x4x4 and 4x4x4, v6e 16x16 and v7x 4x4x4; groups that interleave on
v5p 4x4x4, 8x8x8 and 8x8x16. Those of v5e 2x2 and v7x 2x2x2, and groups of whole dims of
a larger slice, stay what they are.
"""

from collections.abc import Mapping

from meshes.collectives import CollectiveKind
from meshes.collectives import sent_bytes
from meshes.hardware import chip
from scaling.cost import Collective
from scaling.placement import places
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
SHORTEST = 4
"""Chips along the shortest dim of a slice in which all of these do."""
SCATTERED_BY_SUMS = ("v4", "v5p")
"""Chips on which a scatter does with shorter dims, and where groups interleave."""


def as_compiled(each: Collective, point: Point) -> Collective:
    """Returns the collective as the compiler of the point's chip runs it."""
    if each.network != "ici" or each.kind not in _summed(each, point):
        return each
    kind: CollectiveKind = "all_reduce"
    sent = sent_bytes(kind, each.payload_bytes, each.group_size)
    return each.model_copy(update={"kind": kind, "bytes": sent})


def _summed(each: Collective, point: Point) -> tuple[CollectiveKind, ...]:
    """Returns the kinds that become all-reduces over the group of this one."""
    shape = point.slice_shape or ()
    whole = len(shape) > 1 and each.group_size == point.mesh.devices_per_slice
    if whole and min(shape) >= SHORTEST:
        return SUMMED.get(point.chip, ())
    if point.chip in SCATTERED_BY_SUMS and (whole or _interleaves(each, point)):
        return ("reduce_scatter",)
    return ()


def _interleaves(each: Collective, point: Point) -> bool:
    place = places(point, chip(point.chip)).get(each.axes[0])
    return place is not None and any(dim.stride > 1 for dim in place.dims)
