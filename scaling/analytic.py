"""Analytic cost: what a point's step must do per device, from its shapes alone.

Letters: A accumulation, c bytes of the compute dtype, p bytes of the parameter dtype.
The step is the one that `experiments.train` builds: AdamW, gradients and optimizer
state sharded as their parameters, weights cast to the compute dtype before they travel.
"""

from meshes.hardware import chip
from models.blocks import form_on
from models.counts import executed_flops_per_token
from models.counts import training_flops_per_token
from models.presets import MODELS
from scaling.communication import collectives
from scaling.cost import Cost
from scaling.held import SUM_BYTES
from scaling.held import activation_bytes
from scaling.held import arguments_bytes
from scaling.held import gradient_bytes
from scaling.held import peak_bytes
from scaling.point import Point
from scaling.weights import DTYPE_BYTES
from scaling.weights import kept_weight_bytes
from scaling.weights import local_elements
from scaling.weights import weight_bytes

ADAMW_PASSES = 7
"""Reads of parameter, gradient and moments, writes of parameter and moments."""


def cost(point: Point) -> Cost:
    """Returns the work of one device in one optimizer step of `point`.

    Raises ValueError naming dim and axis where a shape does not divide over the mesh.
    """
    config, mesh = MODELS[point.model], point.mesh
    per_device = point.tokens_per_step / mesh.num_devices
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
            form=form_on(chip(point.chip).platform),
            attention=point.attention,
        ),
        hbm_bytes=_hbm_bytes(point),
        arguments_bytes=arguments_bytes(point),
        activation_bytes=activation_bytes(point) + kept_weight_bytes(point),
        gradient_bytes=gradient_bytes(point),
        peak_hbm_bytes=peak_bytes(point),
        collectives=collectives(point),
    )


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
    once_per_micro_batch = weights + sums + 2 * activation_bytes(point)
    return point.accumulation * once_per_micro_batch + ADAMW_PASSES * param * local
