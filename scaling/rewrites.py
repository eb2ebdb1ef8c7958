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
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Literal

from meshes.collectives import CollectiveKind
from meshes.collectives import sent_bytes
from meshes.hardware import chip
from meshes.spec import Axis
from models.presets import MODELS
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
CAST_AFTER_SUMS = ("v4", "v5p")
"""Chips on which a table whose gather is summed crosses as it is kept, not cast."""
TILE_ROWS = 8
"""Rows of a tile in a TPU's memory."""
WINDOWS_FROM = 4
"""Devices from which on a scatter of what a matmul made goes in windows."""


def as_compiled(each: Collective, point: Point) -> Iterator[Collective]:
    """Yields the collective as the compiler of the point's chip runs it."""
    if each.network == "dcn":
        yield _in_whole_tiles(each, point)
    elif each.kind not in _summed(each.axes, each.group_size, point):
        yield each
    else:
        scattered = _scattered_bytes(each, point)
        if scattered:
            yield _part(each, scattered, each.kind)
        if scattered < each.payload_bytes:
            yield _part(each, each.payload_bytes - scattered, "all_reduce")


def _part(each: Collective, payload: float, kind: CollectiveKind) -> Collective:
    sent = sent_bytes(kind, payload, each.group_size)
    update = {"kind": kind, "payload_bytes": payload, "bytes": sent}
    return each.model_copy(update=update)


def _scattered_bytes(each: Collective, point: Point) -> float:
    """Returns the part of a collective that is still scattered where most is summed."""
    if each.kind != "reduce_scatter" or each.axes != ("fsdp",):
        return 0.0
    attention = point.accumulation * weight_bytes(point, "attention")
    kept = _scattered(point)
    rest = each.payload_bytes - attention
    return ("attention" in kept) * attention + ("rest" in kept) * rest


def _scattered(point: Point) -> Container[Literal["attention", "rest"]]:
    """Returns whose gradients are scattered in a group whose scatters are sums.

    Where groups interleave those of attention. In a program of several slices what
    crosses between them is cut in whole tiles of 8 rows; arrays of attention have
    heads among their rows.
    """
    if _interleaves(("fsdp",), point):
        return ("attention",)
    if not _between_slices(point):
        return ()
    rows = _rows(point)
    attention = rows % (2 * TILE_ROWS) == 0 or rows % TILE_ROWS
    rest = rows % TILE_ROWS == 0
    return (*(("attention",) if attention else ()), *(("rest",) if rest else ()))


def _between_slices(point: Point) -> bool:
    shape = point.slice_shape or ()
    cube = len(shape) == 3 and len(set(shape)) == 1
    return point.mesh.num_slices > 1 and not cube


def _rows(point: Point) -> int:
    """Returns the rows of a gradient that one device keeps, of its dim `embed`."""
    return MODELS[point.model].embed_dim // point.mesh.size("fsdp", "ici")


def _in_whole_tiles(each: Collective, point: Point) -> Collective:
    """Returns an all-reduce between slices of what was summed, in whole tiles."""
    size = point.mesh.size("fsdp", "ici")
    summed = "reduce_scatter" in _summed(("fsdp",), size, point)
    if each.axes != ("data",) or not summed or "rest" in _scattered(point):
        return each
    padded = math.ceil(_rows(point) / TILE_ROWS) * TILE_ROWS / _rows(point)
    attention = point.accumulation * weight_bytes(point, "attention")
    attention /= point.mesh.size("fsdp")
    payload = attention + (each.payload_bytes - attention) * padded
    return _part(each, payload, each.kind)


def in_windows(scatter: Collective, point: Point) -> Collective:
    """Returns the scatter of a matmul's result as it goes round piece by piece.

    Each piece goes all the way round and home, so one device sends n + 1 parts of n,
    not n − 1 (v5e, v5p and v7x: collective-permutes inside the matmul).
    """
    n = scatter.group_size
    on_tpu = chip(point.chip).platform == "tpu"
    if not on_tpu or scatter.network != "ici" or n < WINDOWS_FROM:
        return scatter
    return scatter.model_copy(update={"bytes": scatter.payload_bytes * (n + 1) / n})


def table_bytes_gathered(point: Point) -> float:
    """Returns the bytes in which one device's tables cross `fsdp`, whole over it."""
    tables = weight_bytes(point, "all") - weight_bytes(point, "blocks")
    size = point.mesh.size("fsdp", "ici")
    if point.chip in CAST_AFTER_SUMS and "all_gather" in _summed(
        ("fsdp",), size, point
    ):
        tables *= DTYPE_BYTES[point.param_dtype] / DTYPE_BYTES[point.compute_dtype]
    return tables


def _summed(
    axes: tuple[Axis, ...], size: int, point: Point
) -> tuple[CollectiveKind, ...]:
    """Returns the kinds that become all-reduces over such a group of a slice."""
    shape = point.slice_shape or ()
    whole = len(shape) > 1 and size == point.mesh.devices_per_slice
    if whole and min(shape) >= SHORTEST:
        return SUMMED.get(point.chip, ())
    # Four chips are a ring, in whatever dims they lie.
    whole = whole and math.prod(shape) > RING_CHIPS
    if point.chip in SCATTERED_BY_SUMS and (whole or _interleaves(axes, point)):
        return ("reduce_scatter",)
    return ()


def _interleaves(axes: tuple[Axis, ...], point: Point) -> bool:
    placed = places(point, chip(point.chip))
    return any(
        dim.stride > 1 for axis in axes if axis in placed for dim in placed[axis].dims
    )
