"""Weight traffic: what sharded weights and their gradients cost the networks.

Rajbhandari et al., ZeRO (arXiv 1910.02054), has the passes over sharded weights. All is
in every micro-batch, since the sums of gradients are sharded as the weights are.
"""

from collections.abc import Iterator

from models.config import ModelConfig
from models.presets import MODELS
from scaling.cost import Collective
from scaling.over_networks import all_reduce
from scaling.over_networks import on_both
from scaling.over_networks import on_one
from scaling.point import Point
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
    yield from on_both(
        "all_gather",
        "fsdp",
        point.mesh,
        payload=times * passes * weight_bytes(point, "blocks"),
        count=times * passes * config.num_layers,
    )
    yield from on_both(
        "all_gather",
        "fsdp",
        point.mesh,
        payload=times * table_bytes_gathered(point),
        count=times * _tables(config),
    )


def summed_gradients(point: Point) -> Iterator[Collective]:
    """Yields what gradients cross: scattered over `fsdp`, summed over `data`.

    Within a slice XLA's partitioner sums over both axes at once and then keeps a part:
    the pair that a reduce-scatter is made of needs the same group in both. The gradient
    of a table that is looked up in and multiplied by crosses once for each.
    """
    mesh, config = point.mesh, MODELS[point.model]
    payload = point.accumulation * _gradient_bytes(point)
    count = point.accumulation * (config.num_layers + _tables(config))
    if mesh.size("data", "ici") > 1 and mesh.size("fsdp", "ici") > 1:
        yield from on_one(
            "all_reduce", ("data", "fsdp"), mesh, payload=payload, count=count
        )
        shard = payload / (mesh.size("data", "ici") * mesh.size("fsdp", "ici"))
        yield from on_one(
            "reduce_scatter", ("fsdp",), mesh, "dcn", payload=shard, count=count
        )
        yield from on_one(
            "all_reduce", ("data",), mesh, "dcn", payload=shard, count=count
        )
        return
    yield from on_both("reduce_scatter", "fsdp", mesh, payload=payload, count=count)
    yield from all_reduce(
        "data", mesh, payload=payload / mesh.size("fsdp"), count=count
    )


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


def _gradient_bytes(point: Point) -> float:
    """Returns the bytes of one device's gradients as they cross, whole over fsdp."""
    multiplied = MODELS[point.model].tied_head
    looked_up = point.residual == "replicated" or point.mesh.size("tensor") == 1
    token_table = token_table_bytes(point) / point.mesh.size("tensor")
    return weight_bytes(point, "all") + (multiplied + looked_up - 1) * token_table


def _tables(config: ModelConfig) -> int:
    return 1 if config.tied_head else 2
