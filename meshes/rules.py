"""Rules: which mesh axes shard which logical axis of an array; plain data.

A model names the dims of its arrays (`embed`, `heads`, `batch`) and knows no mesh;
this table is the only place where those names meet mesh axes. Each logical axis is
listed once, and an array whose dims would use one mesh axis twice is refused: there
is no first match that wins and nothing is silently left replicated.
"""

import difflib
import math
from collections.abc import Mapping
from collections.abc import Sequence

from meshes.spec import Axis
from meshes.spec import MeshSpec

RULES: Mapping[str, tuple[Axis, ...]] = {
    # dims of parameters
    "layers": (),
    "embed": ("fsdp",),
    "mlp": ("tensor",),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "head_dim": (),
    "vocab": ("tensor",),
    "positions": (),
    # dims of activations
    "batch": ("data", "fsdp"),
    "seq": ("context",),
    "residual_seq": ("context",),
    "whole": (),
}
"""Logical axis to the mesh axes that shard it, outermost first; () is replicated."""


_RESIDUAL_SEQ: Mapping[str, tuple[Axis, ...]] = {
    "replicated": RULES["residual_seq"],
    "seq": (*RULES["residual_seq"], "tensor"),
}


def rules(residual: str) -> Mapping[str, tuple[Axis, ...]]:
    """Returns RULES; where `residual` is `seq`, `tensor` shards the stream too.

    Raises KeyError for a word that is neither `seq` nor `replicated`.
    """
    return {**RULES, "residual_seq": _RESIDUAL_SEQ[residual]}


def spec_entries(logical_axes: Sequence[str]) -> tuple[tuple[Axis, ...] | None, ...]:
    """Returns the mesh axes of each dim, None where it is whole on every device.

    The entries are those of a `jax.sharding.PartitionSpec`. Raises ValueError for an
    unknown logical axis, and where one mesh axis would shard two dims.
    """
    entries = tuple(_mesh_axes(logical) for logical in logical_axes)
    _refuse_reuse(logical_axes, entries)
    return tuple(axes or None for axes in entries)


def shard_shape(
    shape: Sequence[int], logical_axes: Sequence[str], spec: MeshSpec
) -> tuple[int, ...]:
    """Returns the shape of one device's part of an array of this shape.

    Raises ValueError that names the first dim that does not divide, its mesh axes,
    and the nearest sizes that work.
    """
    if len(shape) != len(logical_axes):
        raise ValueError(
            f"an array of shape {tuple(shape)} has {len(shape)} dims and "
            f"{len(logical_axes)} logical axes {tuple(logical_axes)}; give one for each"
        )
    entries = spec_entries(logical_axes)
    return tuple(
        shard_size(logical, size, axes or (), spec)
        for logical, size, axes in zip(logical_axes, shape, entries, strict=True)
    )


def shard_size(dim: str, size: int, axes: Sequence[Axis], spec: MeshSpec) -> int:
    """Returns what is left of a dim of `size` on one device of the mesh.

    Raises ValueError naming the dim, the axes and the nearest sizes that work where
    `size` is not a multiple of the product of the axes.
    """
    parts = math.prod(spec.size(axis) for axis in axes)
    if size < 1 or size % parts:
        raise ValueError(_indivisible(dim, size, axes, spec))
    return size // parts


def _mesh_axes(logical: str) -> tuple[Axis, ...]:
    if logical not in RULES:
        near = difflib.get_close_matches(logical, RULES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"unknown logical axis {logical!r}; choose from {', '.join(RULES)}{hint}"
        )
    return RULES[logical]


def _refuse_reuse(
    logical_axes: Sequence[str], entries: Sequence[tuple[Axis, ...]]
) -> None:
    user: dict[Axis, str] = {}
    for logical, axes in zip(logical_axes, entries, strict=True):
        for axis in axes:
            if axis in user:
                raise ValueError(
                    f"mesh axis {axis!r} would shard both {user[axis]!r} and "
                    f"{logical!r} of an array with dims {tuple(logical_axes)}; "
                    "one array uses a mesh axis once"
                )
            user[axis] = logical


def _indivisible(dim: str, size: int, axes: Sequence[Axis], spec: MeshSpec) -> str:
    parts = math.prod(spec.size(axis) for axis in axes)
    over = " × ".join(f"{a}={spec.size(a)}" for a in axes if spec.size(a) > 1) or "1"
    below, above = size // parts * parts, (max(size, 0) // parts + 1) * parts
    sizes = " or ".join(str(s) for s in (below, above) if s > 0)
    reason = f"{dim} {size} does not divide over {over}; {dim} {sizes} would"
    divisors = _nearest_divisors(size, parts)
    if not divisors:
        return reason
    names = " × ".join(a for a in axes if spec.size(a) > 1)
    return f"{reason}, or {names} of {' or '.join(map(str, divisors))}"


def _nearest_divisors(size: int, near: int) -> tuple[int, ...]:
    """Returns the largest divisor of `size` below `near` and the smallest above."""
    if size < 1:
        return ()
    small = [d for d in range(1, math.isqrt(size) + 1) if size % d == 0]
    divisors = {*small, *(size // d for d in small)}
    below = max((d for d in divisors if d < near), default=None)
    above = min((d for d in divisors if d > near), default=None)
    return tuple(d for d in (below, above) if d is not None)
