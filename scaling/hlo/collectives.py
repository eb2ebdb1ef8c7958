"""Exchanges: every collective of a program once, however its steps are spread.

On TPU one collective may be an instruction, a start and a done, a chain of fusions of
which each carries some of its steps, a fusion that reduces and scatters, an offload to
the SparseCores, or a send and a receive between slices; on GPU a start and a done.
"""

import dataclasses
import re
from collections.abc import Iterator

from meshes.collectives import CollectiveKind
from meshes.spec import MeshSpec
from scaling.hlo import megascale
from scaling.hlo.loops import Executions
from scaling.hlo.members import Members
from scaling.hlo.members import direction
from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction
from scaling.hlo.module import Module
from scaling.hlo.spans import Span

KINDS: dict[str, CollectiveKind] = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "all-to-all": "all_to_all",
    "collective-permute": "permute",
    "reduce-scatter": "reduce_scatter",
}
_REFUSED = ("collective-broadcast", "ragged-all-to-all")
_WRAPPERS = ("async-start", "call-start", "custom-call-start")
_PART_OF_WHOLE = ("all_gather", "all_to_all", "permute", "send_recv")
"""Kinds of which each member holds one part; of the others it holds the whole."""
_CHAIN = re.compile(r'chain_id="(\w+)"')
_CHANNEL = re.compile(r"channel_id=(\d+)")


@dataclasses.dataclass(frozen=True)
class Exchange:
    """One collective in the schedule of a computation."""

    name: str
    """The scheduled instruction that starts it."""
    computation: str
    kind: CollectiveKind
    span: Span
    payload_bytes: float
    """The full logical array of one execution."""
    count: int
    """Executions per step."""
    start: int
    """Its place in the schedule of the computation."""
    done: int
    """The place where its result is waited for: `start` where it is synchronous, one
    past the end where the computation never waits."""
    direction: int = 0
    """Of a permute: 1 towards higher positions in the mesh, -1 towards lower ones."""

    @property
    def asynchronous(self) -> bool:
        """Whether anything else may run meanwhile."""
        return self.done > self.start


def exchanges(module: Module, mesh: MeshSpec, runs: Executions) -> tuple[Exchange, ...]:
    """Returns the collectives of a program compiled for `mesh`, in schedule order.

    Groups of one device are none. Raises ValueError for a collective that cannot be
    accounted, naming it.
    """
    finder = _Finder(module, mesh, runs)
    found = [
        each
        for name in runs.of_computation
        for each in finder.of_computation(module.computations[name])
    ]
    if lost := sorted(finder.seen_chains - finder.started_chains):
        raise ValueError(
            f"asynchronous collectives {', '.join(lost)} go on in fusions, but nothing "
            "starts them"
        )
    return tuple(each for each in found if each.span.size > 1)


class _Finder:
    """Walks computations; chains of fusions are remembered between them."""

    def __init__(self, module: Module, mesh: MeshSpec, runs: Executions):
        self._module = module
        self._mesh = mesh
        self._members = Members(module, mesh)
        self._runs = runs
        self.seen_chains: set[str] = set()
        self.started_chains: set[str] = set()

    def of_computation(self, computation: Computation) -> Iterator[Exchange]:
        """Yields what a scheduled computation exchanges."""
        chains = self._chain_ends(computation)
        sends = megascale.ends(computation)
        for at, it in enumerate(computation):
            opcode = it.opcode.removesuffix("-start")
            _refuse(opcode, it)
            if opcode in KINDS:
                done = at if opcode == it.opcode else _done(computation, it)
                yield self._exchange(computation, it, computation, it, done)
            elif it.opcode in _WRAPPERS:
                for inside, inner in self._collectives(it):
                    done = _done(computation, it)
                    yield self._exchange(computation, it, inside, inner, done)
            elif it.opcode == "send":
                yield from self._send(computation, it, sends)
            elif it.opcode == "fusion":
                yield from self._fused(computation, it, chains)

    def _fused(
        self, computation: Computation, it: Instruction, ends: dict[str, int]
    ) -> Iterator[Exchange]:
        for inside, inner in self._collectives(it):
            chain = _chain(inner)
            done = computation.position[it.name]
            if chain:
                self.seen_chains.add(chain)
                if "AsyncCollectiveStart" not in _targets(inside, inner):
                    continue
                self.started_chains.add(chain)
                done = ends.get(chain, len(computation.instructions))
            yield self._exchange(computation, it, inside, inner, done)

    def _exchange(
        self,
        computation: Computation,
        it: Instruction,
        inside: Computation,
        inner: Instruction,
        done: int,
    ) -> Exchange:
        """Returns the collective `inner`, which the scheduled `it` starts or is."""
        kind = KINDS[inner.opcode.removesuffix("-start")]
        if kind == "all_reduce" and _scatters(inside, it):
            kind = "reduce_scatter"
        span = self._members.span(kind, inner)
        held = sum(each.bytes for each in inside.operand_arrays(inner))
        start = computation.position[it.name]
        return Exchange(
            name=it.name,
            computation=computation.name,
            kind=kind,
            span=span,
            payload_bytes=held * (span.size if kind in _PART_OF_WHOLE else 1),
            count=self._runs.of_computation[computation.name],
            start=start,
            done=start if '"is_sync":true' in it.attributes else done,
            direction=direction(inner) if kind == "permute" else 0,
        )

    def _send(
        self, computation: Computation, it: Instruction, ends: dict[str, int]
    ) -> Iterator[Exchange]:
        """Yields a transfer between slices, or between GPUs; none to the host."""
        if megascale.is_transfer(it):
            kind = megascale.kind(it)
            span = megascale.span(it, self._mesh)
        elif "source_target_pairs=" in it.attributes:
            kind = "send_recv"
            span = self._members.span(kind, it)
        else:
            return
        held = sum(each.bytes for each in computation.operand_arrays(it))
        yield Exchange(
            name=it.name,
            computation=computation.name,
            kind=kind,
            span=span,
            payload_bytes=held * (span.size if kind in _PART_OF_WHOLE else 1),
            count=self._runs.of_computation[computation.name],
            start=computation.position[it.name],
            done=ends[it.name],
        )

    def _chain_ends(self, computation: Computation) -> dict[str, int]:
        """Returns where each chain of fusions is waited for, by its id."""
        return {
            chain: at
            for at, it in enumerate(computation)
            if it.opcode == "fusion"
            for inside, inner in self._collectives(it)
            if (chain := _chain(inner))
            and "AsyncCollectiveDone" in _targets(inside, inner)
        }

    def _collectives(
        self, it: Instruction
    ) -> Iterator[tuple[Computation, Instruction]]:
        """Yields the collectives inside what an instruction calls."""
        for inside in self._module.called(it):
            for inner in inside:
                if inner.opcode.removesuffix("-start") in KINDS:
                    yield inside, inner
                elif inner.opcode in ("fusion", "call", *_WRAPPERS):
                    yield from self._collectives(inner)


def _refuse(opcode: str, it: Instruction) -> None:
    """Raises ValueError for a collective whose bytes are not those of its operands."""
    of_slices = opcode in KINDS and "slice_sizes={{" in it.attributes
    unknown = (
        opcode not in KINDS
        and "replica_groups=" in it.attributes
        and not opcode.endswith(("-done", "-update"))
    )
    if of_slices or unknown or opcode in _REFUSED:
        what = f"{opcode} of slices" if of_slices else opcode
        raise ValueError(f"{it.name!r} is a {what}, whose bytes no account is made of")


def _done(computation: Computation, it: Instruction) -> int:
    """Returns where a started operation is waited for, after its updates."""
    for user in computation.users.get(it.name, ()):
        if user.opcode.endswith("-done"):
            return computation.position[user.name]
        if user.opcode.endswith("-update"):
            return _done(computation, user)
    return len(computation.instructions)


def _chain(it: Instruction) -> str | None:
    """Returns the id that all steps of one collective in fusions share."""
    if "async_collective_fusion_config" not in it.attributes:
        return None
    found = _CHAIN.search(it.attributes) or _CHANNEL.search(it.attributes)
    return found[0] if found else it.name


def _targets(computation: Computation, it: Instruction) -> set[str]:
    return {user.target for user in computation.users.get(it.name, ())}


def _scatters(inside: Computation, it: Instruction) -> bool:
    """Whether a fused all-reduce keeps one part: the TPU's way to reduce-scatter."""
    return it.opcode == "fusion" and (
        "AllReduceScatterFusion" in it.attributes
        or inside.name.startswith("all-reduce-scatter")
    )
