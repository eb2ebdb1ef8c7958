"""Accounting: what one device does in one step of a compiled program.

Amounts, not times, like `scaling.cost`, but read from the program that will run.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import NonNegativeFloat
from pydantic import NonNegativeInt

from meshes.collectives import sent_bytes
from meshes.spec import MeshSpec
from scaling.cost import Collective
from scaling.hlo.collectives import Exchange
from scaling.hlo.collectives import exchanges
from scaling.hlo.flops import FlopsPrice
from scaling.hlo.flops import Workload
from scaling.hlo.loops import Executions
from scaling.hlo.loops import executions
from scaling.hlo.memory import Traffic
from scaling.hlo.module import Module
from scaling.hlo.module import parse
from scaling.hlo.networks import axes_on
from scaling.hlo.networks import on_networks


class CompiledCollective(Collective):
    """Collectives of one kind over the same axes; none where they have no name."""

    asynchronous_count: NonNegativeInt
    """Executions meanwhile other work is scheduled."""


class CustomCalls(BaseModel):
    """The custom calls of one target in a step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    count: NonNegativeInt
    """Executions per step."""
    flops: NonNegativeFloat | None
    """Of all of them, None where the target has no price."""


class Accounting(BaseModel):
    """Work of one device in one optimizer step, as compiled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    executed_flops: NonNegativeFloat
    """Matrix products, with those of priced custom calls."""
    hbm_bytes: NonNegativeFloat
    """Device memory read and written, the least that each instruction needs."""
    elementwise_hbm_bytes: NonNegativeFloat
    """The part of `hbm_bytes` outside matrix products, collectives and kernels."""
    matmul_cycles: NonNegativeFloat | None
    """The compiler's estimate for all matrix products, None where one has none."""
    collectives: tuple[CompiledCollective, ...] = ()
    custom_calls: tuple[CustomCalls, ...] = ()

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Targets of custom calls whose FLOPs are missing in `executed_flops`."""
        return tuple(each.target for each in self.custom_calls if each.flops is None)


def account(
    text: str, mesh: MeshSpec, prices: Mapping[str, FlopsPrice] | None = None
) -> Accounting:
    """Returns the accounting of a scheduled HLO text that was compiled for `mesh`.

    `prices` gives the FLOPs of custom calls by their targets. Raises ValueError with
    one sentence where something that matters cannot be read exactly.
    """
    return account_of_module(parse(text), mesh, prices)


def account_of_module(
    module: Module, mesh: MeshSpec, prices: Mapping[str, FlopsPrice] | None = None
) -> Accounting:
    """Returns the accounting of a parsed program; as `account`."""
    runs = executions(module)
    found = exchanges(module, mesh, runs)
    sums = _Sums({(each.computation, each.name) for each in found})
    sums.add(module, runs, Workload(module, prices))
    return Accounting(
        executed_flops=sums.flops,
        hbm_bytes=sums.hbm_bytes,
        elementwise_hbm_bytes=sums.elementwise_bytes,
        matmul_cycles=sums.matmul_cycles,
        collectives=merged(found, mesh),
        custom_calls=sums.custom_calls(),
    )


def merged(found: Iterable[Exchange], mesh: MeshSpec) -> tuple[CompiledCollective, ...]:
    """Returns one entry per kind, axes, network and group size, summed over a step."""
    totals: dict[tuple[object, ...], CompiledCollective] = {}
    for each in found:
        for one in _by_network(each, mesh):
            key = (one.network, one.axes, one.kind, one.group_size)
            totals[key] = _sum(totals[key], one) if key in totals else one
    return tuple(totals[key] for key in sorted(totals, key=str))


def _by_network(each: Exchange, mesh: MeshSpec) -> Iterator[CompiledCollective]:
    parts = on_networks(each.kind, each.span, each.payload_bytes)
    for kind, network, members, payload in parts:
        yield CompiledCollective(
            kind=kind,
            axes=axes_on(network, each, mesh),
            network=network,
            group_size=members,
            count=each.count,
            payload_bytes=each.count * payload,
            bytes=each.count * sent_bytes(kind, payload, members),
            asynchronous_count=each.count if each.asynchronous else 0,
        )


def _sum(one: CompiledCollective, other: CompiledCollective) -> CompiledCollective:
    added = ("count", "payload_bytes", "bytes", "asynchronous_count")
    return one.model_copy(
        update={name: getattr(one, name) + getattr(other, name) for name in added}
    )


class _Sums:
    """Sums over the scheduled instructions, each times its executions."""

    def __init__(self, collectives: set[tuple[str, str]]):
        self._collectives = collectives
        self.flops = 0.0
        self.hbm_bytes = 0.0
        self.elementwise_bytes = 0.0
        self.matmul_cycles: float | None = 0.0
        self._calls: dict[str, CustomCalls] = {}

    def add(self, module: Module, runs: Executions, workload: Workload) -> None:
        traffic = Traffic(module)
        for name, times in runs.of_computation.items():
            computation = module.computations[name]
            for it in computation:
                work = workload.of_instruction(computation, it)
                moved = times * traffic.hbm_bytes(computation, it)
                self.flops += times * work.flops
                self.hbm_bytes += moved
                if work.flops:
                    self._add_cycles(it.estimated_cycles, times)
                elif not work.custom_calls and (
                    (name, it.name) not in self._collectives
                ):
                    self.elementwise_bytes += moved
                for call in work.custom_calls:
                    self._add_call(call.target, call.flops, times)

    def custom_calls(self) -> tuple[CustomCalls, ...]:
        """Returns the custom calls of each target."""
        return tuple(self._calls[target] for target in sorted(self._calls))

    def _add_cycles(self, cycles: int | None, times: int) -> None:
        if cycles is None or self.matmul_cycles is None:
            self.matmul_cycles = None
        else:
            self.matmul_cycles += times * cycles

    def _add_call(self, target: str, flops: float | None, times: int) -> None:
        before = self._calls.get(target, CustomCalls(target=target, count=0, flops=0))
        total: float | None = None
        if flops is not None and before.flops is not None:
            total = before.flops + times * flops
        self._calls[target] = CustomCalls(
            target=target, count=before.count + times, flops=total
        )
