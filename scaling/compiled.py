"""Compiled: what a program that was compiled for absent hardware says of its step.

The amounts are read from the program; the seconds come from walking its schedule,
once with rooflines alone and once with the compiler's own estimates of cycles:

    low  = the walk in which products reach the peak and the rest the bandwidth
    high = the walk in which products take at least the cycles that the compiler expects
    step = √(low · high)                  the middle on a logarithmic scale
    band = low / e … e · high, e = 1.15 (GPU 1.25)   what published steps differ by

Nothing estimates the cycles of attention kernels: 0.4 of the peak is their high end, as
in `scaling.predict`. XLA's GPU compiler estimates none at all: there the high end is
the walk at fractions of the peak and the bandwidth that small work reaches, with every
launch (`scaling.hlo.rates.slow_gpu`).
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from meshes.chip import Chip
from meshes.chip import Platform
from scaling.analytic import cost
from scaling.hlo.accounting import Accounting
from scaling.hlo.accounting import CompiledCollective
from scaling.hlo.accounting import account_of_module
from scaling.hlo.crosscheck import Difference
from scaling.hlo.crosscheck import compare
from scaling.hlo.flops import FlopsPrice
from scaling.hlo.module import Module
from scaling.hlo.module import parse
from scaling.hlo.rates import CYCLES_PER_S
from scaling.hlo.rates import Rates
from scaling.hlo.rates import price_on
from scaling.hlo.rates import rates_of
from scaling.hlo.rates import slow_gpu
from scaling.hlo.timeline import Timeline
from scaling.hlo.timeline import timeline
from scaling.kernel_prices import kernel_prices
from scaling.measurement import CompiledProgram
from scaling.placement import places
from scaling.point import Point
from scaling.predict import PESSIMISTIC_FRACTION
from scaling.predict import Prediction
from scaling.predict import missing_figures
from scaling.predict import utilisation

MODEL_ERROR: Mapping[Platform, float] = {"tpu": 1.15, "gpu": 1.25}
"""Factor by which a step may take less or more than both walks of its schedule. All the
published steps of `scaling.published_steps` are within. Chosen without one generation
of TPUs, as what holds nine in ten of the others, it is 1.10 to 1.15 and holds 25 of 28
(`benchmarks/published_steps.py`). On GPU it holds all of five (docs/compile.md)."""


class CompiledPrediction(Prediction):
    """What is expected of one step, from its compiled program."""

    arguments_bytes: int
    temporaries_bytes: int
    executed_flops: float
    exposed_s: dict[str, float] | None
    """What the step waits for by cause, in the middle of the band; sums to its time."""
    hidden_s: dict[str, float] | None
    """Communication by network that other work covers, at the low end of the band."""
    collectives: tuple[CompiledCollective, ...]
    unpriced: tuple[str, ...]
    """Targets of custom calls whose FLOPs are missing in `executed_flops`."""
    differences: tuple[Difference, ...]
    """Where the program does other work than `scaling.analytic` says."""


class _Band(NamedTuple):
    """The walk of a schedule at both ends."""

    low: Timeline
    high: Timeline
    error: float
    """How far the band reaches beyond them, a factor."""

    @property
    def step_time_s(self) -> float:
        return math.sqrt(self.low.step_time_s * self.high.step_time_s)

    @property
    def low_s(self) -> float:
        return self.low.step_time_s / self.error

    @property
    def high_s(self) -> float:
        return self.high.step_time_s * self.error

    @property
    def exposed_s(self) -> dict[str, float]:
        """The mean of both ends by cause, scaled to sum to the middle."""
        low, high = self.low.exposed_s, self.high.exposed_s
        mean: dict[str, float] = {each: (low[each] + high[each]) / 2 for each in low}
        total = sum(mean.values())
        scale = self.step_time_s / total if total else 0.0
        return {each: scale * seconds for each, seconds in mean.items()}

    @property
    def hidden_s(self) -> dict[str, float]:
        return {str(each): seconds for each, seconds in self.low.hidden_s.items()}


def compiled_prediction(
    point: Point, program: CompiledProgram, text: str, chip: Chip
) -> CompiledPrediction:
    """Returns what a step of `point` takes on `chip` by its scheduled HLO `text`.

    The times are None where a figure of the chip is unknown. Raises ValueError, one
    sentence, where something that matters in the text cannot be read exactly.
    """
    module = parse(text)
    prices = kernel_prices(point)
    amounts = account_of_module(module, point.mesh, prices)
    expected = cost(point)
    band = _band(point, module, chip, prices)
    step_time_s = None if band is None else band.step_time_s
    exposed_s = None if band is None else band.exposed_s
    peak = chip.peak_flops_per_s_per_device(point.compute_dtype)
    full_attention = expected.model_flops_full_attention
    return CompiledPrediction(
        step_time_s=step_time_s,
        step_time_low_s=None if band is None else band.low_s,
        step_time_high_s=None if band is None else band.high_s,
        tokens_per_s=step_time_s and point.tokens_per_step / step_time_s,
        mfu=utilisation(expected.model_flops, step_time_s, peak),
        mfu_full_attention=utilisation(full_attention, step_time_s, peak),
        hfu=utilisation(amounts.executed_flops, step_time_s, peak),
        peak_hbm_bytes=program.peak_bytes,
        available_hbm_bytes=chip.available_hbm_bytes_per_device,
        limited_by=max(exposed_s, key=exposed_s.__getitem__) if exposed_s else None,
        times_s=None if band is None else _alone_s(band.low, amounts, chip, peak),
        arguments_bytes=program.arguments_bytes,
        temporaries_bytes=program.temporaries_bytes,
        executed_flops=amounts.executed_flops,
        exposed_s=exposed_s,
        hidden_s=None if band is None else band.hidden_s,
        collectives=amounts.collectives,
        unpriced=amounts.unpriced,
        differences=compare(amounts, expected),
    )


def _band(
    point: Point, module: Module, chip: Chip, prices: Mapping[str, FlopsPrice]
) -> _Band | None:
    """Returns the walks at both ends, or None where the chip lacks a figure."""
    if missing_figures(point, chip):
        return None
    price = price_on(chip, point.mesh, places(point, chip))
    fast = rates_of(chip, point.compute_dtype, estimates=False)
    return _Band(
        timeline(module, point.mesh, fast, price, prices),
        timeline(module, point.mesh, _slow(point, chip, fast), price, prices),
        MODEL_ERROR[chip.platform],
    )


def _slow(point: Point, chip: Chip, fast: Rates) -> Rates:
    if chip.name in CYCLES_PER_S:
        rates = rates_of(chip, point.compute_dtype, estimates=True)
        return dataclasses.replace(rates, kernel_fraction=PESSIMISTIC_FRACTION)
    return slow_gpu(fast, kernel_fraction=PESSIMISTIC_FRACTION)


def _alone_s(
    walk: Timeline, amounts: Accounting, chip: Chip, peak: float | None
) -> dict[str, float]:
    """Returns seconds by cause, each at full rate and waiting for nothing else."""
    bandwidth = chip.hbm_bytes_per_s_per_device
    assert peak is not None
    assert bandwidth is not None
    return {
        "compute": amounts.executed_flops / peak,
        "hbm": amounts.hbm_bytes / bandwidth,
        "ici": walk.exposed_s["ici"] + walk.hidden_s["ici"],
        "dcn": walk.exposed_s["dcn"] + walk.hidden_s["dcn"],
    }
