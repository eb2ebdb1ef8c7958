"""Activation traffic: what crosses `tensor`, arrays [tokens, embed].

Shoeybi et al., Megatron-LM (arXiv 1909.08053), has the sums of tensor parallelism;
Korthikanti et al. (arXiv 2205.05198) a residual stream that is sharded too.
"""

from collections.abc import Iterator
from typing import TypedDict

from meshes.collectives import CollectiveKind
from models.presets import MODELS
from scaling.cost import Collective
from scaling.over_networks import all_reduce
from scaling.over_networks import on_both
from scaling.point import Point
from scaling.rewrites import in_windows
from scaling.weights import DTYPE_BYTES


def local_tokens(point: Point) -> int:
    """Returns the tokens of one device in one step; tensor shards share them."""
    shares = point.mesh.size("data") * point.mesh.size("fsdp")
    return point.tokens_per_step // shares


def crossing_activations(point: Point) -> Iterator[Collective]:
    """Yields what crosses `tensor` in one step.

    Activations are summed twice a block forward, twice backward, and once more where
    `remat` is full (the block's last matmul is not repeated, nor what follows it); once
    for the input's gradient of the head, and once for the look-up in a table sharded
    over the vocabulary. A stream that lies sharded is scattered in these sums, and
    gathered before every matmul that takes it: twice a block forward, twice for the
    gradients that come back, twice more where what was gathered is not kept, and once
    before the head; its look-up is `weight_traffic.looked_up_table`.
    """
    layers = MODELS[point.model].num_layers
    forward, backward = layers * (2 + (point.remat == "full")) + 1, layers * 2
    if point.residual == "replicated":
        yield from all_reduce(
            "tensor", point.mesh, **_arrays(point, forward + backward + 1)
        )
        return
    gathers = layers * (4 + 2 * (point.remat != "none")) + 1
    yield from _crossing("all_gather", point, gathers)
    yield from (
        in_windows(each, point) for each in _crossing("reduce_scatter", point, forward)
    )
    yield from _crossing("reduce_scatter", point, backward)


def _crossing(kind: CollectiveKind, point: Point, times: int) -> Iterator[Collective]:
    return on_both(kind, "tensor", point.mesh, **_arrays(point, times))


class _Arrays(TypedDict):
    payload: float
    count: int


def _arrays(point: Point, times: int) -> _Arrays:
    """Returns so many arrays of one device's activations, which micro-batches share."""
    values = times * local_tokens(point) * MODELS[point.model].embed_dim
    return {
        "payload": float(values * DTYPE_BYTES[point.compute_dtype]),
        "count": times * point.accumulation,
    }
