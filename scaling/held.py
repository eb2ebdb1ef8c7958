"""Held: what takes memory of one device at the fullest moment of a step.

Two moments compete. When the loss has been taken, everything that waits for the
backward pass is there, and the logits with their gradient. While the last layer, the
first to go backward, does so nearly as much still waits, and beside it are the
gradients of all layers, which scanned layers write into one array, and all that one
layer works with.

What is kept between the layers follows from shapes. What a layer works with was read
off programs: the sum meets XLA's peak of seven for v4, v5e, v5p, v6e and v7x (libtpu
0.0.50) within 15 %; tests/scaling/test_held.py lists them. None for GPU is among them.
"""

from typing import Literal
from typing import NamedTuple

from meshes.hardware import chip
from models.blocks import form_on
from models.counts import activation_bytes_per_token
from models.presets import MODELS
from scaling.activation_traffic import local_tokens
from scaling.point import Point
from scaling.weights import DTYPE_BYTES
from scaling.weights import kept_weight_bytes
from scaling.weights import local_arrays
from scaling.weights import local_elements
from scaling.weights import weight_bytes

TOKEN_BYTES = 4
"""Tokens are int32."""
LOGIT_BYTES = 4
"""The loss is taken in float32."""
SUM_BYTES = 4
"""Gradients of several micro-batches are summed in float32."""
ADAMW_ARRAYS = 3
"""The parameter and its two moments, all in the parameter dtype."""
COUNTER_BYTES = 2 * 4
"""The step of the state and that of AdamW, int32 each."""
STREAMS = {"none": 2, "dots": 2, "full": 4}
"""Copies of the residual stream, whole, that a layer going backward works with."""
SQUARES = 1.5
"""Float32 arrays of scores that XLA attention going backward works with."""

Kind = Literal[
    "parameters", "optimizer", "batch", "gradients", "activations", "weights", "layer"
]
"""`weights` are copies of parameters, cast or gathered, with their gradients; `layer`
is what one layer works with."""
_AFTER_THE_LAYERS = ("final norm", "logits")


class Held(NamedTuple):
    """One part of the peak."""

    kind: Kind
    name: str
    bytes: float


def held(point: Point) -> tuple[Held, ...]:
    """Returns the parts of the peak; they sum to `peak_bytes`."""
    config, param = MODELS[point.model], DTYPE_BYTES[point.param_dtype]
    parameters = local_elements(config, point.mesh)
    moments = (ADAMW_ARRAYS - 1) * parameters * param + COUNTER_BYTES
    return (
        *(
            Held("parameters", array.name, param * size)
            for array, size in local_arrays(config, point.mesh)
        ),
        Held("optimizer", "moments of AdamW", moments),
        Held("batch", "tokens", _tokens_bytes(point)),
        *(
            Held(kind, name, size)
            for (kind, name), size in _fullest(point).items()
            if size
        ),
    )


def peak_bytes(point: Point) -> float:
    """Returns the bytes of one device at the fullest moment."""
    return arguments_bytes(point) + sum(_fullest(point).values())


def arguments_bytes(point: Point) -> int:
    """Returns what a step is called with: state and batch, from exact shard shapes."""
    return state_bytes(point) + _tokens_bytes(point)


def state_bytes(point: Point) -> int:
    """Returns the bytes of parameters and optimizer state on one device."""
    parameters = local_elements(MODELS[point.model], point.mesh)
    arrays = ADAMW_ARRAYS * parameters * DTYPE_BYTES[point.param_dtype]
    return arrays + COUNTER_BYTES


def activation_bytes(point: Point) -> float:
    """Returns the bytes saved when the forward pass of one micro-batch has ended."""
    return sum(_activations(point).values())


def gradient_bytes(point: Point) -> int:
    """Returns the bytes of the gradients as they wait for the optimizer."""
    summed = point.accumulation > 1
    each = SUM_BYTES if summed else DTYPE_BYTES[point.param_dtype]
    return each * local_elements(MODELS[point.model], point.mesh)


_Parts = dict[tuple[Kind, str], float]


def _fullest(point: Point) -> _Parts:
    """Returns what is held beside the arguments at the fuller of the two moments."""
    loss, layer = _at_the_loss(point), _at_a_layer(point)
    return max(loss, layer, key=lambda parts: sum(parts.values()))


def _at_the_loss(point: Point) -> _Parts:
    """Returns what waits, and the logits and the head, each with its gradient.

    Sums of earlier micro-batches wait too.
    """
    saved = _activations(point)
    kept = kept_weight_bytes(point)
    sums = gradient_bytes(point) if point.accumulation > 1 else 0
    return {
        **{("activations", name): size for name, size in saved.items()},
        **_logits(point, saved["logits"]),
        ("weights", "copies of weights"): kept,
        ("weights", "gradient of the head"): _head_bytes(point),
        ("gradients", "sums"): float(sums),
    }


def _logits(point: Point, in_float32: float) -> _Parts:
    """Returns what is there of the logits when what comes back of them is.

    They come and go in the compute dtype. Where there is fast memory the loss is taken
    in float32 without ever writing that down, and what comes back takes their place.
    """
    as_computed = in_float32 * DTYPE_BYTES[point.compute_dtype] / LOGIT_BYTES
    if chip(point.chip).platform != "cpu":
        return {("activations", "logits"): as_computed}
    return {
        ("activations", "logits"): in_float32,
        ("activations", "gradient of the logits"): as_computed,
    }


def _at_a_layer(point: Point) -> _Parts:
    """Returns what waits, all gradients, and what one layer works with.

    Its kernels, gathered and cast, and their gradients before they are scattered;
    2 copies of the stream (4 where the whole layer is run again); the MLP's arrays
    before and after the activation; and where plain operations compute attention, its
    scores. Gradients lie there twice, as computed and as cast to the parameter dtype.
    """
    config, mesh = MODELS[point.model], point.mesh
    compute, tensor = DTYPE_BYTES[point.compute_dtype], mesh.size("tensor")
    tokens = local_tokens(point) / point.accumulation
    layer = weight_bytes(point, "blocks") / config.num_layers
    waiting: _Parts = {
        ("activations", name): size
        for name, size in _activations(point).items()
        if name not in _AFTER_THE_LAYERS
    }
    mlp = (3 if config.gated else 2) * config.mlp_dim / tensor
    squares = config.num_heads / tensor * point.seq_len * 4
    plain = point.attention == "xla" and form_on(chip(point.chip).platform) == "plain"
    return {
        **waiting,
        ("gradients", "gradients"): float(gradient_bytes(point) + _as_computed(point)),
        # Where there are copies, that of the head is no longer needed.
        ("weights", "copies of weights"): max(
            0.0, kept_weight_bytes(point) - _head_bytes(point)
        ),
        ("weights", "kernels of a layer, and their gradients"): 2 * layer,
        ("layer", "copies of the stream"): compute
        * tokens
        * STREAMS[point.remat]
        * config.embed_dim,
        ("layer", "arrays of the mlp"): compute * tokens * mlp,
        ("layer", "scores of attention"): SQUARES * tokens * squares if plain else 0.0,
    }


def _as_computed(point: Point) -> int:
    """Returns the bytes of the gradients that wait to be cast or summed."""
    if point.accumulation == 1 and point.param_dtype == point.compute_dtype:
        return 0
    elements = local_elements(MODELS[point.model], point.mesh)
    return elements * DTYPE_BYTES[point.compute_dtype]


def _head_bytes(point: Point) -> float:
    """Returns the bytes of the head on one device, whole over fsdp."""
    return weight_bytes(point, "multiplied") - weight_bytes(point, "blocks")


def _activations(point: Point) -> dict[str, float]:
    per_token = activation_bytes_per_token(
        MODELS[point.model],
        point.seq_len,
        remat=point.remat,
        compute_bytes=DTYPE_BYTES[point.compute_dtype],
        tensor=point.mesh.size("tensor"),
        residual=point.residual,
        form=form_on(chip(point.chip).platform),
        attention=point.attention,
    )
    tokens = local_tokens(point) / point.accumulation
    return {name: each * tokens for name, each in per_token.items()}


def _tokens_bytes(point: Point) -> int:
    sequences = local_tokens(point) // point.seq_len
    return sequences * (point.seq_len + 1) * TOKEN_BYTES
