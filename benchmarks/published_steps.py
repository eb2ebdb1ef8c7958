"""Compiled step times beside those that MaxText measured on the same shapes.

    scaling compile maxtext_tpu
    python benchmarks/published_steps.py [RESULTS]

No constant of the middle was fitted to these rows. How far the band reaches beyond both
walks of a schedule was: printed is also what it would be without each generation of
chips, and how many rows of that generation it then holds.
"""

import math
import statistics
import sys

from experiments.predictions import prediction
from experiments.store import HLO_SUFFIX
from experiments.store import load
from scaling.compiled import MODEL_ERROR
from scaling.compiled import CompiledPrediction
from scaling.published_steps import PUBLISHED_STEPS

REACH = MODEL_ERROR["tpu"]
"""Factor between the walks of a schedule and the ends of the band."""


def main(results: str = "results/maxtext_tpu") -> None:
    """Prints a line for each row that is compiled, and the median error by chip."""
    compiled = _predictions(results)
    errors: dict[str, list[float]] = {}
    beyond: dict[str, list[float]] = {}
    print(f"{'row':33}{'published':>10}{'compiled':>9}{'band':>14}{'error':>8}")
    for step in PUBLISHED_STEPS:
        found = compiled.get(step.point.id)
        if found is None or found.step_time_s is None:
            print(f"{step.id:33}{step.step_time_s:8.2f} s  not compiled")
            continue
        error = found.step_time_s / step.step_time_s - 1
        errors.setdefault(step.point.chip, []).append(error)
        beyond.setdefault(step.point.chip, []).append(_beyond(found, step.step_time_s))
        band = f"{found.step_time_low_s:.2f}–{found.step_time_high_s:.2f}"
        print(
            f"{step.id:33}{step.step_time_s:8.2f} s{found.step_time_s:7.2f} s"
            f"{band:>14}{error:+8.1%}"
        )
    for chip, of_chip in errors.items():
        print(f"{chip}: {_summary(of_chip)}")
    print(f"all: {_summary(_flat(errors))}")
    for chip, of_chip in beyond.items():
        factor = _holding(_flat({k: v for k, v in beyond.items() if k != chip}))
        held = sum(each <= factor for each in of_chip)
        print(f"band without {chip}: {factor:.3f}, holds {held} of {len(of_chip)}")
    held = sum(each <= REACH for each in _flat(beyond))
    print(f"band: {MODEL_ERROR['tpu']}, holds {held} of {len(_flat(beyond))}")


def _predictions(results: str) -> dict[str, CompiledPrediction]:
    return {
        run.id: prediction(run, f"{results}/{run.id}.{run.run}{HLO_SUFFIX}")
        for run in load(results).measurements
        if run.status == "ok" and run.compiled is not None
    }


def _beyond(found: CompiledPrediction, measured_s: float) -> float:
    """Returns by which factor a measured step lies outside both walks, 1 within."""
    assert found.step_time_low_s is not None
    assert found.step_time_high_s is not None
    low_s = found.step_time_low_s * REACH
    high_s = found.step_time_high_s / REACH
    return max(low_s / measured_s, measured_s / high_s, 1.0)


def _holding(beyond: list[float], share: float = 0.9) -> float:
    """Returns the least factor that holds this share of the rows."""
    return sorted(beyond)[math.ceil(share * len(beyond)) - 1]


def _flat(by_chip: dict[str, list[float]]) -> list[float]:
    return [each for some in by_chip.values() for each in some]


def _summary(errors: list[float]) -> str:
    if not errors:
        return "nothing compiled"
    sizes = [abs(each) for each in errors]
    return (
        f"median |error| {statistics.median(sizes):.1%}, largest {max(sizes):.1%}, "
        f"mean {statistics.mean(errors):+.1%} over {len(errors)} rows"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
