"""Rates: what turns the amounts of a compiled program into seconds on one device."""

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple

from meshes.chip import Chip
from meshes.collectives import collective_time_s
from meshes.spec import Axis
from meshes.spec import MeshSpec
from meshes.spec import Network
from meshes.subtorus import SubTorus
from meshes.subtorus import joined
from meshes.subtorus import line
from models.config import DType
from scaling.hlo.collectives import Exchange
from scaling.hlo.networks import axes_on
from scaling.hlo.networks import on_networks

CYCLES_PER_S = {
    "v4": 1.05e9,
    "v5e": 1.50e9,
    "v5p": 1.75e9,
    "v6e": 1.75e9,
    "v7x": 2.20e9,
}
"""Clock of the TPU compiler's cycle estimates by chip. No vendor states it: fitted so
that the estimates of large matrix products (libtpu 0.0.52) meet the published peaks."""

ELEMENTWISE_OVERESTIMATE = 4.0
"""The compiler's estimates of element-wise work are 2 to 4 times what its bytes take at
the memory's bandwidth (programs for v5e, v5p, v6e and v7x): a quarter is a slow end."""

GPU_MATMUL_FRACTION = 0.6
"""Of the peak, what small products reach (1 GFLOP; of 128 GFLOP 0.95), and with it the
slow end for all. Source: calculon-ai/calculon systems/{a100_80g,h100_80g_nvl8}.json.
The best shapes were measured at 0.87 on A100, 0.80 on H100 and 0.78 on B200
(stas00/ml-engineering compute/accelerator/README.md), which lies within the band."""

GPU_HBM_FRACTION = 0.75
"""Of the memory's bandwidth, for 10 MB; 0.9 for 100 MB. Source: calculon, as above."""

KERNEL_LAUNCH_S = 1e-6
"""Source: openxla/xla xla/service/gpu/model/gpu_performance_model_base.h."""

NCCL_BASE_S = 8.4e-6
"""Source: NVIDIA/nccl src/graph/tuning.cc: base latency, ring and Simple protocol."""


class Duration(NamedTuple):
    """Seconds of one collective on one network."""

    busy_s: float = 0.0
    """In which nothing else uses the network."""
    latency_s: float = 0.0
    """Until the result is there; others may send meanwhile."""


ExchangePrice = Callable[[Exchange], Mapping[Network, Duration]]
"""Returns what one execution of a collective takes on each network it uses."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rates:
    """Rates of one device; None where estimates of the compiler are not to be used."""

    flops_per_s: float
    hbm_bytes_per_s: float
    cycles_per_s: float | None = None
    """Clock of the compiler's estimates; None takes the roofline alone."""
    kernel_fraction: float = 1.0
    """Of `flops_per_s`, what custom calls reach."""
    instruction_overhead_s: float = 0.0
    """Added to every instruction that computes or moves anything."""
    collective_overhead_s: float = 0.0
    """Added to every collective."""
    one_stream: bool = False
    """Whether only one collective runs at a time, whatever its network."""


def rates_of(chip: Chip, dtype: DType, *, estimates: bool) -> Rates:
    """Returns the rates of one device of `chip` by the vendor's figures.

    With `estimates` matrix products take at least the compiler's cycles. Raises
    ValueError where peak or bandwidth is unknown, or the clock that is asked for.
    """
    peak = chip.peak_flops_per_s_per_device(dtype)
    bandwidth = chip.hbm_bytes_per_s_per_device
    if peak is None or bandwidth is None:
        raise ValueError(
            f"peak in {dtype} or memory bandwidth of {chip.name!r} is unknown; no "
            "source gives it, so no time is predicted"
        )
    if estimates and chip.name not in CYCLES_PER_S:
        known = ", ".join(CYCLES_PER_S)
        raise ValueError(
            f"the compiler estimates no cycles for {chip.name!r}, only for {known}"
        )
    return Rates(
        flops_per_s=peak,
        hbm_bytes_per_s=bandwidth,
        cycles_per_s=CYCLES_PER_S[chip.name] if estimates else None,
        # NCCL's: xla_gpu_experimental_parallel_collective_overlap_limit is 1.
        one_stream=chip.platform == "gpu",
    )


def slow_gpu(fast: Rates, *, kernel_fraction: float) -> Rates:
    """Returns the slow end on a GPU, whose compiler estimates no cycles.

    `kernel_fraction` is what custom calls reach of the peak there.
    """
    return dataclasses.replace(
        fast,
        flops_per_s=GPU_MATMUL_FRACTION * fast.flops_per_s,
        hbm_bytes_per_s=GPU_HBM_FRACTION * fast.hbm_bytes_per_s,
        kernel_fraction=kernel_fraction / GPU_MATMUL_FRACTION,
        instruction_overhead_s=KERNEL_LAUNCH_S,
        collective_overhead_s=NCCL_BASE_S,
    )


def price_on(
    chip: Chip, mesh: MeshSpec, placed: Mapping[Axis, SubTorus]
) -> ExchangePrice:
    """Returns the price of collectives on `chip`, each alone on its network.

    `placed` says where the axes lie on the torus; axes of one collective spread its
    traffic over the dims of all of them.
    """

    def price(each: Exchange) -> Mapping[Network, Duration]:
        found: dict[Network, Duration] = {}
        lying = [placed[axis] for axis in axes_on("ici", each, mesh) if axis in placed]
        place = joined(tuple(lying)) if lying else line(each.span.ici_size)
        for kind, network, members, payload in on_networks(
            each.kind, each.span, each.payload_bytes
        ):
            whole_s, latency_s = (
                collective_time_s(
                    kind,
                    payload_bytes=amount,
                    group_size=members,
                    chip=chip,
                    network=network,
                    place=place,
                )
                for amount in (payload, 0.0)
            )
            # Within a slice each step holds the links; between slices hosts wait.
            latency_s = latency_s if network == "dcn" else 0.0
            before = found.get(network, Duration())
            found[network] = Duration(
                before.busy_s + whole_s - latency_s, before.latency_s + latency_s
            )
        return found

    return price
