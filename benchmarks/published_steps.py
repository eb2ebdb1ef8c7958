"""Compiled step times beside those that MaxText measured on the same shapes.

    scaling compile maxtext_tpu
    python benchmarks/published_steps.py [RESULTS]

No constant of the prediction was fitted to these rows.
"""

import statistics
import sys

from experiments.predictions import prediction
from experiments.store import HLO_SUFFIX
from experiments.store import load
from scaling.compiled import CompiledPrediction
from scaling.published_steps import PUBLISHED_STEPS


def main(results: str = "results/maxtext_tpu") -> None:
    """Prints a line for each row that is compiled, and the median error by chip."""
    compiled = _predictions(results)
    errors: dict[str, list[float]] = {}
    print(f"{'row':33}{'published':>10}{'compiled':>9}{'band':>14}{'error':>8}")
    for step in PUBLISHED_STEPS:
        found = compiled.get(step.point.id)
        if found is None or found.step_time_s is None:
            print(f"{step.id:33}{step.step_time_s:8.2f} s  not compiled")
            continue
        error = found.step_time_s / step.step_time_s - 1
        errors.setdefault(step.point.chip, []).append(error)
        band = f"{found.step_time_low_s:.2f}–{found.step_time_high_s:.2f}"
        print(
            f"{step.id:33}{step.step_time_s:8.2f} s{found.step_time_s:7.2f} s"
            f"{band:>14}{error:+8.1%}"
        )
    for chip, of_chip in errors.items():
        print(f"{chip}: {_summary(of_chip)}")
    print(f"all: {_summary([each for some in errors.values() for each in some])}")


def _predictions(results: str) -> dict[str, CompiledPrediction]:
    return {
        run.id: prediction(run, f"{results}/{run.id}.{run.run}{HLO_SUFFIX}")
        for run in load(results).measurements
        if run.status == "ok" and run.compiled is not None
    }


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
