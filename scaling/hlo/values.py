"""Values: what integers in an HLO text are known to be, through tuples and fusions.

Only what loop counters need: constants, elements of a loop's state, and sums of both.
"""

import dataclasses
import re
from collections.abc import Callable

from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction
from scaling.hlo.module import Module

_PASSED_ON = frozenset(
    (
        "bitcast",
        "bitcast-convert",
        "convert",
        "copy",
        "copy-done",
        "copy-start",
        "opt-barrier",
        "optimization-barrier",
        "reshape",
    )
)
"""Opcodes whose result is the number, or the tuple, that they are given."""
_INTEGER = re.compile(r"\{?(-?\d+)\}?$")
_COUNTER = re.compile(r"[su]\d+\[1?\]")


@dataclasses.dataclass(frozen=True)
class Value:
    """`offset`, added to one element of the state where `element` is not None."""

    element: int | None
    offset: int

    def shifted(self, by: int) -> "Value":
        """Returns the sum of this value and `by`."""
        return Value(self.element, self.offset + by)


Argument = Callable[[int, int | None], Value | None]
"""Parameter number and tuple element to what is known of it."""
LoopEnd = Callable[["Frame", Instruction, int], Value | None]
"""Frame, loop and element of its state to what is known of it after the loop."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """One execution of a computation, with what is known of its arguments."""

    module: Module
    computation: Computation
    argument: Argument
    loop_end: LoopEnd
    _known: dict[tuple[str, int | None], Value | None] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def value(self, name: str, element: int | None = None) -> Value | None:
        """Returns what is known of a result, or of one element of it, else None."""
        key = (name, element)
        if key not in self._known:
            self._known[key] = self._value(self.computation.by_name[name], element)
        return self._known[key]

    def _value(self, it: Instruction, element: int | None) -> Value | None:
        if it.opcode == "parameter":
            return self.argument(int(it.literal), element)
        if it.opcode == "constant":
            found = _INTEGER.match(it.literal)
            return Value(None, int(found[1])) if found else None
        if it.opcode in _PASSED_ON:
            return self.value(it.operands[0], element)
        if it.opcode == "get-tuple-element":
            return self.value(it.operands[0], int(it.attribute("index") or 0))
        if it.opcode == "tuple" and element is not None:
            return self.value(it.operands[element])
        if it.opcode in ("fusion", "call"):
            return self.inside(it).value_of_root(element)
        if it.opcode == "while" and element is not None:
            return self.loop_end(self, it, element)
        counts = it.opcode in ("add", "subtract") and _COUNTER.match(it.shape)
        return self._sum(it) if counts else None

    def value_of_root(self, element: int | None = None) -> Value | None:
        """Returns what is known of the computation's result."""
        return self.value(self.computation.root.name, element)

    def inside(self, it: Instruction) -> "Frame":
        """Returns the frame of what a fusion or call executes."""

        def argument(number: int, element: int | None) -> Value | None:
            return self.value(it.operands[number], element)

        (called,) = self.module.called(it)
        return dataclasses.replace(self, computation=called, argument=argument)

    def _sum(self, it: Instruction) -> Value | None:
        left, right = (self.value(name) for name in it.operands)
        if left is None or right is None:
            return None
        if right.element is None:
            return left.shifted(right.offset if it.opcode == "add" else -right.offset)
        if left.element is None and it.opcode == "add":
            return right.shifted(left.offset)
        return None
