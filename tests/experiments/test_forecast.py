"""The time left, from what runs took before."""

from collections.abc import Callable

import pytest

from experiments.forecast import Forecast
from experiments.plan import RUN_OVERHEAD_S
from experiments.protocol import Timing
from experiments.schedule import Turn
from scaling.measurement import Measurement
from scaling.point import Point

MakePoint = Callable[..., Point]
MakeRun = Callable[..., Measurement]


@pytest.fixture
def run(make_point: MakePoint, make_run: MakeRun) -> MakeRun:
    """Returns `(batch, took_s) -> Measurement`."""

    def made(batch: int, took_s: float) -> Measurement:
        phases_s = {"start": 1.0, "timed": took_s - 1.0}
        return make_run(make_point(batch=batch), phases_s=phases_s)

    return made


@pytest.fixture
def point(make_point: MakePoint) -> MakePoint:
    """Returns `(batch) -> Point`."""
    return lambda batch: make_point(batch=batch)


def test_before_any_run_it_is_a_guess_from_the_timing(point: MakePoint):
    forecast = Forecast(Timing(num_blocks=10, min_block_s=2.0))
    assert forecast.run_s(point(1)) == RUN_OVERHEAD_S["cpu"] + 26.0


def test_a_point_takes_as_long_as_before_and_a_new_one_as_long_as_others(
    point: MakePoint, run: MakeRun
):
    forecast = Forecast(Timing())
    forecast.learn([run(1, 4.0), run(1, 6.0), run(2, 20.0)])
    assert forecast.run_s(point(1)) == 5.0
    assert forecast.run_s(point(2)) == 20.0
    assert forecast.run_s(point(3)) == 10.0


def test_the_time_left_is_that_of_all_turns(point: MakePoint, run: MakeRun):
    forecast = Forecast(Timing())
    forecast.learn([run(1, 4.0), run(2, 20.0)])
    turns = [Turn(point(1), 0), Turn(point(2), 0), Turn(point(2), 1)]
    assert forecast.left_s(turns) == 44.0
    assert forecast.left_s(turns, elapsed_s=[3.0]) == 41.0
    assert forecast.left_s(turns, elapsed_s=[9.0]) == 40.0
    assert forecast.left_s([]) == 0.0


def test_a_guess_that_was_too_short_is_corrected_while_the_first_run_goes_on(
    point: MakePoint,
):
    forecast = Forecast(Timing(num_blocks=10, min_block_s=2.0))
    turns = [Turn(point(batch), 0) for batch in (1, 2, 3)]
    guess_s = forecast.run_s(point(1))
    assert forecast.left_s(turns) == 3 * guess_s
    assert forecast.left_s(turns, elapsed_s=[2 * guess_s]) == 4 * guess_s


def test_several_at_a_time_share_the_time_left(point: MakePoint, run: MakeRun):
    forecast = Forecast(Timing(), jobs=2)
    forecast.learn([run(1, 4.0), run(2, 20.0)])
    turns = [Turn(point(2), 0), Turn(point(1), 0), Turn(point(1), 1)]
    assert forecast.left_s(turns[1:]) == 4.0
    assert forecast.left_s(turns, elapsed_s=[4.0, 2.0]) == 16.0
    assert forecast.left_s(turns, elapsed_s=[14.0, 2.0]) == 6.0
