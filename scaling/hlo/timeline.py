"""Timeline: the seconds of a step, by walking the schedule of its program.

The TensorCore runs the instructions one after another. What is started runs beside
them, one at a time on its resource: copies on the memory's DMA, collectives on their
network, permutes on one direction of it. What is waited for is exposed, what has ended
by then is hidden. A loop's body is walked once and counted as often as it runs.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from meshes.spec import MeshSpec
from meshes.spec import Network
from scaling.hlo.collectives import Exchange
from scaling.hlo.collectives import exchanges
from scaling.hlo.flops import FlopsPrice
from scaling.hlo.flops import Workload
from scaling.hlo.loops import executions
from scaling.hlo.memory import Traffic
from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction
from scaling.hlo.module import Module
from scaling.hlo.rates import ELEMENTWISE_OVERESTIMATE
from scaling.hlo.rates import ExchangePrice
from scaling.hlo.rates import Rates

Cause = Literal["compute", "hbm", "ici", "dcn"]
CAUSES: tuple[Cause, ...] = ("compute", "hbm", "ici", "dcn")
_RESOURCES = ("dma", "ici+", "ici-", "dcn")
_STARTS = ("-start", "-update")


@dataclasses.dataclass(frozen=True)
class Timeline:
    """Seconds of one step; `exposed_s` sums to `step_time_s`."""

    step_time_s: float
    exposed_s: Mapping[Cause, float]
    """By what the step waits for."""
    hidden_s: Mapping[Network, float]
    """Of collectives, what other work covers."""


@dataclasses.dataclass
class _Clock:
    """Where the walk of one computation stands."""

    now_s: float = 0.0
    hbm_bytes: float = 0.0
    exposed_s: dict[Cause, float] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(CAUSES, 0.0)
    )
    communication_s: dict[Network, float] = dataclasses.field(
        default_factory=lambda: {"ici": 0.0, "dcn": 0.0}
    )
    free_s: dict[str, float] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(_RESOURCES, 0.0)
    )
    """When each resource has done what it was given."""
    due: dict[int, dict[Cause, float]] = dataclasses.field(default_factory=dict)
    """By the place in the schedule that waits: when what it waits for ends."""

    def spend(self, cause: Cause, seconds: float) -> None:
        self.now_s += seconds
        self.exposed_s[cause] += seconds

    def wait(self, ends: Mapping[Cause, float]) -> None:
        """Waits for the ends of what was started, the earliest first."""
        for cause, end in sorted(ends.items(), key=lambda each: each[1]):
            self.spend(cause, max(0.0, end - self.now_s))

    def use(self, resources: tuple[str, ...], seconds: float, ready_s: float) -> float:
        """Returns when resources that start together, once all are free, end."""
        end = max(ready_s, *(self.free_s[each] for each in resources)) + seconds
        self.free_s.update(dict.fromkeys(resources, end))
        return end

    def due_at(self, place: int, cause: Cause, end: float) -> None:
        ends = self.due.setdefault(place, {})
        ends[cause] = max(end, ends.get(cause, 0.0))

    def add(self, other: "_Clock", times: int) -> None:
        """Adds what a loop or a call spends."""
        self.hbm_bytes += times * other.hbm_bytes
        for cause, seconds in other.exposed_s.items():
            self.spend(cause, times * seconds)
        for network, seconds in other.communication_s.items():
            self.communication_s[network] += times * seconds


def timeline(
    module: Module,
    mesh: MeshSpec,
    rates: Rates,
    price: ExchangePrice,
    flops_prices: Mapping[str, FlopsPrice] | None = None,
) -> Timeline:
    """Returns the seconds of a step of a program compiled for `mesh`.

    `price` gives the seconds of a collective alone. No computation takes less than its
    memory traffic at full bandwidth. Raises ValueError as `accounting.account`.
    """
    walk = _Walk(module, mesh, rates, price, flops_prices)
    clock = walk.computation(module.entry)
    return Timeline(
        step_time_s=clock.now_s,
        exposed_s=clock.exposed_s,
        hidden_s={
            network: max(0.0, seconds - clock.exposed_s[network])
            for network, seconds in clock.communication_s.items()
        },
    )


class _Walk:
    def __init__(
        self,
        module: Module,
        mesh: MeshSpec,
        rates: Rates,
        price: ExchangePrice,
        flops_prices: Mapping[str, FlopsPrice] | None,
    ):
        runs = executions(module)
        found = exchanges(module, mesh, runs)
        self._module = module
        self._rates = rates
        self._price = price
        self._trips = runs.trips
        self._exchanges: dict[tuple[str, str], list[Exchange]] = {}
        for each in found:
            self._exchanges.setdefault((each.computation, each.name), []).append(each)
        self._work = Workload(module, flops_prices)
        self._traffic = Traffic(module)

    def computation(self, computation: Computation) -> _Clock:
        """Returns the clock at the end of one execution."""
        clock = _Clock()
        for at, it in enumerate(computation):
            clock.wait(clock.due.pop(at, {}))
            self._instruction(computation, it, clock)
        for ends in clock.due.values():
            clock.wait(ends)
        least = clock.hbm_bytes / self._rates.hbm_bytes_per_s
        clock.spend("hbm", max(0.0, least - clock.now_s))
        return clock

    def _instruction(
        self, computation: Computation, it: Instruction, clock: _Clock
    ) -> None:
        if it.opcode == "while":
            body = self._module.computation(it.attribute("body") or "")
            times = self._trips[computation.name, it.name]
            clock.add(self.computation(body), times)
        elif it.opcode == "call":
            (called,) = self._module.called(it)
            clock.add(self.computation(called), 1)
        elif found := self._exchanges.get((computation.name, it.name)):
            clock.hbm_bytes += self._traffic.hbm_bytes(computation, it)
            for each in found:
                self._exchange(each, clock)
        else:
            self._other(computation, it, clock)

    def _exchange(self, each: Exchange, clock: _Clock) -> None:
        """Runs a collective on its networks, one after the other."""
        rates, end = self._rates, clock.now_s
        for network, takes in self._price(each).items():
            busy_s = takes.busy_s + rates.collective_overhead_s
            resources = (
                _RESOURCES[1:] if rates.one_stream else _resources(network, each)
            )
            end = clock.use(resources, busy_s, end) + takes.latency_s
            clock.communication_s[network] += busy_s + takes.latency_s
            if each.asynchronous:
                clock.due_at(each.done, network, end)
            else:
                clock.wait({network: end})

    def _other(self, computation: Computation, it: Instruction, clock: _Clock) -> None:
        moved = self._traffic.hbm_bytes(computation, it)
        memory_s = moved / self._rates.hbm_bytes_per_s
        clock.hbm_bytes += moved
        if it.opcode.endswith(_STARTS):
            end = clock.use(("dma",), memory_s, clock.now_s)
            clock.due_at(_done(computation, it), "hbm", end)
            return
        compute_s = self._compute_s(computation, it)
        seconds = max(memory_s, compute_s)
        if seconds:
            cause: Cause = "compute" if compute_s > memory_s else "hbm"
            clock.spend(cause, seconds + self._rates.instruction_overhead_s)

    def _compute_s(self, computation: Computation, it: Instruction) -> float:
        """Returns the seconds that the TensorCore needs beside its memory."""
        work = self._work.of_instruction(computation, it)
        peak = self._rates.flops_per_s
        if work.custom_calls:
            peak *= self._rates.kernel_fraction
        seconds = work.flops / peak
        if self._rates.cycles_per_s is None or it.estimated_cycles is None:
            return seconds
        estimate = it.estimated_cycles / self._rates.cycles_per_s
        if not work.flops:
            estimate /= ELEMENTWISE_OVERESTIMATE
        return max(seconds, estimate)


def _resources(network: Network, each: Exchange) -> tuple[str, ...]:
    if network == "dcn":
        return ("dcn",)
    both = ("ici+", "ici-")
    return {1: both[:1], -1: both[1:]}.get(each.direction, both)


def _done(computation: Computation, it: Instruction) -> int:
    """Returns where a started copy or offload is waited for."""
    for user in computation.users.get(it.name, ()):
        if user.opcode.endswith(("-done", "-update")):
            return computation.position[user.name]
    return len(computation.instructions)
