"""Analytic cost: what a point's step must do per device, from its shapes alone.

Letters: D embed, L layers, S sequence, T tokens of one device in one step, A
accumulation, c bytes of the compute dtype, p bytes of the parameter dtype, n
devices of an axis. Bytes of a collective are what one device sends. The step is the
one that `experiments.train` builds: AdamW, gradients and optimizer state sharded as
their parameters, weights cast to the compute dtype before they travel.
"""

from typing import Literal
from typing import NamedTuple

from meshes.hardware import chip
from models.blocks import form_on
from models.config import MatmulForm
from models.counts import activation_bytes_per_token
from models.counts import executed_flops_per_token
from models.counts import training_flops_per_token
from models.presets import MODELS
from scaling.communication import collectives
from scaling.communication import local_tokens
from scaling.cost import Cost
from scaling.point import Point
from scaling.weights import DTYPE_BYTES
from scaling.weights import kept_weight_bytes
from scaling.weights import local_arrays
from scaling.weights import local_elements
from scaling.weights import weight_bytes

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


def cost(point: Point) -> Cost:
    """Returns the work of one device in one optimizer step of `point`.

    Raises ValueError naming dim and axis where a shape does not divide over the mesh.
    """
    config, mesh = MODELS[point.model], point.mesh
    per_device = point.tokens_per_step / mesh.num_devices
    parameters = local_elements(config, mesh)
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
        arguments_bytes=state_bytes(point) + _tokens_bytes(point),
        activation_bytes=_activation_bytes(point) + kept_weight_bytes(point),
        gradient_bytes=parameters * _gradient_bytes(point),
        collectives=collectives(point),
    )


class Held(NamedTuple):
    """What takes memory of one device when the forward pass has ended."""

    kind: Literal[
        "parameters", "optimizer", "batch", "gradients", "activations", "weights"
    ]
    """`weights` are copies of parameters, cast or gathered."""
    name: str
    bytes: float


def held(point: Point) -> tuple[Held, ...]:
    """Returns what adds up to the peak memory of the cost of `point`."""
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
        Held("gradients", "gradients", parameters * _gradient_bytes(point)),
        *(Held("activations", *each) for each in _activations(point).items()),
        Held("weights", "copies of weights", kept_weight_bytes(point)),
    )


def state_bytes(point: Point) -> int:
    """Returns the bytes of parameters and optimizer state on one device."""
    parameters = local_elements(MODELS[point.model], point.mesh)
    arrays = ADAMW_ARRAYS * parameters * DTYPE_BYTES[point.param_dtype]
    return arrays + COUNTER_BYTES


def _tokens_bytes(point: Point) -> int:
    sequences = local_tokens(point) // point.seq_len
    return sequences * (point.seq_len + 1) * TOKEN_BYTES


def _form(point: Point) -> MatmulForm:
    return form_on(chip(point.chip).platform)


def _gradient_bytes(point: Point) -> int:
    """Returns the bytes of one gradient as it waits for the optimizer."""
    return SUM_BYTES if point.accumulation > 1 else DTYPE_BYTES[point.param_dtype]


def _activation_bytes(point: Point) -> float:
    return sum(_activations(point).values())


def _activations(point: Point) -> dict[str, float]:
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
    tokens = local_tokens(point) / point.accumulation
    return {name: each * tokens for name, each in per_token.items()}


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
    local = local_elements(MODELS[point.model], point.mesh)
    weights = 3 * weight_bytes(point, "multiplied")
    if point.remat == "full":
        weights += weight_bytes(point, "blocks")
    sums = 2 * SUM_BYTES * local if point.accumulation > 1 else 0
    once_per_micro_batch = weights + sums + 2 * _activation_bytes(point)
    return point.accumulation * once_per_micro_batch + ADAMW_PASSES * param * local
