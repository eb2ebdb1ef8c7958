"""Causes: what the time that scaling loses of a step goes to.

Under ideal scaling a step takes the baseline's seconds times its share of the tokens
that a device has there: all of them in weak scaling, 1/n of them in strong scaling on n
times the devices. So does whatever a step consists of. What a cause takes beyond that
is its part of the lost time, and the parts sum to it:

    lost = step - share * baseline step,   cause = seconds - share * baseline seconds

A part is negative where the larger mesh waits less than its share.
"""

from collections.abc import Mapping

from scaling.curve import CurvePoint


def causes(point: CurvePoint, baseline: CurvePoint) -> dict[str, float] | None:
    """Returns seconds by cause, summing to the lost time of `point`.

    None unless both have seconds by cause and the point an efficiency over `baseline`.
    """
    ours, theirs = point.exposed_s, baseline.exposed_s
    if ours is None or theirs is None:
        return None
    if None in (point.efficiency, point.step_time_s, baseline.step_time_s):
        return None
    ideal_s = (point.step_time_s or 0.0) * (point.efficiency or 0.0)
    share = ideal_s / (baseline.step_time_s or 1.0)
    return {cause: ours[cause] - share * theirs.get(cause, 0.0) for cause in ours}


def first_cause(found: Mapping[str, float]) -> str | None:
    """Returns the cause that takes most of the lost time; None if none is lost."""
    if sum(found.values()) <= 0:
        return None
    return max(found, key=found.__getitem__)
