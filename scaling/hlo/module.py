"""Module: the computations and instructions of an HLO text, as the compiler printed it.

Nothing is interpreted here. The textual order of a computation is its schedule where
the header says `is_scheduled=true`, which every compiled step does.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator
from collections.abc import Mapping

from scaling.hlo.arrays import Array
from scaling.hlo.arrays import arrays_of

UNKNOWN_CYCLES = 2**63 - 1
"""What the TPU compiler prints where it has no estimate."""

_COMMENT = re.compile(r"/\*.*?\*/")
_HEAD = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$")
_OPERAND = re.compile(r"%([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_ATTRIBUTE_END = re.compile(r"[,\s]")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|true_computation|false_computation"
    r"|(?:called|branch)_computations)=(?:\{([^}]*)\}|%?([\w.\-]+))"
)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction; `attributes` is everything behind its operands, unread."""

    name: str
    opcode: str
    shape: str
    literal: str
    """What stands in its brackets: operands, or a constant's or parameter's number."""
    attributes: str
    is_root: bool

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """Names of the instructions whose results it takes."""
        return tuple(_OPERAND.findall(self.literal))

    @functools.cached_property
    def results(self) -> tuple[Array, ...]:
        """All arrays of the result, nested tuples laid flat."""
        return tuple(arrays_of(self.shape))

    @functools.cached_property
    def called(self) -> tuple[str, ...]:
        """Names of the computations that it calls, in the order they are printed."""
        return tuple(
            name.strip().lstrip("%")
            for several, one in _CALLED.findall(self.attributes)
            for name in (several or one).split(",")
        )

    @property
    def estimated_cycles(self) -> int | None:
        """The compiler's estimate of one execution, None where it has none."""
        found = _CYCLES.search(self.attributes)
        cycles = int(found[1]) if found else UNKNOWN_CYCLES
        return None if cycles >= UNKNOWN_CYCLES else cycles

    def attribute(self, name: str) -> str | None:
        """Returns a simple attribute such as `body=%b`, without `%` and quotes."""
        at = re.search(rf'\b{name}="?%?', self.attributes)
        if at is None:
            return None
        rest = self.attributes[at.end() :]
        quoted = at[0].endswith('"')
        return rest.split('"', 1)[0] if quoted else _ATTRIBUTE_END.split(rest, 1)[0]

    @property
    def target(self) -> str:
        """The target of a custom call, empty for all others."""
        return self.attribute("custom_call_target") or ""


@dataclasses.dataclass(frozen=True)
class Computation:
    """Instructions in the order of their schedule."""

    name: str
    instructions: tuple[Instruction, ...]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    @functools.cached_property
    def by_name(self) -> Mapping[str, Instruction]:
        """Its instructions by their names."""
        return {each.name: each for each in self.instructions}

    @functools.cached_property
    def position(self) -> Mapping[str, int]:
        """The place of each instruction in the schedule, from 0."""
        return {each.name: at for at, each in enumerate(self.instructions)}

    @functools.cached_property
    def users(self) -> Mapping[str, tuple[Instruction, ...]]:
        """The instructions that read each result; unread ones are absent."""
        found: dict[str, list[Instruction]] = {}
        for each in self.instructions:
            for operand in dict.fromkeys(each.operands):
                found.setdefault(operand, []).append(each)
        return {name: tuple(users) for name, users in found.items()}

    @functools.cached_property
    def parameters(self) -> Mapping[int, Instruction]:
        """Its parameters by number."""
        return {int(each.literal): each for each in self if each.opcode == "parameter"}

    @functools.cached_property
    def root(self) -> Instruction:
        """The instruction whose result is that of the computation."""
        return next((each for each in self if each.is_root), self.instructions[-1])

    def operand_arrays(self, instruction: Instruction) -> tuple[Array, ...]:
        """Returns the arrays that an instruction of this computation takes."""
        return tuple(
            array
            for name in instruction.operands
            for array in self.by_name[name].results
        )


@dataclasses.dataclass(frozen=True)
class Module:
    """A whole program for one device."""

    header: str
    computations: Mapping[str, Computation]
    entry: Computation

    @property
    def num_partitions(self) -> int:
        """Devices that run it together: all, or those of one slice on TPU."""
        found = re.search(r"num_partitions=(\d+)", self.header)
        return int(found[1]) if found else 1

    def called(self, instruction: Instruction) -> tuple[Computation, ...]:
        """Returns the computations that an instruction calls."""
        return tuple(self.computation(name) for name in instruction.called)

    def computation(self, name: str) -> Computation:
        """Returns a computation; raises ValueError where the text lacks it."""
        if name not in self.computations:
            raise ValueError(
                f"computation {name!r} is called but not in the text; give the whole "
                "of compiled.as_text()"
            )
        return self.computations[name]


def parse(text: str) -> Module:
    """Returns the module of an HLO text.

    Raises ValueError where it is not scheduled or has no entry computation.
    """
    header, computations, entry = "", {}, None
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith("HloModule"):
            header = line
        elif line.endswith("{") and (found := _COMPUTATION.match(line)):
            computation = Computation(found[2], tuple(_instructions(lines)))
            computations[computation.name] = computation
            entry = computation if found[1] else entry
    if entry is None:
        raise ValueError(
            f"text of {len(text)} characters has no ENTRY computation; give the whole "
            "of compiled.as_text()"
        )
    if "is_scheduled=true" not in header:
        raise ValueError(
            f"module {header[:60]!r} is not scheduled; give the text of the compiled "
            "program, not of the lowered one"
        )
    return Module(header, computations, entry)


def _instructions(lines: Iterator[str]) -> Iterator[Instruction]:
    """Yields the instructions up to the bracket that closes their computation.

    An attribute may go on over several lines, of which some begin with a bracket:
    Pallas prints the metadata of its kernels so. Instructions alone begin with a name
    and ` = ` behind blanks; the closing bracket stands alone, or before the thread that
    runs the computation, and leaves no bracket of the last instruction open.
    """
    pending: list[str] = []
    for line in lines:
        closes = line == "}" or line.startswith("}, execution_thread=")
        closes = closes and not _is_open(pending)
        if pending and (closes or _HEAD.match(line)):
            yield _instruction("\n".join(pending))
            pending = []
        if closes:
            return
        if line:
            pending.append(line)


def _is_open(pending: list[str]) -> bool:
    return sum(line.count("{") - line.count("}") for line in pending) > 0


def _instruction(text: str) -> Instruction:
    head = _HEAD.match(text)
    if head is None:
        raise ValueError(f"{text[:80]!r} is no instruction of the form '%name = …'")
    rest = text[head.end() :]
    shape_end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    opening = rest.index("(", shape_end)
    closing = _closing(rest, opening)
    literal = rest[opening + 1 : closing]
    return Instruction(
        name=head[2],
        opcode=rest[shape_end:opening].strip(),
        shape=rest[:shape_end],
        literal=_COMMENT.sub("", literal) if "/*" in literal else literal,
        attributes=rest[closing + 1 :],
        is_root=head[1] is not None,
    )


def _closing(text: str, opening: int) -> int:
    """Returns where the bracket that opens at `opening` closes."""
    depth, at = 0, opening
    while True:
        closing = text.find(")", at)
        if closing < 0:
            raise ValueError(f"a bracket of {text[:80]!r} never closes")
        depth += text.count("(", at, closing) - 1
        if depth == 0:
            return closing
        at = closing + 1
