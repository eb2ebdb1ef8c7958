"""Placement: where on a torus the axes of a mesh come to lie.

As JAX lays a mesh over a TPU slice (`jax.experimental.mesh_utils`, for a torus of any
dims): from the innermost axis outwards, each takes whole dims whose product is its
size, as many as it can, for bandwidth. Where an axis fits no whole dims, all axes are
laid again by their factors: each takes the most of whole dims that it can, and parts of
others. In a dim that several axes share the innermost is the one whose members are next
to each other.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from meshes import topology
from meshes.chip import Chip
from meshes.spec import Axis
from meshes.spec import AxisSizes
from meshes.subtorus import Dim
from meshes.subtorus import SubTorus
from scaling.point import Point

_Parts = tuple[int, ...]
"""Members of one axis along each physical dim."""


def places(point: Point, chip: Chip) -> Mapping[Axis, SubTorus]:
    """Returns where each ici axis of a point lies that has a slice shape."""
    if chip.torus_dims is None or point.slice_shape is None:
        return {}
    rings = topology.wraps(chip, point.slice_shape)
    devices = chip.devices_per_chip
    return dict(_places(point.mesh.ici, point.slice_shape, rings, devices))


# A search asks for a mesh under many policies.
@functools.lru_cache(maxsize=256)
def _places(
    sizes: AxisSizes,
    shape: tuple[int, ...],
    rings: tuple[bool, ...],
    devices_per_chip: int,
) -> tuple[tuple[Axis, SubTorus], ...]:
    # The devices of one chip are a dim of their own, which is no part of the torus.
    physical = (*shape, devices_per_chip) if devices_per_chip > 1 else shape
    lengths = [size for _, size in sizes]
    if math.prod(lengths) != math.prod(physical):
        return ()
    parts = _whole_dims(lengths, physical, len(shape)) or _by_factors(lengths, physical)
    return tuple(
        (axis, SubTorus(tuple(_dims(index, parts, shape, rings))))
        for index, (axis, _) in enumerate(sizes)
    )


def _dims(
    index: int, parts: Sequence[_Parts], shape: Sequence[int], rings: Sequence[bool]
) -> Iterator[Dim]:
    for dim, length in enumerate(shape):
        members = parts[index][dim]
        stride = math.prod(inner[dim] for inner in parts[index + 1 :])
        if members > 1:
            closed = rings[dim] and members * stride == length
            yield Dim(dim, members, stride, closed)


def _whole_dims(
    sizes: Sequence[int], physical: Sequence[int], num_torus_dims: int
) -> list[_Parts] | None:
    """Returns the parts where every axis has whole dims, or None."""
    free = list(physical)
    found: list[_Parts] = []
    for size in reversed(sizes):
        taken = _subset(size, free, num_torus_dims) if size > 1 else ()
        if taken is None:
            return None
        found.append(
            tuple(physical[dim] if dim in taken else 1 for dim in range(len(physical)))
        )
        free = [0 if dim in taken else length for dim, length in enumerate(free)]
    return found[::-1]


def _subset(
    size: int, free: Sequence[int], num_torus_dims: int
) -> tuple[int, ...] | None:
    """Returns the most free dims that multiply to `size`, a chip's devices first."""
    ranks = [dim + 1 if dim < num_torus_dims else 0 for dim in range(len(free))]
    for number in range(len(free), 0, -1):
        fitting = (
            dims
            for dims in itertools.combinations(range(len(free)), number)
            if math.prod(free[dim] for dim in dims) == size
        )
        first = min(fitting, key=lambda dims: _priority(dims, ranks), default=None)
        if first is not None:
            return first
    return None


def _priority(
    dims: tuple[int, ...], ranks: Sequence[int]
) -> tuple[int, int, tuple[int, ...]]:
    if 0 not in ranks:
        return 0, 0, dims
    return min(ranks[dim] for dim in dims), sum(ranks[dim] for dim in dims), dims


def _by_factors(sizes: Sequence[int], physical: Sequence[int]) -> list[_Parts]:
    """Returns the parts where dims are split: the best for the innermost axis first."""
    taken = [1] * len(physical)
    found: list[_Parts] = []
    for size in reversed(sizes):
        free = [length // of for length, of in zip(physical, taken, strict=True)]
        best = max(_divided(size, free), key=lambda p: _preference(p, physical, taken))
        taken = [of * part for of, part in zip(taken, best, strict=True)]
        found.append(best)
    return found[::-1]


def _divided(size: int, free: Sequence[int]) -> Iterator[_Parts]:
    """Yields the ways to write `size` as a product of divisors of the free lengths."""
    if not free:
        if size == 1:
            yield ()
        return
    for part in range(1, math.gcd(size, free[0]) + 1):
        if size % part == 0 and free[0] % part == 0:
            for rest in _divided(size // part, free[1:]):
                yield part, *rest


def _preference(
    parts: _Parts, physical: Sequence[int], taken: Sequence[int]
) -> tuple[int, int, int, _Parts]:
    """Returns what JAX prefers more of: whole dims, more of them, then dims in use."""
    whole = [
        part for part, length in zip(parts, physical, strict=True) if part == length
    ]
    shared = [part for part, of in zip(parts, taken, strict=True) if of > 1]
    num_whole = sum(part > 1 for part in whole)
    return math.prod(whole), num_whole, math.prod(shared), parts
