"""Prediction: the time and memory of a point's step on a chip, before anything runs.

A roofline of four causes, each taken alone: matmuls at the peak, memory traffic at
the memory's bandwidth, collectives within and between slices. The band is wide on
purpose, since nothing has been compiled:

    low   = max(compute, hbm, ici, dcn)             everything overlaps, at the peak
    high  = compute / 0.4 + hbm + ici + dcn         nothing does, at 0.4 of the peak
    step  = √(low · high)                           the middle on a logarithmic scale

The middle claims no more than the two ends. Source of the ends: scaling-book
"roofline" (max and sum); of 0.4: the model FLOPs utilisation that published trainings
reach at scale lies about there (PaLM 0.46, arXiv 2204.02311; Llama 3 405B 0.38–0.43,
arXiv 2407.21783).
"""

import math
from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel
from pydantic import ConfigDict

from meshes.chip import Chip
from meshes.collectives import collective_time_s
from meshes.spec import Axis
from meshes.spec import Network
from meshes.subtorus import SubTorus
from meshes.subtorus import joined
from meshes.subtorus import line
from scaling.analytic import cost
from scaling.cost import Collective
from scaling.cost import Cost
from scaling.placement import places
from scaling.point import Point

PESSIMISTIC_FRACTION = 0.4
"""Of the peak, at the slow end of the band."""


class Prediction(BaseModel):
    """What is expected of one step; None where a figure of the chip is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step_time_s: float | None
    step_time_low_s: float | None
    step_time_high_s: float | None
    tokens_per_s: float | None
    """Of the whole mesh."""
    mfu: float | None
    """Over the vendor's peak, so None on CPU, however well that is calibrated."""
    mfu_full_attention: float | None
    hfu: float | None
    peak_hbm_bytes: int
    """Per device, at the fullest moment of a step."""
    available_hbm_bytes: int | None
    limited_by: str | None
    """The cause with most of `times_s`; of a compiled step, what it waits for most."""
    times_s: dict[str, float] | None
    """Seconds by cause (`compute hbm ici dcn`), each alone and at full rate."""

    @property
    def fits(self) -> bool:
        """Whether memory suffices, as far as is known."""
        available = self.available_hbm_bytes
        return available is None or self.peak_hbm_bytes <= available

    def without_times(self) -> "Prediction":
        """Returns what is known of memory alone."""
        times = set(Prediction.model_fields) - {"peak_hbm_bytes", "available_hbm_bytes"}
        return self.model_copy(update=dict.fromkeys(times))


def predict(point: Point, chip: Chip) -> Prediction:
    """Returns what a step of a feasible point takes on `chip`.

    The chip may be a calibrated one: a measured matmul rate then stands for the peak.
    """
    amounts = cost(point)
    times = _times_s(point, chip, amounts)
    low, middle, high = _band(times) if times else (None, None, None)
    peak = None
    if chip.platform != "cpu":
        peak = chip.peak_flops_per_s_per_device(point.compute_dtype)
    return Prediction(
        step_time_s=middle,
        step_time_low_s=low,
        step_time_high_s=high,
        tokens_per_s=middle and point.tokens_per_step / middle,
        mfu=utilisation(amounts.model_flops, middle, peak),
        mfu_full_attention=utilisation(
            amounts.model_flops_full_attention, middle, peak
        ),
        hfu=utilisation(amounts.executed_flops, middle, peak),
        peak_hbm_bytes=math.ceil(amounts.peak_hbm_bytes),
        available_hbm_bytes=chip.available_hbm_bytes_per_device,
        limited_by=max(times, key=times.__getitem__) if times else None,
        times_s=times,
    )


def missing_figures(point: Point, chip: Chip) -> tuple[str, ...]:
    """Returns the figures of the chip that a step's time takes and that are unknown."""
    measured = chip.matmul_flops_per_s_per_device(point.compute_dtype)
    mesh = point.mesh
    networks = {
        "ici": mesh.devices_per_slice > 1 and not _has_rate(chip, "ici"),
        "dcn": mesh.num_slices > 1 and not _has_rate(chip, "dcn"),
    }
    peak = measured or chip.peak_flops_per_s_per_device(point.compute_dtype)
    missing = {
        f"peak in {point.compute_dtype}": peak is None,
        "memory bandwidth": chip.hbm_bytes_per_s_per_device is None,
        **{f"bandwidth of {name}": lacks for name, lacks in networks.items()},
    }
    return tuple(name for name, is_missing in missing.items() if is_missing)


def _times_s(point: Point, chip: Chip, amounts: Cost) -> dict[str, float] | None:
    """Returns seconds by cause, or None where the chip lacks a figure for one."""
    rate = chip.matmul_flops_per_s_per_device(point.compute_dtype)
    rate = rate or chip.peak_flops_per_s_per_device(point.compute_dtype)
    bandwidth = chip.hbm_bytes_per_s_per_device
    if rate is None or bandwidth is None:
        return None
    times = {
        "compute": amounts.executed_flops / rate,
        "hbm": amounts.hbm_bytes / bandwidth,
        "ici": 0.0,
        "dcn": 0.0,
    }
    for timed in timed_collectives(point, chip, amounts):
        if timed.seconds is None:
            return None
        times[timed.collective.network] += timed.seconds
    return times


class TimedCollective(NamedTuple):
    """A collective of a step, and what it takes alone at full rate."""

    collective: Collective
    seconds: float | None
    """Of all its executions; None where the network's bandwidth is unknown."""


def timed_collectives(
    point: Point, chip: Chip, amounts: Cost
) -> Iterator[TimedCollective]:
    """Yields the collectives of a step of `point`, whose cost is `amounts`."""
    placed = places(point, chip)
    for collective in amounts.collectives:
        seconds = None
        # Asked first, so that every other mistake in a collective comes out.
        if collective.group_size == 1 or _has_rate(chip, collective.network):
            place = _place(collective, placed)
            seconds = collective.count * _collective_s(collective, chip, place)
        yield TimedCollective(collective, seconds)


def _place(collective: Collective, placed: Mapping[Axis, SubTorus]) -> SubTorus:
    """Returns where the group lies, a line of its own where that is not known."""
    if not all(axis in placed for axis in collective.axes):
        return line(collective.group_size)
    return joined(tuple(placed[axis] for axis in collective.axes))


def _has_rate(chip: Chip, network: Network) -> bool:
    """Returns whether the figures are known that give the network its bandwidth."""
    if network == "dcn":
        return chip.dcn_bytes_per_s is not None
    if chip.platform == "cpu":
        return chip.hbm_bytes_per_s is not None
    links = chip.ici_links if chip.torus_dims is None else 1
    return chip.ici_link_bytes_per_s is not None and links is not None


def _collective_s(collective: Collective, chip: Chip, place: SubTorus) -> float:
    """Returns the seconds of one of the collective's executions."""
    return collective_time_s(
        collective.kind,
        payload_bytes=collective.payload_bytes / collective.count,
        group_size=collective.group_size,
        chip=chip,
        network=collective.network,
        place=place,
    )


def _band(times: dict[str, float]) -> tuple[float, float, float]:
    low = max(times.values())
    slow_compute = times["compute"] / PESSIMISTIC_FRACTION
    high = sum(times.values()) - times["compute"] + slow_compute
    return low, math.sqrt(low * high), high


def utilisation(
    flops: float, step_time_s: float | None, peak: float | None
) -> float | None:
    """Returns FLOPs over what the peak allows in a step, None where one is unknown."""
    if step_time_s is None or peak is None:
        return None
    return flops / (step_time_s * peak)
