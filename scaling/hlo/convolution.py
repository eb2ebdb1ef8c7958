"""Convolution: multiplications of a convolution that meet data, not padding.

The TPU compiler writes every matrix product as a convolution; batch dims become
dilated windows most of whose positions are padding, which costs nothing there.
"""

import dataclasses
import math
import re

from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction

_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"window=\{([^}]*)\}")


@dataclasses.dataclass(frozen=True)
class Window:
    """The window of one spatial dim."""

    size: int
    stride: int = 1
    pad_low: int = 0
    lhs_dilate: int = 1
    rhs_dilate: int = 1


def convolution_flops(computation: Computation, it: Instruction) -> float:
    """Returns 2 FLOPs for each product of an input that is no padding.

    Raises ValueError where its dims are not labelled.
    """
    labels = _LABELS.search(it.attributes)
    if labels is None:
        raise ValueError(f"convolution {it.name!r} has no dim_labels")
    lhs, rhs = computation.operand_arrays(it)
    inputs = dict(zip(labels[1], lhs.shape, strict=True))
    kernel = dict(zip(labels[2], rhs.shape, strict=True))
    output = dict(zip(labels[3], it.results[0].shape, strict=True))
    spatial = sorted(label for label in output if label.isdigit())
    met = math.prod(
        products_of_dim(inputs[label], output[label], window)
        for label, window in zip(spatial, windows(it, len(spatial)), strict=True)
    )
    # The kernel's input features are already those of one feature group.
    return 2.0 * output["b"] * output["f"] * kernel["i"] * met


def windows(it: Instruction, count: int) -> list[Window]:
    """Returns the windows of the spatial dims, in the order of their labels."""
    found = _WINDOW.search(it.attributes)
    fields = dict(part.split("=") for part in found[1].split()) if found else {}
    each = {key: value.split("x") for key, value in fields.items()}
    return [
        Window(
            size=int(each["size"][dim]),
            stride=int(each["stride"][dim]) if "stride" in each else 1,
            pad_low=int(each["pad"][dim].split("_")[0]) if "pad" in each else 0,
            lhs_dilate=int(each["lhs_dilate"][dim]) if "lhs_dilate" in each else 1,
            rhs_dilate=int(each["rhs_dilate"][dim]) if "rhs_dilate" in each else 1,
        )
        for dim in range(count)
    ]


def products_of_dim(inputs: int, outputs: int, window: Window) -> int:
    """Returns the pairs of output and window position that meet an input.

    `inputs` lie `lhs_dilate` apart; between and around them is padding.
    """
    last = (inputs - 1) * window.lhs_dilate
    return sum(
        _meeting(
            outputs,
            window.stride,
            at * window.rhs_dilate - window.pad_low,
            last,
            window.lhs_dilate,
        )
        for at in range(window.size)
    )


def _meeting(count: int, stride: int, offset: int, last: int, dilate: int) -> int:
    """Returns how many o in range(count) have o·stride + offset on an input.

    That is from 0 to `last` and a multiple of `dilate`: one residue class of o, solved
    by the inverse of the stride.
    """
    low = max(0, -(offset // stride))
    high = min(count - 1, (last - offset) // stride)
    common = math.gcd(stride, dilate)
    if high < low or offset % common:
        return 0
    period = dilate // common
    residue = -offset // common * pow(stride // common, -1, period) % period
    return (high - residue) // period - (low - 1 - residue) // period
