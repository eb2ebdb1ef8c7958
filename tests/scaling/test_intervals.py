import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.intervals import comparison_half_widths
from scaling.intervals import dunnett_quantile
from scaling.intervals import half_widths
from scaling.intervals import pool
from scaling.intervals import t_quantile


def test_pool_by_hand():
    pooled = pool([(1.0, 3.0), (2.0, 4.0, 6.0)])
    assert pooled.means == (2.0, 4.0)
    assert pooled.counts == (2, 3)
    # Squares 2 + 8 over (2 - 1) + (3 - 1) degrees of freedom.
    assert pooled.degrees_of_freedom == 3
    assert pooled.sd == pytest.approx(math.sqrt(10 / 3))


def test_half_width_by_hand():
    pooled = pool([(1.0, 3.0), (2.0, 4.0, 6.0)])
    # t(0.95) of 3 degrees of freedom is 2.353 in every table.
    first, second = half_widths(pooled)
    assert first == pytest.approx(2.353 * math.sqrt(10 / 3 / 2), rel=1e-3)
    assert second == pytest.approx(2.353 * math.sqrt(10 / 3 / 3), rel=1e-3)


def test_nothing_without_repeats():
    pooled = pool([(1.0,), (2.0,)])
    assert pooled.sd is None
    assert half_widths(pooled) == (None, None)
    assert comparison_half_widths(pooled, 0) == (None, None)


def test_a_single_value_has_no_interval_although_others_repeat():
    pooled = pool([(1.0, 1.1), (2.0,), (3.0, 3.1)])
    assert half_widths(pooled)[1] is None
    control, single, repeated = comparison_half_widths(pooled, 0)
    assert control == 0
    assert single is None
    assert repeated is not None
    assert comparison_half_widths(pooled, 1) == (None, None, None)


def test_one_comparison_is_student_t():
    pooled = pool([(1.0, 1.2, 1.1), (2.0, 2.2)])
    expected = t_quantile(3) * (pooled.sd or 0) * math.sqrt(1 / 3 + 1 / 2)
    assert comparison_half_widths(pooled, 0)[1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("comparisons", "degrees_of_freedom", "published"),
    [
        (2, 10, 2.57),
        (4, 10, 2.89),
        (5, 10, 2.99),
        (2, 20, 2.38),
        (5, 20, 2.73),
        (9, 60, 2.77),
    ],
)
def test_dunnett_table(comparisons, degrees_of_freedom, published):
    # Dunnett, Biometrics 20 (1964), table II: two-sided, 95 %, equal numbers.
    found = dunnett_quantile(
        control=4,
        others=(4,) * comparisons,
        degrees_of_freedom=degrees_of_freedom,
        confidence=0.95,
    )
    assert found == pytest.approx(published, abs=0.006)


@pytest.mark.parametrize(
    ("control", "others", "degrees_of_freedom"),
    [(5, (5, 5, 5, 5, 5), 24), (2, (2, 3), 4), (2, (2, 2), 1), (9, (2, 3, 20), 30)],
)
def test_dunnett_by_simulation(control, others, degrees_of_freedom):
    rng = np.random.default_rng(7)
    size = 400_000
    scale = np.sqrt(rng.chisquare(degrees_of_freedom, size) / degrees_of_freedom)
    base = rng.normal(size=size) / math.sqrt(control)
    largest = np.zeros(size)
    for count in others:
        mean = rng.normal(size=size) / math.sqrt(count)
        ratio = (mean - base) / math.sqrt(1 / count + 1 / control) / scale
        largest = np.maximum(largest, np.abs(ratio))
    found = dunnett_quantile(
        control=control, others=others, degrees_of_freedom=degrees_of_freedom
    )
    assert np.mean(largest <= found) == pytest.approx(0.90, abs=0.002)


@given(
    control=st.integers(2, 12),
    others=st.lists(st.integers(2, 12), min_size=2, max_size=6),
    degrees_of_freedom=st.integers(1, 60),
)
def test_dunnett_lies_between_one_comparison_and_bonferroni(
    control, others, degrees_of_freedom
):
    found = dunnett_quantile(
        control=control,
        others=tuple(sorted(others)),
        degrees_of_freedom=degrees_of_freedom,
    )
    assert t_quantile(degrees_of_freedom) < found
    assert found <= t_quantile(degrees_of_freedom, 1 - 0.1 / len(others))
