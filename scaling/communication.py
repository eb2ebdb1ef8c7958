"""Communication: what the devices of a point send each other in one step.

Letters: D embed, n devices of an axis. Bytes of a collective are what one device sends.
The sources of what each parallelism sends: the scaling-book
(jax-ml.github.io/scaling-book) "training"; Rajbhandari et al., ZeRO (arXiv 1910.02054),
for the passes over sharded weights; Shoeybi et al., Megatron-LM (arXiv 1909.08053), for
the all-reduces of tensor parallelism; Korthikanti et al. (arXiv 2205.05198) for a
residual stream that is sharded too.
"""

from collections.abc import Iterator

from meshes.collectives import CollectiveKind
from meshes.collectives import sent_bytes
from meshes.spec import Axis
from meshes.spec import MeshSpec
from meshes.spec import Network
from models.config import ModelConfig
from models.presets import MODELS
from scaling.cost import Collective
from scaling.point import Point
from scaling.rewrites import as_compiled
from scaling.weights import DTYPE_BYTES
from scaling.weights import makes_again
from scaling.weights import weight_bytes


def collectives(point: Point) -> tuple[Collective, ...]:
    """Returns every collective of one optimizer step, of one device."""
    asked_for = (each for part in (_fsdp, _data, _tensor) for each in part(point))
    return tuple(as_compiled(each, point) for each in asked_for)


def local_tokens(point: Point) -> int:
    """Returns the tokens of one device in one step; tensor shards share them."""
    shares = point.mesh.size("data") * point.mesh.size("fsdp")
    return point.tokens_per_step // shares


def _weight_messages(config: ModelConfig) -> int:
    """Returns the messages of one pass over the weights: one a block, and the tables.

    XLA combines the arrays of a block, seldom more.
    """
    return config.num_layers + (1 if config.tied_head else 2)


def _fsdp(point: Point) -> Iterator[Collective]:
    """Yields what sharded weights cost: gathered, and their gradients scattered.

    All are gathered forward, those of the blocks once more backward, where a repeated
    forward pass uses them too. All of it in every micro-batch, since the sums of
    gradients are sharded as well.
    """
    times = point.accumulation
    messages = times * _weight_messages(MODELS[point.model])
    every = times * weight_bytes(point, "all")
    again = times * weight_bytes(point, "blocks") if makes_again(point) else 0.0
    yield from _two_networks(
        "all_gather",
        "fsdp",
        point.mesh,
        payload=every + again,
        count=messages + (times * MODELS[point.model].num_layers if again else 0),
    )
    yield from _two_networks(
        "reduce_scatter", "fsdp", point.mesh, payload=every, count=messages
    )


def _data(point: Point) -> Iterator[Collective]:
    """Yields the gradient all-reduce over `data`, of what fsdp has scattered.

    In every micro-batch: the sums that a device keeps are those of the whole mesh.
    """
    times = point.accumulation
    payload = weight_bytes(point, "all") / point.mesh.size("fsdp")
    yield from _all_reduce(
        "data",
        point.mesh,
        payload=times * payload,
        count=times * _weight_messages(MODELS[point.model]),
    )


def _tensor(point: Point) -> Iterator[Collective]:
    """Yields what crosses `tensor`: activations [tokens, D].

    They are summed twice a block forward, twice backward, and once more where `remat`
    is full (the block's last matmul is not repeated, nor what follows it); once for the
    look-up in a table sharded over the vocabulary, once for the input's gradient of the
    head. A stream that lies sharded is scattered in these sums, and gathered before
    every matmul that takes it: twice a block forward, twice for the gradients that come
    back, twice more where what was gathered is not kept.
    """
    config = MODELS[point.model]
    array = local_tokens(point) * config.embed_dim * DTYPE_BYTES[point.compute_dtype]
    sums = config.num_layers * (4 + (point.remat == "full")) + 2
    if point.residual == "replicated":
        yield from _over_tensor("all_reduce", point, times=sums, array=array)
        return
    gathers = config.num_layers * (4 + 2 * (point.remat != "none")) + 2
    yield from _over_tensor("all_gather", point, times=gathers, array=array)
    yield from _over_tensor("reduce_scatter", point, times=sums, array=array)


def _over_tensor(
    kind: CollectiveKind, point: Point, *, times: int, array: int
) -> Iterator[Collective]:
    count, payload = times * point.accumulation, float(times * array)
    if kind == "all_reduce":
        yield from _all_reduce("tensor", point.mesh, payload=payload, count=count)
    else:
        yield from _two_networks(
            kind, "tensor", point.mesh, payload=payload, count=count
        )


def _all_reduce(
    axis: Axis, mesh: MeshSpec, *, payload: float, count: int
) -> Iterator[Collective]:
    """Yields an all-reduce; over both networks the shards of a slice cross alone.

    Reduce-scatter within the slice, all-reduce of 1/n across, all-gather within.
    """
    within = mesh.size(axis, "ici")
    if mesh.size(axis, "dcn") == 1:
        yield from _one("all_reduce", axis, mesh, "ici", payload=payload, count=count)
        return
    across = payload / within
    yield from _one("reduce_scatter", axis, mesh, "ici", payload=payload, count=count)
    yield from _one("all_reduce", axis, mesh, "dcn", payload=across, count=count)
    yield from _one("all_gather", axis, mesh, "ici", payload=payload, count=count)


def _two_networks(
    kind: CollectiveKind, axis: Axis, mesh: MeshSpec, *, payload: float, count: int
) -> Iterator[Collective]:
    """Yields a gather or scatter; only a slice's own shard crosses between slices."""
    across = payload / mesh.size(axis, "ici")
    yield from _one(kind, axis, mesh, "ici", payload=payload, count=count)
    yield from _one(kind, axis, mesh, "dcn", payload=across, count=count)


def _one(
    kind: CollectiveKind,
    axis: Axis,
    mesh: MeshSpec,
    network: Network,
    *,
    payload: float,
    count: int,
) -> Iterator[Collective]:
    """Yields the collective, or nothing where the axis has one member there."""
    size = mesh.size(axis, network)
    if size > 1:
        yield Collective(
            kind=kind,
            axes=(axis,),
            network=network,
            group_size=size,
            count=count,
            payload_bytes=payload,
            bytes=sent_bytes(kind, payload, size),
        )
