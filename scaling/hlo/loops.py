"""Loops: how often each computation of a program runs in one step.

The TPU compiler prints no trip counts and unrolls some loops by two, so that the
counter is followed from its first value by its step to its bound.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping

from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction
from scaling.hlo.module import Module
from scaling.hlo.values import Frame
from scaling.hlo.values import Value

_KNOWN = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_NEGATED = {"LT": "GE", "GE": "LT", "LE": "GT", "GT": "LE", "EQ": "NE", "NE": "EQ"}
_TURNED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}


@dataclasses.dataclass(frozen=True)
class Executions:
    """How often the parts of a program run in one step."""

    of_computation: Mapping[str, int]
    """Times of each scheduled computation: the entry, bodies of loops, callees."""
    trips: Mapping[tuple[str, str], int]
    """Trips of a loop by the names of its computation and of the loop itself."""


def executions(module: Module) -> Executions:
    """Returns how often each scheduled computation runs.

    Fused computations are no part of it: they run where their fusion does. Raises
    ValueError where a trip count cannot be found, or where a branch decides about
    matrix products or collectives.
    """
    times: dict[str, int] = {}
    trips: dict[tuple[str, str], int] = {}
    waiting = [(_entry_frame(module), 1)]
    while waiting:
        frame, count = waiting.pop()
        name = frame.computation.name
        times[name] = times.get(name, 0) + count
        for it in frame.computation:
            if it.opcode == "while":
                trips[name, it.name] = trip_count(frame, it)
                waiting.append((_body(frame, it), count * trips[name, it.name]))
            elif it.opcode == "call":
                waiting.append((frame.inside(it), count))
            elif it.opcode == "conditional":
                _refuse_branches(module, it)
    return Executions(times, trips)


def trip_count(frame: Frame, loop: Instruction) -> int:
    """Returns the trips of a loop in `frame`.

    Raises ValueError with the reason where it cannot be found.
    """
    if known := _KNOWN.search(loop.attributes):
        return int(known[1])
    element, direction, bound = _condition(frame, loop)
    first = frame.value(loop.operands[0], element)
    if first is None or first.element is not None:
        raise ValueError(
            _unknown(loop, "the first value of its counter is no constant")
        )
    step = _step(frame, loop, element)
    if not step:
        raise ValueError(_unknown(loop, "its body adds no constant to its counter"))
    return _trips(loop, first.offset, step, direction, bound)


def _trips(loop: Instruction, first: int, step: int, direction: str, bound: int) -> int:
    """Returns how often first, first + step, … satisfy the direction against bound."""
    distance = bound - first
    if direction == "NE":
        if distance % step or distance // step < 0:
            raise ValueError(_unknown(loop, "its counter steps over its bound"))
        return distance // step
    upwards = direction in ("LT", "LE")
    if upwards != (step > 0) or direction == "EQ":
        raise ValueError(_unknown(loop, "its counter never reaches its bound"))
    distance += {"LE": 1, "GE": -1}.get(direction, 0)
    return max(0, -(-distance // step))


def _condition(frame: Frame, loop: Instruction) -> tuple[int, str, int]:
    """Returns which element of the state is compared, how, and with what constant."""
    inner = _frame_of(frame, loop, "condition")
    compare, negated = _comparison(inner)
    if compare is None:
        raise ValueError(_unknown(loop, "its condition is no comparison"))
    inner, it = compare
    direction = it.attribute("direction") or ""
    left, right = (inner.value(name) for name in it.operands)
    if _stays(frame, loop, left) and not _stays(frame, loop, right):
        left, right, direction = right, left, _TURNED[direction]
    if left is None or left.element is None:
        raise ValueError(_unknown(loop, "its condition compares no counter"))
    bound = _bound(frame, loop, right)
    if bound is None:
        raise ValueError(_unknown(loop, "its bound is no constant"))
    direction = _NEGATED[direction] if negated else direction
    return left.element, direction, bound - left.offset


def _stays(frame: Frame, loop: Instruction, value: Value | None) -> bool:
    """Whether a value is known to be the same in every trip."""
    return value is not None and (
        value.element is None or _step(frame, loop, value.element) == 0
    )


def _comparison(frame: Frame) -> tuple[tuple[Frame, Instruction] | None, bool]:
    """Returns the comparison behind a condition's root, and whether it is negated."""
    it, negated = frame.computation.root, False
    while it.opcode != "compare":
        if it.opcode == "fusion":
            frame = frame.inside(it)
            it = frame.computation.root
        elif it.opcode in ("copy", "bitcast", "not"):
            negated ^= it.opcode == "not"
            it = frame.computation.by_name[it.operands[0]]
        else:
            return None, negated
    return (frame, it), negated


def _bound(frame: Frame, loop: Instruction, value: Value | None) -> int | None:
    """Returns a bound, which may be an element that the loop hands on unchanged."""
    if value is None or not _stays(frame, loop, value):
        return None
    if value.element is None:
        return value.offset
    first = frame.value(loop.operands[0], value.element)
    if first is None or first.element is not None:
        return None
    return first.offset + value.offset


def _step(frame: Frame, loop: Instruction, element: int) -> int | None:
    """Returns what one trip adds to an element of the state, None where unknown."""
    after = _frame_of(frame, loop, "body").value_of_root(element)
    if after is None or after.element != element:
        return None
    return after.offset


def _after_loop(frame: Frame, loop: Instruction, element: int) -> Value | None:
    """Returns what is known of an element of the state when the loop has ended."""
    first, step = (
        frame.value(loop.operands[0], element),
        _step(frame, loop, element),
    )
    if first is None or step is None:
        return None
    return first.shifted(step * trip_count(frame, loop) if step else 0)


def _entry_frame(module: Module) -> Frame:
    return Frame(module, module.entry, lambda _number, _element: None, _after_loop)


def _frame_of(frame: Frame, loop: Instruction, part: str) -> Frame:
    """Returns body or condition, where elements of the state stand for themselves."""

    def state(_number: int, element: int | None) -> Value | None:
        return None if element is None else Value(element, 0)

    return dataclasses.replace(
        frame, computation=_part(frame.module, loop, part), argument=state
    )


def _body(frame: Frame, loop: Instruction) -> Frame:
    """Returns the body as its own loops see it: what never changes is known."""

    @functools.cache
    def state(_number: int, element: int | None) -> Value | None:
        if element is None or _step(frame, loop, element) != 0:
            return None
        return frame.value(loop.operands[0], element)

    return dataclasses.replace(
        frame, computation=_part(frame.module, loop, "body"), argument=state
    )


def _part(module: Module, loop: Instruction, part: str) -> Computation:
    return module.computation(loop.attribute(part) or "")


def _refuse_branches(module: Module, it: Instruction) -> None:
    """Raises ValueError where branches hold work whose amount would be a guess."""
    waiting = list(module.called(it))
    while waiting:
        for inner in waiting.pop():
            if inner.opcode in ("dot", "convolution", "while", "custom-call") or (
                "replica_groups=" in inner.attributes
            ):
                raise ValueError(
                    f"conditional {it.name!r} decides whether {inner.name!r} runs; how "
                    "often is not in the text"
                )
            waiting.extend(module.called(inner))


def _unknown(loop: Instruction, why: str) -> str:
    return f"trip count of loop {loop.name!r} is unknown: {why}"
