"""Selection: which of several meshes of one size stands on a curve.

The fastest of several noisy estimates looks faster than it is. So the mesh is chosen
on one half of its runs and estimated on the other half, which had no say. Predictions
have no noise that could be chosen: of those the fastest stands, by its middle.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scaling.measurement import Status
from scaling.samples import PointRuns

_LEAST_TELLING: tuple[Status, ...] = ("preempted", "skipped", "bad_flag", "invalid")
"""Statuses that say the least about a size, the last of them least."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The point that stands for its size, with the samples that estimate it."""

    runs: PointRuns
    samples: tuple[float, ...]
    """Oldest first; empty where nothing was measured."""
    warning: str | None = None


def choose(candidates: Sequence[PointRuns]) -> Chosen:
    """Returns the fastest candidate, or a failed one where none has figures.

    A candidate without rivals keeps all of its samples. Runs alternate between the
    halves, so that drift over the sweep touches both; the odd one estimates.
    """
    ordered = sorted(candidates, key=lambda each: (str(each.point.mesh), each.point_id))
    measured = [each for each in ordered if each.samples]
    predicted = [each for each in ordered if _predicted_s(each) < math.inf]
    if predicted:
        return Chosen(runs=min(predicted, key=_predicted_s), samples=())
    if not measured:
        return Chosen(runs=min(ordered, key=_silence), samples=())
    if len(measured) == 1:
        return Chosen(runs=measured[0], samples=measured[0].samples)
    best = min(measured, key=lambda each: statistics.fmean(_choosing(each.samples)))
    if len(best.samples) == 1:
        return Chosen(
            runs=best,
            samples=best.samples,
            warning=f"the fastest of {len(measured)} meshes, chosen and estimated on "
            "the same single run, looks faster than it is; repeat with --repeats 5",
        )
    return Chosen(runs=best, samples=best.samples[0::2])


def _predicted_s(runs: PointRuns) -> float:
    """Returns the predicted step time, infinite where there is none."""
    return (runs.prediction and runs.prediction.step_time_s) or math.inf


def _choosing(samples: tuple[float, ...]) -> tuple[float, ...]:
    return samples[1::2] or samples


def _silence(runs: PointRuns) -> int:
    """Returns how little the status of a candidate without samples tells.

    One that is `ok` did run, so no failure of a rival may speak for the size.
    """
    if runs.status == "ok":
        return -1
    if runs.status not in _LEAST_TELLING:
        return 0
    return 1 + _LEAST_TELLING.index(runs.status)
