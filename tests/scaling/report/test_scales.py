import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.report.panels import Figure
from scaling.report.panels import Mark
from scaling.report.panels import Panel
from scaling.report.scales import log_ticks
from scaling.report.scales import powers_of_two
from scaling.report.scales import x_domain
from scaling.report.scales import y_domain


def panel(shown, values, *, logarithmic=False):
    marks = tuple(
        Mark(
            series=0,
            provenance="measured",
            x=x,
            y=y,
            low=None,
            high=None,
            status="ok",
            text="",
        )
        for x, y in values
    )
    return Panel(
        title="",
        subtitle="",
        shown=shown,
        x_title="",
        marks=marks,
        logarithmic=logarithmic,
    )


def figure(*panels):
    return Figure(name="", title="", family=None, rows=(panels,))  # pyright: ignore


def test_devices_are_ticked_at_powers_of_two():
    assert powers_of_two((0.87, 4.6)) == [1, 2, 4]
    assert powers_of_two((27.8, 294.4)) == [32, 64, 128, 256]


def test_vertical_and_horizontal_share_their_scales():
    vertical = panel("throughput", [(1, 100.0), (8, 700.0)], logarithmic=True)
    horizontal = panel("throughput", [(8, 700.0), (64, 2000.0)], logarithmic=True)
    both = figure(vertical, horizontal)
    low, high = x_domain(both)
    assert low < 1
    assert high > 64
    assert y_domain(both, vertical) == y_domain(both, horizontal)
    low, high = y_domain(both, vertical)
    assert low < 100
    assert high > 2000


@pytest.mark.parametrize("shown", ["efficiency", "step_time"])
def test_linear_scales_start_at_zero(shown):
    one = panel(shown, [(1, 0.95), (2, 0.9)])
    assert y_domain(figure(one), one)[0] == 0


def test_efficiency_always_shows_one_and_what_is_above():
    low = panel("efficiency", [(1, 0.2)])
    assert y_domain(figure(low), low)[1] > 1
    high = panel("efficiency", [(1, 1.6)])
    assert y_domain(figure(high), high)[1] > 1.6


@pytest.mark.parametrize("logarithmic", [True, False])
def test_an_empty_efficiency_panel_has_a_scale(logarithmic):
    empty = panel("efficiency", [], logarithmic=logarithmic)
    assert y_domain(figure(empty), empty) == (0, 1.12)


def test_a_column_that_would_fill_less_than_half_has_a_range_of_its_own():
    vertical = panel("throughput", [(1, 1.0), (256, 100.0)], logarithmic=True)
    horizontal = panel("throughput", [(32, 20.0), (256, 90.0)], logarithmic=True)
    below = panel("efficiency", [(256, 0.9)])
    both = Figure(
        name="",
        title="",
        family=None,  # pyright: ignore
        rows=((vertical, horizontal), (panel("efficiency", [(1, 1.0)]), below)),
    )
    assert x_domain(both, vertical) == x_domain(both)
    low, high = x_domain(both, horizontal)
    assert 16 < low < 32
    assert high == x_domain(both)[1]
    # The panel below stays under its own, though it holds a single mark.
    assert x_domain(both, below) == (low, high)


@pytest.mark.parametrize("logarithmic", [True, False])
def test_an_empty_panel_has_a_scale(logarithmic):
    empty = panel("throughput", [], logarithmic=logarithmic)
    low, high = y_domain(figure(empty), empty)
    assert low < high
    assert x_domain(figure(empty))[0] < 1 < x_domain(figure(empty))[1]


@given(
    low=st.floats(min_value=1e-6, max_value=1e12),
    ratio=st.floats(min_value=1.44, max_value=1e6),
)
def test_a_logarithmic_axis_has_ticks_within_it(low, ratio):
    ticks = log_ticks((low, low * ratio))
    assert len(ticks) >= 2
    assert ticks == sorted(ticks)
    assert all(low <= tick <= low * ratio for tick in ticks)


def test_ticks_are_no_denser_than_needed():
    assert log_ticks((900.0, 1.1e6)) == [
        *(1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6),
    ]
