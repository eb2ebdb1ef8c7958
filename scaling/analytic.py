"""Analytic cost: what a point's step must do per device, from its shapes alone.

Letters: D embed, L layers, S sequence, T tokens of one device in one step, A
accumulation, c bytes of the compute dtype, p bytes of the parameter dtype, n
devices of an axis. Bytes of a collective are what one device sends. The step is the
one that `experiments.train` builds: AdamW, gradients and optimizer state sharded as
their parameters, weights cast to the compute dtype before they travel.

Sources: scaling-book (jax-ml.github.io/scaling-book) "training" and "transformers"
for what each parallelism sends; Rajbhandari et al., ZeRO (arXiv 1910.02054), for the
passes over sharded weights; Shoeybi et al., Megatron-LM (arXiv 1909.08053), for the
all-reduces of tensor parallelism.
"""

import functools
import math
from collections.abc import Iterator
from typing import Literal

from meshes.collectives import sent_bytes
from meshes.hardware import chip
from meshes.rules import shard_shape
from meshes.spec import Axis
from meshes.spec import MeshSpec
from meshes.spec import Network
from models.blocks import form_on
from models.config import DType
from models.config import MatmulForm
from models.config import ModelConfig
from models.counts import ParameterShape
from models.counts import activation_bytes_per_token
from models.counts import executed_flops_per_token
from models.counts import parameter_shapes
from models.counts import training_flops_per_token
from models.presets import MODELS
from scaling.cost import Collective
from scaling.cost import CollectiveKind
from scaling.cost import Cost
from scaling.point import Point

DTYPE_BYTES: dict[DType, int] = {"float32": 4, "bfloat16": 2}
TOKEN_BYTES = 4
"""Tokens are int32."""
SUM_BYTES = 4
"""Gradients of several micro-batches are summed in float32."""
ADAMW_ARRAYS = 3
"""The parameter and its two moments, all in the parameter dtype."""
COUNTER_BYTES = 2 * 4
"""The step of the state and that of AdamW, int32 each."""
ADAMW_PASSES = 7
"""Reads of parameter, gradient and moments, writes of parameter and moments."""

_MESHES_KEPT = 256
"""Whose shard sizes are remembered: a search asks for a mesh under many policies."""

_Part = Literal["all", "multiplied", "blocks"]
"""`multiplied` leaves out tables that are only looked up in."""


def cost(point: Point) -> Cost:
    """Returns the work of one device in one optimizer step of `point`.

    Raises ValueError naming dim and axis where a shape does not divide over the mesh.
    """
    config, mesh = MODELS[point.model], point.mesh
    per_device = point.tokens_per_step / mesh.num_devices
    parameters = _local_elements(config, mesh)
    return Cost(
        model_flops=per_device
        * training_flops_per_token(config, point.seq_len, causal=True),
        model_flops_full_attention=per_device
        * training_flops_per_token(config, point.seq_len, causal=False),
        executed_flops=per_device
        * executed_flops_per_token(
            config,
            point.seq_len,
            remat=point.remat,
            form=_form(point),
            attention=point.attention,
        ),
        hbm_bytes=_hbm_bytes(point),
        arguments_bytes=state_bytes(point)
        + _local_sequences(point) * (point.seq_len + 1) * TOKEN_BYTES,
        activation_bytes=_activation_bytes(point) + _kept_weight_bytes(point),
        gradient_bytes=parameters * _gradient_bytes(point),
        collectives=tuple(
            collective for part in (_fsdp, _data, _tensor) for collective in part(point)
        ),
    )


def state_bytes(point: Point) -> int:
    """Returns the bytes of parameters and optimizer state on one device."""
    parameters = _local_elements(MODELS[point.model], point.mesh)
    arrays = ADAMW_ARRAYS * parameters * DTYPE_BYTES[point.param_dtype]
    return arrays + COUNTER_BYTES


def _form(point: Point) -> MatmulForm:
    return form_on(chip(point.chip).platform)


def _gradient_bytes(point: Point) -> int:
    """Returns the bytes of one gradient as it waits for the optimizer."""
    return SUM_BYTES if point.accumulation > 1 else DTYPE_BYTES[point.param_dtype]


@functools.lru_cache(maxsize=_MESHES_KEPT)
def _local_elements(config: ModelConfig, mesh: MeshSpec) -> int:
    """Returns the parameter values that one device holds."""
    return sum(_shard(array, mesh) * array.count for array in parameter_shapes(config))


def _shard(array: ParameterShape, mesh: MeshSpec) -> int:
    return math.prod(shard_shape(array.shape, array.logical_axes, mesh))


def _local_sequences(point: Point) -> int:
    """Returns the sequences of one device in one step; tensor shards share them."""
    return point.global_batch_size // _batch_shares(point.mesh)


def _batch_shares(mesh: MeshSpec) -> int:
    return mesh.size("data") * mesh.size("fsdp")


def _local_tokens(point: Point) -> int:
    return _local_sequences(point) * point.seq_len


def _activation_bytes(point: Point) -> float:
    """Returns the bytes saved when the forward pass of one micro-batch has ended."""
    per_token = activation_bytes_per_token(
        MODELS[point.model],
        point.seq_len,
        remat=point.remat,
        compute_bytes=DTYPE_BYTES[point.compute_dtype],
        tensor=point.mesh.size("tensor"),
        residual=point.residual,
        form=_form(point),
        attention=point.attention,
    )
    return per_token * _local_tokens(point) / point.accumulation


def _kept_weight_bytes(point: Point) -> float:
    """Returns the bytes of the copies of weights that wait for the backward pass.

    A weight that is cast or gathered is a copy. Each layer makes its own again, but
    where layers are unrolled and nothing else is repeated XLA merges the two.
    """
    if point.mesh.size("fsdp") == 1 and point.param_dtype == point.compute_dtype:
        return 0.0
    kept = _weight_bytes(point, "multiplied")
    return kept - _weight_bytes(point, "blocks") if _makes_again(point) else kept


def _makes_again(point: Point) -> bool:
    """Whether the backward pass of a block casts and gathers its weights again."""
    return point.layers == "scanned" or point.remat != "none"


def _hbm_bytes(point: Point) -> float:
    """Returns a lower bound of one device's memory traffic in a step.

    c·A·(3·W + [remat full]·W_blocks) for the weights W that one device multiplies by,
    whole over fsdp: read forward, read for the input's gradient, their own gradient
    written, and read again where the forward pass is repeated. 8·A bytes a parameter
    where gradients are summed over micro-batches, 7·p for AdamW (28 bytes in
    float32). Each saved activation is written once and read once. Arrays that stay
    in on-chip memory make it less, whatever is not fused more.
    """
    param = DTYPE_BYTES[point.param_dtype]
    local = _local_elements(MODELS[point.model], point.mesh)
    weights = 3 * _weight_bytes(point, "multiplied")
    if point.remat == "full":
        weights += _weight_bytes(point, "blocks")
    sums = 2 * SUM_BYTES * local if point.accumulation > 1 else 0
    once_per_micro_batch = weights + sums + 2 * _activation_bytes(point)
    return point.accumulation * once_per_micro_batch + ADAMW_PASSES * param * local


def _weight_bytes(point: Point, part: _Part) -> float:
    """Returns the bytes of one device's weights, whole over fsdp.

    In the compute dtype, in which they are multiplied and cross the network.
    """
    elements = _elements_of(part, MODELS[point.model], point.mesh)
    return float(elements * DTYPE_BYTES[point.compute_dtype])


@functools.lru_cache(maxsize=_MESHES_KEPT)
def _elements_of(part: _Part, config: ModelConfig, mesh: MeshSpec) -> int:
    """Returns the values of one device's weights, whole over fsdp."""
    whole = _without_fsdp(mesh)
    return sum(
        _shard(array, whole) * array.count
        for array in parameter_shapes(config)
        if _belongs(array.name, part, config)
    )


def _belongs(name: str, part: _Part, config: ModelConfig) -> bool:
    if part == "blocks":
        return name.startswith("blocks.")
    looked_up = name == "position_embedding" or (
        name == "token_embedding" and not config.tied_head
    )
    return part == "all" or not looked_up


def _without_fsdp(mesh: MeshSpec) -> MeshSpec:
    return MeshSpec(
        dcn=tuple(pair for pair in mesh.dcn if pair[0] != "fsdp"),
        ici=tuple(pair for pair in mesh.ici if pair[0] != "fsdp"),
    )


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
    every = times * _weight_bytes(point, "all")
    again = times * _weight_bytes(point, "blocks") if _makes_again(point) else 0.0
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
    payload = _weight_bytes(point, "all") / point.mesh.size("fsdp")
    yield from _all_reduce(
        "data",
        point.mesh,
        payload=times * payload,
        count=times * _weight_messages(MODELS[point.model]),
    )


def _tensor(point: Point) -> Iterator[Collective]:
    """Yields the all-reduces of activations [tokens, D] over `tensor`.

    Two a block forward, two backward, and the first again where `remat` is full (the
    block's last matmul is not repeated, nor what follows it); one for the look-up in
    a table sharded over the vocabulary, one for the input's gradient of the head.
    """
    config = MODELS[point.model]
    times = config.num_layers * (4 + (point.remat == "full")) + 2
    array = _local_tokens(point) * config.embed_dim * DTYPE_BYTES[point.compute_dtype]
    yield from _all_reduce(
        "tensor",
        point.mesh,
        payload=float(times * array),
        count=times * point.accumulation,
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
