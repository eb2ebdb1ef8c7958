"""FLOPs: the products and sums of matrix products in a computation, exactly.

Element-wise work is not counted, as in `models.counts`. Custom calls carry no FLOPs in
the text: those of cuBLAS are matrix products like any other, all others are priced by
what the caller knows of their target, or listed without a price.
"""

import dataclasses
import math
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from scaling.hlo.convolution import convolution_flops
from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction
from scaling.hlo.module import Module

FlopsPrice = Callable[[Computation, Instruction], float | None]
"""Returns the FLOPs of one execution of a custom call, None where it is another's."""

NO_WORK = frozenset(
    (
        "AllocateBuffer",
        "AssumeGatherIndicesInBound",
        "AsyncCollectiveDone",
        "AsyncCollectiveStart",
        "ConcatBitcast",
        "Sharding",
        "SliceId",
        "ZeroCrop",
    )
)
"""Targets of the TPU compiler that hold or name buffers and compute nothing."""

_REFUSED = ("cholesky", "fft", "triangular-solve")
_CUBLAS = "__cublas$"
_INSIDE = ("fusion", "fusion-start", "async-start", "call-start", "custom-call-start")


@dataclasses.dataclass(frozen=True)
class CustomCall:
    """A custom call whose FLOPs the text does not tell."""

    name: str
    target: str
    flops: float | None
    """Of one execution, None where nobody gave a price."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What one execution of an instruction or computation does."""

    flops: float = 0.0
    """Matrix products, with those of priced custom calls."""
    custom_calls: tuple[CustomCall, ...] = ()


class Workload:
    """The work of a module's instructions, each computation read once."""

    def __init__(self, module: Module, prices: Mapping[str, FlopsPrice] | None = None):
        self._module = module
        self._prices = prices or {}
        self._known: dict[str, Work] = {}

    def of_computation(self, computation: Computation) -> Work:
        """Returns the work of one execution, loops and calls inside it left out."""
        if computation.name not in self._known:
            parts = [self.of_instruction(computation, it) for it in computation]
            self._known[computation.name] = Work(
                flops=sum(part.flops for part in parts),
                custom_calls=tuple(c for part in parts for c in part.custom_calls),
            )
        return self._known[computation.name]

    def of_instruction(self, computation: Computation, it: Instruction) -> Work:
        """Returns the work of one execution, with what it fuses or starts.

        Raises ValueError for a matrix product that cannot be counted.
        """
        if it.opcode in _INSIDE:
            parts = [self.of_computation(each) for each in self._module.called(it)]
            return Work(
                flops=sum(part.flops for part in parts),
                custom_calls=tuple(c for part in parts for c in part.custom_calls),
            )
        if it.opcode == "custom-call":
            return self._custom_call(computation, it)
        if it.opcode in _REFUSED:
            raise ValueError(f"{it.name!r} is a {it.opcode}, whose FLOPs are not known")
        count = _COUNTS.get(it.opcode)
        return Work(count(computation, it)) if count else Work()

    def _custom_call(self, computation: Computation, it: Instruction) -> Work:
        if it.target in NO_WORK:
            return Work()
        price = self._prices.get(it.target)
        if price is None and it.target.startswith(_CUBLAS):
            price = _cublas_flops
        flops = price(computation, it) if price else None
        call = CustomCall(it.name, it.target, flops)
        return Work(flops or 0.0, (call,))


def _dot_flops(computation: Computation, it: Instruction) -> float:
    """Returns 2·M·N·K·batch: each element of the result sums K products."""
    lhs = computation.operand_arrays(it)[0]
    contracted = _dims(it, "lhs_contracting_dims")
    return 2.0 * it.results[0].size * math.prod(lhs.shape[dim] for dim in contracted)


def _ragged_dot_flops(computation: Computation, it: Instruction) -> float:
    """Returns the FLOPs of the rows that a group works on, not of all pairs.

    Each row of the left side belongs to one group. Where the ragged dim is contracted
    the result has a dim of groups that share the rows.
    """
    contracted = _dims(it, "lhs_contracting_dims")
    ragged = _dims(it, "lhs_ragged_dims")
    if not ragged:
        raise ValueError(f"ragged dot {it.name!r} names no lhs_ragged_dims")
    flops = _dot_flops(computation, it)
    if ragged[0] not in contracted:
        return flops
    return flops / computation.operand_arrays(it)[2].size


def _cublas_flops(computation: Computation, it: Instruction) -> float:
    """Returns the FLOPs of a matrix product by cuBLAS; the rest is its epilogue."""
    found = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', it.attributes)
    if found is None:
        raise ValueError(f"{it.target} {it.name!r} names no contracted dims")
    contracted = [int(dim) for dim in re.findall(r"\d+", found[1])]
    lhs = computation.operand_arrays(it)[0]
    return 2.0 * it.results[0].size * math.prod(lhs.shape[dim] for dim in contracted)


def _dims(it: Instruction, name: str) -> tuple[int, ...]:
    found = re.search(rf"\b{name}=\{{([\d,]*)\}}", it.attributes)
    return tuple(_ints(found[1])) if found else ()


def _ints(text: str) -> Iterator[int]:
    return (int(part) for part in text.split(",") if part)


_COUNTS: dict[str, Callable[[Computation, Instruction], float]] = {
    "convolution": convolution_flops,
    "dot": _dot_flops,
    "ragged-dot": _ragged_dot_flops,
    "scaled-dot": _dot_flops,
}
