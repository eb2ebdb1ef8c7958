"""Predicted: the figures of a curve's points from predictions instead of timings.

The band of an efficiency is not the quotient of two step-time bands. What is wrong with
a prediction is wrong in the same way at the baseline: the same compiler, the same
assumption about its matrix products, the same rates of the same links. So both are
taken under one assumption at a time:

    products    step times of both at the low end of their bands, then both at the high
    networks    what both send over a network takes `NETWORK_ERROR` times as long, or
                as short, the network within slices and the one between them each on
                its own

and the band reaches from the worst of both to the best. A common error moves the
efficiency only as far as point and baseline differ in what they wait for: a point like
its baseline is known well, one that waits for a network instead of its products is not.
That goes for what is hidden behind other work as well, all of which a slower network
might show. An analytic prediction does not say what a step waits for, so
that of those the ends alone are compared.
"""

import itertools
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple
from typing import get_args

from meshes.spec import Network
from scaling.compiled import CompiledPrediction
from scaling.point import Point
from scaling.predict import Prediction

NETWORK_ERROR = 1.25
"""Factor by which seconds on a network may be wrong, either way. Assumed,
not measured: sources differ by a tenth on the rate of one TPU link (90 GB/s in
scaling-book, 100 GB/s in Google's documentation), no public table says how far
collectives keep below it, and the schedule's overlap is the compiler's plan."""

NETWORKS: tuple[Network, ...] = get_args(Network)

Fields = Mapping[str, object]
"""Fields of a point of a curve that a prediction gives."""


class Step(NamedTuple):
    """What is predicted of one step, in seconds but for its tokens."""

    tokens_per_device: float
    low_s: float
    middle_s: float
    high_s: float
    exposed_s: Mapping[str, float] | None
    """What the step waits for by cause; sums to `middle_s`. None if not known."""
    hidden_s: Mapping[str, float] | None = None
    """Communication by network that other work covers."""


class Band(NamedTuple):
    """A ratio with its bounds."""

    low: float
    middle: float
    high: float


def step_of(point: Point, prediction: Prediction | None) -> Step | None:
    """Returns the predicted step; None where the prediction has no times."""
    if prediction is None:
        return None
    low, middle, high = (
        prediction.step_time_low_s,
        prediction.step_time_s,
        prediction.step_time_high_s,
    )
    if low is None or middle is None or high is None:
        return None
    compiled = prediction if isinstance(prediction, CompiledPrediction) else None
    return Step(
        tokens_per_device=point.tokens_per_step / point.mesh.num_devices,
        low_s=low,
        middle_s=middle,
        high_s=high,
        exposed_s=compiled and compiled.exposed_s,
        hidden_s=compiled and compiled.hidden_s,
    )


def efficiency(step: Step, base: Step) -> Band:
    """Returns throughput per device over that of `base`, with its band."""
    share = step.tokens_per_device / base.tokens_per_device
    middle = share * base.middle_s / step.middle_s
    ends = (
        middle,
        share * base.low_s / step.low_s,
        share * base.high_s / step.high_s,
    )
    slack = _network_slack(step, base)
    return Band(min(ends) * min(slack), middle, max(ends) * max(slack))


def figures(
    expected: Sequence[tuple[Point, Prediction | None]], *, compared: bool = True
) -> tuple[Fields, ...]:
    """Returns the fields of each point of a curve, in its order; none without times.

    Those that are `compared` have an efficiency over the first of them with times.
    """
    found: list[Fields] = []
    base: Step | None = None
    before: Step | None = None
    for point, prediction in expected:
        step = step_of(point, prediction)
        if step is None or prediction is None:
            found.append({})
            continue
        base = base or step
        found.append(
            {
                "tokens_per_s": prediction.tokens_per_s,
                "step_time_s": step.middle_s,
                "step_time_low_s": step.low_s,
                "step_time_high_s": step.high_s,
                "mfu": prediction.mfu,
                "exposed_s": step.exposed_s,
                **(_efficiencies(step, base, before) if compared else {}),
            }
        )
        before = step
    return tuple(found)


def _efficiencies(step: Step, base: Step, before: Step | None) -> Fields:
    band = efficiency(step, base)
    return {
        "efficiency": band.middle,
        "efficiency_low": band.low,
        "efficiency_high": band.high,
        "marginal_efficiency": before and efficiency(step, before).middle,
    }


def _network_slack(step: Step, base: Step) -> list[float]:
    """Returns factors on the efficiency, one for each way the networks may be wrong.

    A factor is monotone in each network's error, so its extremes are at the ends.
    """
    factors = [1.0]
    if step.exposed_s is None or base.exposed_s is None:
        return factors
    for errors in itertools.product((1 / NETWORK_ERROR, NETWORK_ERROR), repeat=2):
        wrong = dict(zip(NETWORKS, errors, strict=True))
        ours, theirs = (
            each.middle_s + sum(_longer_s(each, *one) for one in wrong.items())
            for each in (step, base)
        )
        factors.append(theirs / base.middle_s / (ours / step.middle_s))
    return factors


def _longer_s(step: Step, network: Network, error: float) -> float:
    """Returns how much longer a step takes whose network takes `error` times as long.

    All of it counts, hidden or not, as nothing tells how much more could be hidden; a
    network that is faster saves no more than what the step waits for it.
    """
    exposed = (step.exposed_s or {}).get(network, 0.0)
    hidden = (step.hidden_s or {}).get(network, 0.0)
    return max(-exposed, (error - 1) * (exposed + hidden))
