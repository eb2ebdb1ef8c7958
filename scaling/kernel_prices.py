"""Kernel prices: the FLOPs of the attention kernels in a compiled program.

Their calls show none. They come from the shapes of the point, per execution, so that
how often the program runs which kernel is still read from the program.
"""

import re
from collections.abc import Mapping

from models.attention_kernels import PRODUCTS
from models.counts import attention_product_flops_per_token
from models.presets import MODELS
from scaling.hlo.flops import FlopsPrice
from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction
from scaling.point import Point

_SPLASH = re.compile(r"splash_m[hq]a_(fwd|dq|dkv)_")
"""What JAX calls the kernels, and the compilers the instructions that run them."""


def kernel_prices(point: Point) -> Mapping[str, FlopsPrice]:
    """Returns the prices of the attention kernels of `point`, by their call's target.

    All TPU kernels have one target: calls of any other kernel stay without a price.
    """
    product = _product_flops(point)
    if point.attention == "splash":
        return {"tpu_custom_call": lambda _, it: _splash_flops(it, product)}
    if point.attention == "cudnn":
        passes = PRODUCTS["cudnn"]
        return {
            "__cudnn$fmhaSoftmax": _always(passes["forward"] * product),
            "__cudnn$fmhaSoftmaxBackward": _always(passes["backward"] * product),
        }
    return {}


def _product_flops(point: Point) -> float:
    """Returns the FLOPs of one product on one device: one layer, one micro-batch."""
    per_token = attention_product_flops_per_token(
        MODELS[point.model], point.seq_len, attention=point.attention
    )
    tokens = point.tokens_per_step / point.accumulation
    return tokens / point.mesh.num_devices * per_token


def _splash_flops(it: Instruction, product: float) -> float | None:
    found = _SPLASH.search(it.name)
    return PRODUCTS["splash"][found[1]] * product if found else None


def _always(flops: float) -> FlopsPrice:
    def price(_computation: Computation, _it: Instruction) -> float:
        return flops

    return price
