"""Placement: which dims of a torus the axes of a mesh come to lie on.

As JAX lays a mesh over a TPU slice (`jax.experimental.mesh_utils`): from the
innermost axis outwards, each takes whole dims of the torus whose product is its size,
as many as it can, for bandwidth. An axis for which there are none is cut out of the
dims and moves along parts of them.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from meshes import topology
from meshes.chip import Chip
from meshes.spec import Axis
from meshes.spec import AxisSizes
from scaling.point import Point


class Span(NamedTuple):
    """What one mesh axis has of the torus."""

    num_dims: int
    """Torus dims over which it spreads its traffic."""
    closed: bool
    """Whether every one of them is a ring."""


CUT_OUT = Span(num_dims=1, closed=False)
"""An axis that fits no dims: one line at a time."""


def spans(point: Point, chip: Chip) -> dict[Axis, Span]:
    """Returns the span of every ici axis of a point that has a slice shape."""
    rings = topology.wraps(chip, point.slice_shape or ())
    return {
        axis: Span(len(taken), all(rings[dim] for dim in taken)) if taken else CUT_OUT
        for axis, taken in dims(point, chip).items()
    }


def dims(point: Point, chip: Chip) -> dict[Axis, tuple[int, ...]]:
    """Returns the torus dims, from 0, that each ici axis takes; () where cut out."""
    shape = point.slice_shape or ()
    return dict(_taken(point.mesh.ici, shape, chip.devices_per_chip))


# A search asks for a mesh under many policies.
@functools.lru_cache(maxsize=256)
def _taken(
    sizes: AxisSizes, shape: tuple[int, ...], devices_per_chip: int
) -> tuple[tuple[Axis, tuple[int, ...]], ...]:
    free = list(range(len(shape)))
    found: list[tuple[Axis, tuple[int, ...]]] = []
    for axis, size in reversed(sizes):
        taken = _dims_of(size, shape, free) or _dims_of(
            # The devices of one chip are the innermost neighbours.
            size / devices_per_chip,
            shape,
            free,
        )
        free = [dim for dim in free if dim not in taken]
        found.append((axis, taken))
    return tuple(found)


def _dims_of(size: float, shape: Sequence[int], free: Sequence[int]) -> tuple[int, ...]:
    """Returns the most free dims whose lengths multiply to `size`, or none."""
    for number in range(len(free), 0, -1):
        for dims in itertools.combinations(free, number):
            if math.prod(shape[dim] for dim in dims) == size:
                return dims
    return ()
