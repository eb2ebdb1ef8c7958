"""Intervals: Student t over runs, with one variance pooled over all points of a curve.

A handful of runs tells little about their spread; the runs of a whole curve tell more.
With `n_i` runs at point `i` the pooled variance has `sum(n_i - 1)` degrees of freedom.
Comparisons of every point with one control share that control's error and the
variance: the half-widths that hold for all of them at once are Dunnett's (J. Am. Stat.
Assoc. 50, 1955), narrower than Bonferroni's. Everything is on the log scale, so a
half-width `h` is a factor `exp(h)`.
"""

import functools
import math
import statistics
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.90
"""Of every interval in this project: of one mean alone, of comparisons jointly."""


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """Means of several samples and their common standard deviation."""

    means: tuple[float, ...]
    counts: tuple[int, ...]
    sd: float | None
    """None without degrees of freedom: no sample has two values."""
    degrees_of_freedom: int


def pool(samples: Sequence[Sequence[float]]) -> Pooled:
    """Returns the means of `samples`, each not empty, and their pooled spread."""
    means = tuple(statistics.fmean(sample) for sample in samples)
    degrees_of_freedom = sum(len(sample) - 1 for sample in samples)
    squares = sum(
        (value - mean) ** 2
        for sample, mean in zip(samples, means, strict=True)
        for value in sample
    )
    return Pooled(
        means=means,
        counts=tuple(len(sample) for sample in samples),
        sd=math.sqrt(squares / degrees_of_freedom) if degrees_of_freedom else None,
        degrees_of_freedom=degrees_of_freedom,
    )


def half_widths(pooled: Pooled) -> tuple[float | None, ...]:
    """Returns the half-width of each mean's own interval; None from a single value."""
    if pooled.sd is None:
        return (None,) * len(pooled.counts)
    t = t_quantile(pooled.degrees_of_freedom)
    return tuple(
        t * pooled.sd / math.sqrt(count) if count > 1 else None
        for count in pooled.counts
    )


def comparison_half_widths(pooled: Pooled, control: int) -> tuple[float | None, ...]:
    """Returns half-widths of `means[i] - means[control]` that hold all at once.

    0 for the control itself; None where it or the other mean is of a single value.
    """
    counts, sd = pooled.counts, pooled.sd
    if sd is None or counts[control] < 2:
        return (None,) * len(counts)
    compared = [n for i, n in enumerate(counts) if i != control and n > 1]
    if not compared:
        return tuple(0.0 if i == control else None for i in range(len(counts)))
    d = dunnett_quantile(
        control=counts[control],
        others=tuple(sorted(compared)),
        degrees_of_freedom=pooled.degrees_of_freedom,
    )

    def half_width(i: int) -> float | None:
        if i == control:
            return 0.0
        if counts[i] < 2:
            return None
        return d * sd * math.sqrt(1 / counts[i] + 1 / counts[control])

    return tuple(half_width(i) for i in range(len(counts)))


@functools.cache
def t_quantile(degrees_of_freedom: int, confidence: float = CONFIDENCE) -> float:
    """Returns t with `P(|T| <= t) = confidence`."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, (1 + confidence) / 2))


@functools.cache
def dunnett_quantile(
    *,
    control: int,
    others: tuple[int, ...],
    degrees_of_freedom: int,
    confidence: float = CONFIDENCE,
) -> float:
    """Returns d with `P(|T_i| <= d for all i) = confidence`.

    `T_i` is the Student ratio of mean `i` minus the control's mean; `control` and
    `others` are the numbers of values behind the means.
    """
    low = t_quantile(degrees_of_freedom, confidence)
    if len(others) == 1:
        return low
    # Bonferroni's, an upper bound.
    high = t_quantile(degrees_of_freedom, 1 - (1 - confidence) / len(others))
    covered = _coverage(
        control=control, others=others, degrees_of_freedom=degrees_of_freedom
    )
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if covered(middle) >= confidence else (middle, high)
    return high


def _coverage(
    *, control: int, others: tuple[int, ...], degrees_of_freedom: int
) -> Callable[[float], float]:
    """Returns the function `d -> P(|T_i| <= d for all i)`.

    Given the control's error `z` and the estimated over the true standard deviation
    `s`, the comparisons are independent: with `l² = n_i / (n_i + n_0)` the
    probability is `E_s E_z prod_i [F((l z + d s) / m) - F((l z - d s) / m)]`,
    `m² = 1 - l²`, F the normal distribution function. Both expectations are
    Gauss-Legendre sums over all but 1e-10 of the distribution.
    """
    import numpy as np
    from scipy.special import chdtri
    from scipy.special import gammaln
    from scipy.special import ndtr

    nodes, weights = np.polynomial.legendre.leggauss(64)

    def spread(low: float, high: float):
        half = (high - low) / 2
        return low + half * (nodes + 1), half * weights

    df = degrees_of_freedom
    s, weight_s = spread(*(math.sqrt(chdtri(df, p) / df) for p in (1 - 1e-10, 1e-10)))
    log_density = (
        (df / 2) * math.log(df / 2)
        - gammaln(df / 2)
        + math.log(2)
        + (df - 1) * np.log(s)
        - df * s * s / 2
    )
    weight_s = weight_s * np.exp(log_density)
    z, weight_z = spread(-6.5, 6.5)
    weight_z = weight_z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    def covered(d: float) -> float:
        inside = np.ones((len(s), len(z)))
        for count in set(others):
            share = count / (count + control)
            shift = math.sqrt(share / (1 - share)) * z
            reach = (d / math.sqrt(1 - share) * s)[:, None]
            within = ndtr(shift + reach) - ndtr(shift - reach)
            inside *= within ** others.count(count)
        return float(weight_s @ inside @ weight_z)

    return covered
