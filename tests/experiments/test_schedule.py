"""Which runs are due, in which order, and which points need none."""

import itertools
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import schedule
from meshes.spec import MeshSpec
from scaling.measurement import Measurement
from scaling.measurement import Status
from scaling.point import Point


def point(batch: int = 8, **fields: object) -> Point:
    return Point(
        model="tiny",
        chip="cpu",
        mesh=MeshSpec(),
        global_batch_size=batch,
        seq_len=64,
    ).model_copy(update=fields)


@pytest.mark.parametrize(
    ("statuses", "due"),
    [
        ((), 5),
        (("ok",), 4),
        (("ok",) * 5, 0),
        (("ok",) * 7, 0),
        (("crash",), 4),
        (("ok", "crash"), 3),
        (("out_of_memory",), 0),
        (("hang",), 0),
        (("timeout",), 0),
        (("invalid",), 0),
        (("ok", "out_of_memory"), 0),
        (("out_of_memory", "ok"), 3),
    ],
)
def test_runs_due(
    make_run: Callable[..., Measurement], statuses: tuple[Status, ...], due: int
):
    assert schedule.runs_due([make_run(status=each) for each in statuses], 5) == due


@given(numbers=st.lists(st.integers(0, 5), min_size=1, max_size=6), seed=st.text())
def test_no_point_has_a_further_run_before_every_other_has_had_its_own(
    numbers: list[int], seed: str
):
    due = {point(8 + index): number for index, number in enumerate(numbers)}
    turns = schedule.rounds(due, seed=seed)
    assert Counter(turn.point for turn in turns) == Counter(due) - Counter()
    repeats = [turn.repeat for turn in turns]
    assert repeats == sorted(repeats)
    for _, each in itertools.groupby(turns, key=lambda turn: turn.repeat):
        points = [turn.point for turn in each]
        assert len(points) == len(set(points))


def test_the_order_is_the_seed_s_and_differs_between_rounds():
    due = {point(8 + index): 3 for index in range(8)}
    turns = schedule.rounds(due, seed="a")
    assert turns == schedule.rounds(due, seed="a")
    assert turns != schedule.rounds(due, seed="b")
    orders = {
        tuple(turn.point.id for turn in turns[start : start + 8])
        for start in (0, 8, 16)
    }
    assert len(orders) == 3


def test_a_larger_batch_of_the_same_step_is_dominated():
    assert schedule.dominating(point(16), [point(8)]) == point(8)
    assert schedule.dominating(point(16, regime="weak"), [point(8)]) == point(8)


@pytest.mark.parametrize(
    "other", [point(16), point(32), point(8, remat="full"), point(8, seq_len=32)]
)
def test_nothing_else_dominates(other: Point):
    assert schedule.dominating(point(16), [other]) is None


def test_points_are_selected_by_the_beginning_of_their_id():
    points = point(8), point(16)
    assert schedule.selected(points, ()) == points
    assert schedule.selected(points, [point(16).id[:6]]) == (point(16),)
    with pytest.raises(ValueError, match="no point has the id 'zz'; choose from"):
        schedule.selected(points, ["zz"])
    with pytest.raises(ValueError, match=rf"{point(8).id[:8]} \(1/1, batch 8\), "):
        schedule.selected(points, ["zz"])
    many = tuple(point(batch) for batch in range(8, 80, 8))
    with pytest.raises(ValueError, match="and 3 more, which --json lists"):
        schedule.selected(many, ["zz"])
