"""Gradient scatter: which sums of gradients over `fsdp` are reduce-scatters on a TPU.

Where a scatter would be a sum (`scaling.rewrites`) some gradients are scattered all the
same: those of attention where groups interleave; and in a program of several slices,
where they go on to the other slices in parts, more of them. Read off programs of
libtpu 0.0.50 (`tests/golden/accountings.json`): of two to eight slices of v4 4x4x4 and
4x4x12, v5e 4x4 and 16x16, v5p 2x2x4 and 4x4x4. What decides it inside the compiler is
not known; on two dims it goes with the rows that a device keeps, and with size.
"""

import math
from typing import Literal

from meshes.collectives import CollectiveKind
from models.presets import MODELS
from scaling.point import Point
from scaling.rewrites import interleaves
from scaling.rewrites import summed
from scaling.weights import DTYPE_BYTES

GradientPart = Literal["attention", "rest"]
"""Gradients of the kernels of attention, whose rows hold heads, and all others."""
TILE_ROWS = 8
"""Rows of a tile in a TPU's memory."""
LARGE_BYTES = 1e8
"""Of an array of an MLP: 90 MB are summed, 117 MB and more are scattered."""


def scatter_kind(point: Point, part: GradientPart) -> CollectiveKind:
    """Returns the collective that leaves each device of `fsdp` its part of a sum."""
    size = point.mesh.size("fsdp", "ici")
    if "reduce_scatter" not in summed(("fsdp",), size, point):
        return "reduce_scatter"
    if interleaves(("fsdp",), point):
        return "reduce_scatter" if part == "attention" else "all_reduce"
    kept = point.mesh.num_slices > 1 and _goes_on_in_parts(point, part, size)
    return "reduce_scatter" if kept else "all_reduce"


def tile_padding(point: Point, part: GradientPart) -> float:
    """Returns the values that cross after a sum for each of a device's own.

    A part that is cut out of a sum is whole tiles.
    """
    if scatter_kind(point, part) == "reduce_scatter":
        return 1.0
    return math.ceil(_rows(point) / TILE_ROWS) * TILE_ROWS / _rows(point)


def _goes_on_in_parts(point: Point, part: GradientPart, size: int) -> bool:
    """Whether what crosses between slices was scattered within them.

    On a torus of three dims where the devices are no power of two. On one of two dims
    large arrays whose rows fill tiles, and those of attention but where a device keeps
    an odd number of tiles.
    """
    if len(point.slice_shape or ()) == 3:
        return size & (size - 1) != 0
    if part == "attention":
        return _rows(point) % (2 * TILE_ROWS) != TILE_ROWS
    return _rows(point) % TILE_ROWS == 0 and _mlp_array_bytes(point) >= LARGE_BYTES


def _rows(point: Point) -> float:
    """Returns the rows of a gradient that one device keeps, of its dim `embed`."""
    return MODELS[point.model].embed_dim / point.mesh.size("fsdp", "ici")


def _mlp_array_bytes(point: Point) -> float:
    config = MODELS[point.model]
    values = config.embed_dim * config.mlp_dim / point.mesh.size("tensor")
    return values * DTYPE_BYTES[point.compute_dtype]
