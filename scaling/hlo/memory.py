"""Memory: the least bytes of device memory that an instruction reads and writes.

Arrays in on-chip memory cost nothing. A slice costs what it takes and an update in
place what it changes; what is fused costs what goes in and out of the whole.
"""

from scaling.hlo.arrays import Array
from scaling.hlo.flops import NO_WORK
from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction
from scaling.hlo.module import Module

_NOTHING = frozenset(
    (
        "add-dependency",
        "after-all",
        "bitcast",
        "call",
        "conditional",
        "constant",
        "get-tuple-element",
        "opt-barrier",
        "optimization-barrier",
        "parameter",
        "partition-id",
        "replica-id",
        "tuple",
        "while",
    )
)
"""Opcodes that move nothing, or whose computations are counted for themselves."""
_SLICES = frozenset(("slice", "dynamic-slice", "gather"))
_WITH_OPERANDS = frozenset(
    (
        "all-gather-start",
        "all-to-all-start",
        "async-start",
        "call-start",
        "collective-permute-start",
        "copy-start",
        "custom-call-start",
        "dynamic-slice-start",
        "reduce-scatter-start",
        "slice-start",
    )
)
"""Their results list the operands once more."""
_VIEWS = frozenset(("bitcast", "reshape"))


class Traffic:
    """Bytes of the instructions of one module; what is fused is read once."""

    def __init__(self, module: Module):
        self._module = module
        self._reads: dict[tuple[str, int], float | None] = {}

    def hbm_bytes(self, computation: Computation, it: Instruction) -> float:
        """Returns the least bytes of one execution; loops and calls have none."""
        if it.opcode in _NOTHING or it.target in NO_WORK:
            return 0.0
        if it.opcode in ("fusion", "fusion-start"):
            return self._fusion(computation, it)
        read = _in_hbm(computation.operand_arrays(it))
        if it.opcode.endswith("-done"):
            return _in_hbm(it.results) if _is_offload(it) else 0.0
        if it.opcode.endswith("-update"):
            return sum(
                _in_hbm(computation.by_name[name].results) for name in it.operands[1:]
            )
        if it.opcode in ("dynamic-update-slice", "scatter"):
            return _updated(computation, it)
        written = _written(computation, it)
        if it.opcode.removesuffix("-start") in _SLICES:
            return min(read, written[0].bytes) + _in_hbm(written)
        return read + _in_hbm(written)

    def _fusion(self, computation: Computation, it: Instruction) -> float:
        (fused,) = self._module.called(it)
        if fused.root.target == "AsyncCollectiveStart":
            # Its result lists the shard that it was given before the rest.
            return _in_hbm(computation.operand_arrays(it)) + _in_hbm(it.results[1:])
        total = 0.0
        for number, operand in enumerate(it.operands):
            whole = _in_hbm(computation.by_name[operand].results)
            touched = self._read(fused, number) if whole else 0.0
            total += whole if touched is None else min(whole, touched)
        return total + self._fused_results(fused, _results(computation, it, fused))

    def _read(self, fused: Computation, number: int) -> float | None:
        """Returns the bytes that are read of a parameter, None where all may be."""
        key = (fused.name, number)
        if key not in self._reads:
            self._reads[key] = self._read_of(fused, fused.parameters[number])
        return self._reads[key]

    def _read_of(self, fused: Computation, it: Instruction) -> float | None:
        total = 0.0
        for user in fused.users.get(it.name, ()):
            part = self._read_by(fused, it, user)
            if part is None:
                return None
            total += part
        return total

    def _read_by(
        self, fused: Computation, it: Instruction, user: Instruction
    ) -> float | None:
        if user.opcode in _SLICES and user.operands[0] == it.name:
            return sum(each.bytes for each in user.results)
        if user.opcode in ("dynamic-update-slice", "scatter"):
            return 0.0 if user.operands[0] == it.name else None
        if user.opcode in _VIEWS:
            return self._read_of(fused, user)
        if user.opcode == "tuple" or _is_chained(user):
            return 0.0
        if user.opcode != "fusion":
            return None
        (inner,) = self._module.called(user)
        places = [n for n, name in enumerate(user.operands) if name == it.name]
        parts = [self._read(inner, place) for place in places]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def _fused_results(self, fused: Computation, results: tuple[Array, ...]) -> float:
        """Returns the bytes written of the results of a fusion."""
        roots = _roots(fused)
        if len(roots) != len(results):
            return 0.0 if _is_chained(fused.root) else _in_hbm(results)
        return sum(
            self._fused_result(fused, root, result)
            for root, result in zip(roots, results, strict=True)
        )

    def _fused_result(
        self, fused: Computation, root: Instruction, result: Array
    ) -> float:
        if result.memory_space != 0:
            return 0.0
        while root.opcode in _VIEWS:
            root = fused.by_name[root.operands[0]]
        if root.opcode == "parameter" or _is_chained(root):
            return 0.0
        if root.opcode in ("dynamic-update-slice", "scatter"):
            update = fused.by_name[root.operands[-1 if root.opcode == "scatter" else 1]]
            return min(result.bytes, sum(each.bytes for each in update.results))
        if root.opcode == "fusion" and len(root.results) == 1:
            (inner,) = self._module.called(root)
            return self._fused_results(inner, (result,))
        return result.bytes


def _roots(fused: Computation) -> list[Instruction]:
    """Returns what makes each result of a fusion."""
    if fused.root.opcode == "tuple":
        return [fused.by_name[name] for name in fused.root.operands]
    return [fused.root]


def _results(
    computation: Computation, it: Instruction, fused: Computation
) -> tuple[Array, ...]:
    """Returns the results of a fusion; a started one lists its operands before them."""
    if it.opcode == "fusion":
        return it.results
    taken = len(computation.operand_arrays(it))
    return it.results[taken : taken + len(_roots(fused))]


def _written(computation: Computation, it: Instruction) -> tuple[Array, ...]:
    """Returns the arrays that an instruction makes."""
    if it.opcode == "copy-start" or it.target.startswith("__cublas$"):
        # What follows is the source once more, or room to work in.
        return it.results[:1]
    if it.opcode == "send":
        return ()
    taken = len(computation.operand_arrays(it))
    # On GPU a started all-reduce lists its operands too, on TPU it does not.
    lists = it.opcode == "all-reduce-start" and len(it.results) == 2 * taken
    return it.results[taken:] if it.opcode in _WITH_OPERANDS or lists else it.results


def _updated(computation: Computation, it: Instruction) -> float:
    """Returns the bytes of an update in place: read from where it is, and written."""
    update = computation.by_name[it.operands[-1 if it.opcode == "scatter" else 1]]
    bytes_ = sum(each.bytes for each in update.results)
    return _in_hbm(update.results) + (bytes_ if _in_hbm(it.results) else 0.0)


def _is_offload(it: Instruction) -> bool:
    """Whether another core ends its work here, whose result nobody else counts."""
    return it.opcode in ("call-done", "custom-call-done")


def _is_chained(it: Instruction) -> bool:
    """Whether it is a step of a collective whose bytes its start counts."""
    if it.opcode == "custom-call":
        return it.target in ("AsyncCollectiveStart", "AsyncCollectiveDone")
    return "async_collective_fusion_config" in it.attributes


def _in_hbm(arrays: tuple[Array, ...]) -> float:
    return sum(each.bytes for each in arrays if each.memory_space == 0)
