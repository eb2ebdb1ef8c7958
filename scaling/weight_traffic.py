"""Weight traffic: what sharded weights and their gradients cost the networks.

Rajbhandari et al., ZeRO (arXiv 1910.02054), has the passes over sharded weights. All is
in every micro-batch, since the sums of gradients are sharded as the weights are.
"""

from collections.abc import Iterator

from meshes.spec import Axis
from models.config import ModelConfig
from models.presets import MODELS
from scaling.cost import Collective
from scaling.gradient_scatter import GradientPart
from scaling.gradient_scatter import scatter_kind
from scaling.gradient_scatter import tile_padding
from scaling.over_networks import all_reduce
from scaling.over_networks import on_both
from scaling.over_networks import on_one
from scaling.point import Point
from scaling.rewrites import LOOKED_UP_BY_SUMS
from scaling.rewrites import as_compiled
from scaling.rewrites import beside_matmuls
from scaling.rewrites import table_bytes_gathered
from scaling.weights import makes_again
from scaling.weights import token_table_bytes
from scaling.weights import weight_bytes


def gathered_weights(point: Point) -> Iterator[Collective]:
    """Yields the gathers over `fsdp`: one a block and pass, and one a table.

    All weights are gathered forward, those of the blocks once more backward, where a
    repeated forward pass uses them too. XLA combines the arrays of a block, seldom
    more.
    """
    config, times = MODELS[point.model], point.accumulation
    passes = 2 if makes_again(point) else 1
    for each in on_both(
        "all_gather",
        "fsdp",
        point.mesh,
        payload=times * passes * weight_bytes(point, "blocks"),
        count=times * passes * config.num_layers,
    ):
        yield as_compiled(beside_matmuls(each, point), point)
    for each in on_both(
        "all_gather",
        "fsdp",
        point.mesh,
        payload=times * table_bytes_gathered(point),
        count=times * _tables(config),
    ):
        yield as_compiled(each, point)


def summed_gradients(point: Point) -> Iterator[Collective]:
    """Yields what gradients cross: scattered over `fsdp`, summed over `data`.

    The partitioner makes sums over both axes, of which each device keeps a part. Where
    both lie in a slice they stay sums: only what keeps its part right away, over the
    same group, becomes a reduce-scatter. On most TPUs the gradient of a table that was
    looked up in stays a sum as well.
    """
    mesh, times = point.mesh, point.accumulation
    blocks, tables = times * MODELS[point.model].num_layers, times
    looked_up = times * _looked_up_bytes(point)
    payload = times * _multiplied_bytes(point)
    if mesh.size("fsdp", "dcn") > 1:
        yield from _put_together(point, payload + looked_up, blocks + 2 * tables)
        return
    if mesh.size("data", "ici") > 1 and mesh.size("fsdp", "ici") > 1:
        yield from _joint(point, payload + looked_up, blocks + 2 * tables)
        return
    if mesh.size("fsdp") > 1 and looked_up and point.chip in LOOKED_UP_BY_SUMS:
        yield from _joint(point, looked_up, tables)
        looked_up = 0.0
    payload += looked_up
    attention = times * weight_bytes(point, "attention")
    if scatter_kind(point, "attention") == scatter_kind(point, "rest"):
        # The arrays of a block are combined.
        yield from _scattered(point, "rest", payload, blocks + tables)
        return
    yield from _scattered(point, "attention", attention, blocks)
    yield from _scattered(point, "rest", payload - attention, blocks + tables)


def _scattered(
    point: Point, part: GradientPart, payload: float, count: int
) -> Iterator[Collective]:
    """Yields the gradients of one part, scattered in a slice and what crosses then."""
    mesh = point.mesh
    within = scatter_kind(point, part)
    for each in on_one(within, ("fsdp",), mesh, payload=payload, count=count):
        yield beside_matmuls(each, point)
    payload *= tile_padding(point, part)
    shard = payload / mesh.size("fsdp")
    for each in all_reduce("data", mesh, payload=shard, count=count):
        yield as_compiled(each, point)


def _joint(point: Point, payload: float, count: int) -> Iterator[Collective]:
    """Yields a sum over `data` and `fsdp`; between slices its parts cross."""
    mesh = point.mesh
    axes: tuple[Axis, ...] = ("data", "fsdp")
    yield from on_one("all_reduce", axes, mesh, payload=payload, count=count)
    across = payload / (mesh.size("data", "ici") * mesh.size("fsdp", "ici"))
    yield from on_one("all_reduce", axes, mesh, "dcn", payload=across, count=count)


def _put_together(point: Point, payload: float, count: int) -> Iterator[Collective]:
    """Yields a sum over `fsdp` that lies across slices too.

    Scattered within a slice, the parts summed across, and all gathered within again
    before each device keeps its own.
    """
    mesh = point.mesh
    axes: tuple[Axis, ...] = ("data", "fsdp")
    within = mesh.size("data", "ici") * mesh.size("fsdp", "ici")
    yield from on_one("reduce_scatter", axes, mesh, payload=payload, count=count)
    across = payload / within
    yield from on_one("all_reduce", axes, mesh, "dcn", payload=across, count=count)
    yield from on_one("all_gather", axes, mesh, payload=payload, count=count)


def looked_up_table(point: Point) -> Iterator[Collective]:
    """Yields what a look-up costs where the residual stream lies sharded.

    The table is gathered over `tensor` before it is looked up in, and its gradient is
    summed, whole, over all axes of the slice. Elsewhere a look-up in a table sharded
    over the vocabulary is a sum of activations over `tensor`.
    """
    if point.residual == "replicated" or point.mesh.size("tensor") == 1:
        return
    mesh, times = point.mesh, point.accumulation
    table = times * token_table_bytes(point)
    yield from on_both("all_gather", "tensor", mesh, payload=table, count=times)
    # Between slices go the parts of one, which are then put together as they were cut.
    sums = times * (2 if mesh.num_slices > 1 else 1)
    yield from on_one(
        "all_reduce",
        ("data", "fsdp", "tensor"),
        mesh,
        payload=sums * token_table_bytes(point),
        count=sums,
    )
    across = table / mesh.devices_per_slice
    yield from on_one(
        "all_reduce", ("data", "fsdp"), mesh, "dcn", payload=across, count=times
    )


def _multiplied_bytes(point: Point) -> float:
    """Returns the bytes of the gradients of what was multiplied by, whole over fsdp."""
    if MODELS[point.model].tied_head:
        return weight_bytes(point, "all")
    return weight_bytes(point, "all") - _token_table_bytes(point)


def _looked_up_bytes(point: Point) -> float:
    """Returns those of the table of tokens, 0 where `looked_up_table` has them."""
    apart = point.residual != "replicated" and point.mesh.size("tensor") > 1
    return 0.0 if apart else _token_table_bytes(point)


def _token_table_bytes(point: Point) -> float:
    return token_table_bytes(point) / point.mesh.size("tensor")


def _tables(config: ModelConfig) -> int:
    return 1 if config.tied_head else 2
