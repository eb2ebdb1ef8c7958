"""Weights: the parameters that one device holds, and those that it multiplies by.

A device holds its shard; what it multiplies by is whole over `fsdp`, in the compute
dtype, in which it crosses the network.
"""

import functools
import math
from collections.abc import Iterator
from typing import Literal

from meshes.rules import shard_shape
from meshes.spec import MeshSpec
from models.config import DType
from models.config import ModelConfig
from models.counts import ParameterShape
from models.counts import parameter_shapes
from models.presets import MODELS
from scaling.point import Point

DTYPE_BYTES: dict[DType, int] = {"float32": 4, "bfloat16": 2}
_MESHES_KEPT = 256
"""Whose shard sizes are remembered: a search asks for a mesh under many policies."""

Part = Literal["all", "multiplied", "blocks", "attention"]
"""`multiplied` leaves out tables that are only looked up in."""


@functools.lru_cache(maxsize=_MESHES_KEPT)
def local_elements(config: ModelConfig, mesh: MeshSpec) -> int:
    """Returns the parameter values that one device holds."""
    return sum(size for _, size in local_arrays(config, mesh))


def local_arrays(
    config: ModelConfig, mesh: MeshSpec
) -> Iterator[tuple[ParameterShape, int]]:
    """Yields every parameter array and the values of it that one device holds."""
    for array in parameter_shapes(config):
        yield array, _shard(array, mesh) * array.count


def weight_bytes(point: Point, part: Part) -> float:
    """Returns the bytes of one device's weights, whole over fsdp.

    In the compute dtype, in which they are multiplied and cross the network.
    """
    elements = _elements_of(part, MODELS[point.model], point.mesh)
    return float(elements * DTYPE_BYTES[point.compute_dtype])


def token_table_bytes(point: Point) -> float:
    """Returns the bytes of the whole table of tokens, in the compute dtype."""
    config = MODELS[point.model]
    elements = config.vocab_size * config.embed_dim
    return float(elements * DTYPE_BYTES[point.compute_dtype])


def kept_weight_bytes(point: Point) -> float:
    """Returns the bytes of the copies of weights that wait for the backward pass.

    A weight that is cast or gathered is a copy. Each layer makes its own again, but
    where layers are unrolled and nothing else is repeated XLA merges the two.
    """
    if point.mesh.size("fsdp") == 1 and point.param_dtype == point.compute_dtype:
        return 0.0
    kept = weight_bytes(point, "multiplied")
    return kept - weight_bytes(point, "blocks") if makes_again(point) else kept


def makes_again(point: Point) -> bool:
    """Whether the backward pass of a block casts and gathers its weights again."""
    return point.layers == "scanned" or point.remat != "none"


@functools.lru_cache(maxsize=_MESHES_KEPT)
def _elements_of(part: Part, config: ModelConfig, mesh: MeshSpec) -> int:
    """Returns the values of one device's weights, whole over fsdp."""
    return sum(
        size
        for array, size in local_arrays(config, _without_fsdp(mesh))
        if _belongs(array.name, part, config)
    )


def _shard(array: ParameterShape, mesh: MeshSpec) -> int:
    return math.prod(shard_shape(array.shape, array.logical_axes, mesh))


def _belongs(name: str, part: Part, config: ModelConfig) -> bool:
    if part in ("blocks", "attention"):
        return name.startswith("blocks." if part == "blocks" else "blocks.attention.")
    looked_up = name == "position_embedding" or (
        name == "token_embedding" and not config.tied_head
    )
    return part == "all" or not looked_up


def _without_fsdp(mesh: MeshSpec) -> MeshSpec:
    return MeshSpec(
        dcn=tuple(pair for pair in mesh.dcn if pair[0] != "fsdp"),
        ici=tuple(pair for pair in mesh.ici if pair[0] != "fsdp"),
    )
