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

import math
from collections.abc import Mapping

from meshes.collectives import CollectiveKind
from meshes.collectives import sent_bytes
from meshes.hardware import chip
from meshes.spec import Axis
from scaling.cost import Collective
from scaling.placement import places
from scaling.point import Point
from scaling.weights import DTYPE_BYTES
from scaling.weights import weight_bytes

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
RING_CHIPS = 4
"""Chips up to which a whole slice is a ring, in whatever dims they lie."""
CAST_AFTER_SUMS = ("v4", "v5p")
"""Chips on which a table whose gather is summed crosses as it is kept, not cast."""
WEIGHTS_IN_WINDOWS = ("v7x",)
"""Chips on which weights go round in windows too, where they are not summed."""
LOOKED_UP_BY_SUMS = ("v4", "v5e", "v5p", "v6e")
"""Chips on which the gradient of a table that was looked up in is a sum."""
WINDOWS_FROM = 4
"""Devices from which on a scatter of what a matmul made goes in windows."""


def as_compiled(each: Collective, point: Point) -> Collective:
    """Returns the collective as the compiler of the point's chip runs it."""
    kinds = summed(each.axes, each.group_size, point)
    if each.network == "dcn" or each.kind not in kinds:
        return each
    sent = sent_bytes("all_reduce", each.payload_bytes, each.group_size)
    return each.model_copy(update={"kind": "all_reduce", "bytes": sent})


def in_windows(each: Collective, point: Point) -> Collective:
    """Returns a gather or scatter beside a matmul as it goes round piece by piece.

    Each piece goes all the way round and home, so one device sends n + 1 parts of n,
    not n − 1 (v5e, v5p and v7x: collective-permutes inside the matmul).
    """
    n = each.group_size
    on_tpu = chip(point.chip).platform == "tpu"
    if not on_tpu or each.network != "ici" or n < WINDOWS_FROM:
        return each
    return each.model_copy(update={"bytes": each.payload_bytes * (n + 1) / n})


def beside_matmuls(each: Collective, point: Point) -> Collective:
    """Returns a gather or scatter of weights, in windows where they go in windows."""
    if point.chip not in WEIGHTS_IN_WINDOWS or each.kind == "all_reduce":
        return each
    if summed(each.axes, each.group_size, point):
        return each
    return in_windows(each, point)


def table_bytes_gathered(point: Point) -> float:
    """Returns the bytes in which one device's tables cross `fsdp`, whole over it."""
    tables = weight_bytes(point, "all") - weight_bytes(point, "blocks")
    size = point.mesh.size("fsdp", "ici")
    if point.chip in CAST_AFTER_SUMS and "all_gather" in summed(("fsdp",), size, point):
        tables *= DTYPE_BYTES[point.param_dtype] / DTYPE_BYTES[point.compute_dtype]
    return tables


def summed(
    axes: tuple[Axis, ...], size: int, point: Point
) -> tuple[CollectiveKind, ...]:
    """Returns the kinds that become all-reduces over such a group of a slice."""
    shape = point.slice_shape or ()
    whole = len(shape) > 1 and size == point.mesh.devices_per_slice
    if whole and min(shape) >= SHORTEST:
        return SUMMED.get(point.chip, ())
    # Four chips are a ring, in whatever dims they lie.
    whole = whole and math.prod(shape) > RING_CHIPS
    if point.chip in SCATTERED_BY_SUMS and (whole or interleaves(axes, point)):
        return ("reduce_scatter",)
    return ()


def interleaves(axes: tuple[Axis, ...], point: Point) -> bool:
    """Returns whether members of the group have others between them in a dim."""
    placed = places(point, chip(point.chip))
    return any(
        dim.stride > 1 for axis in axes if axis in placed for dim in placed[axis].dims
    )
