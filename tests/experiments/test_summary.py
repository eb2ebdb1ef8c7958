"""The arithmetic of the harness overhead, against figures worked out by hand."""

from collections.abc import Callable

import pytest

from experiments import summary
from experiments.summary import Account
from experiments.summary import RunTime
from scaling.measurement import Block
from scaling.measurement import Measurement
from scaling.measurement import Status

MakeRun = Callable[..., Measurement]

PHASES_S = {
    "start": 1.0,
    "devices": 0.5,
    "data": 0.25,
    "state": 0.25,
    "compile": 1.0,
    "warm_up": 0.5,
    "timed": 2.0,
    "finish": 0.75,
}


def test_useful_time_ends_with_the_timed_window_and_the_exit_is_overhead(
    make_run: MakeRun,
):
    split = RunTime.of(make_run(phases_s=PHASES_S), total_s=6.25)
    assert split == RunTime(useful_s=5.5, exit_s=0.75)


def test_all_time_of_a_run_without_a_timed_window_is_its_own(make_run: MakeRun):
    hung = make_run(phases_s={"start": 1.0, "compile": 2.0}, status="hang")
    assert RunTime.of(hung, total_s=123.0) == RunTime(useful_s=123.0, exit_s=0.0)


def test_overhead_is_wall_time_without_the_runs(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
):
    run = make_run(phases_s=PHASES_S)
    clock_s = iter([100.0, 101.0, 103.0, 120.0])
    monkeypatch.setattr(summary.time, "monotonic", lambda: next(clock_s))
    account = Account()  # at 100
    with account.part("planning"):  # 101 to 103
        pass
    account.add_run(run, spawned_at_s=103.0, total_s=6.25)
    account.add_run(run, spawned_at_s=110.0, total_s=6.5)
    made = account.summary(  # at 120
        sweep="s", folder="f", seed="x", statuses={}, num_left=0, interrupted_by=None
    )
    assert made.wall_s == 20.0
    assert made.useful_s == 11.0
    assert made.overhead_s == 9.0
    assert made.overhead_fraction == 0.45
    # 9 = 2 planning + 0.75 + 1.0 exits + what is left
    assert made.parts_s == {
        "planning": 2.0,
        "preparing data": 0.0,
        "exits": 1.75,
        "storing": 0.0,
        "other": 5.25,
    }
    assert sum(made.parts_s.values()) == made.overhead_s


def test_time_that_several_runs_share_is_counted_once(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
):
    run = make_run(phases_s=PHASES_S)
    clock_s = iter([100.0, 120.0])
    monkeypatch.setattr(summary.time, "monotonic", lambda: next(clock_s))
    account = Account()
    # Useful from 101 to 106.5, from 103 to 108.5 and from 110 to 115.5.
    for spawned_at_s in (101.0, 103.0, 110.0):
        account.add_run(run, spawned_at_s=spawned_at_s, total_s=6.25)
    made = account.summary(
        sweep="s", folder="f", seed="x", statuses={}, num_left=0, interrupted_by=None
    )
    assert made.useful_s == 7.5 + 5.5
    # The first run's exit lies within the second run.
    assert made.parts_s["exits"] == 1.5


def test_a_part_within_a_part_is_counted_once(monkeypatch: pytest.MonkeyPatch):
    clock_s = iter([0.0, 1.0, 2.0, 5.0, 7.0, 10.0])
    monkeypatch.setattr(summary.time, "monotonic", lambda: next(clock_s))
    account = Account()
    with account.part("planning"), account.part("storing"):  # 1, 2 to 5, 7
        pass
    made = account.summary(  # at 10
        sweep="s", folder="f", seed="x", statuses={}, num_left=0, interrupted_by=None
    )
    parts_s = {name: part_s for name, part_s in made.parts_s.items() if part_s}
    assert parts_s == {"planning": 3.0, "storing": 3.0, "other": 4.0}


def test_a_run_lost_to_an_interrupt_is_no_overhead(monkeypatch: pytest.MonkeyPatch):
    clock_s = iter([100.0, 110.0])
    monkeypatch.setattr(summary.time, "monotonic", lambda: next(clock_s))
    account = Account()
    account.add_lost_run(spawned_at_s=101.0, total_s=9.0)
    made = account.summary(
        sweep="s", folder="f", seed="x", statuses={}, num_left=1, interrupted_by=2
    )
    assert made.overhead_s == 1.0


@pytest.mark.parametrize(("warm_up_s", "listed"), [(0.6, False), (0.61, True)])
def test_a_warm_up_above_three_tenths_of_the_window_is_listed(
    make_run: MakeRun, warm_up_s: float, listed: bool
):
    account = Account()
    # Two blocks of a second each.
    each = make_run(
        phases_s=PHASES_S,
        warm_up_s=(0.5, warm_up_s - 0.5),
        blocks=(Block(steps=1, elapsed_s=(1.0, 0.5)),) * 2,
    )
    account.add_run(each, spawned_at_s=0.0, total_s=7.0)
    assert (each.id in account.long_warm_ups) is listed


@pytest.mark.parametrize(
    ("statuses", "signal", "strict", "code"),
    [
        ({"a": "ok"}, None, True, 0),
        ({"a": "hang"}, None, False, 0),
        ({"a": "ok", "b": "hang"}, None, True, 3),
        ({"a": None}, None, True, 3),
        ({"a": "ok"}, 2, False, 130),
        ({"a": "hang"}, 15, True, 143),
    ],
)
def test_exit_codes(
    statuses: dict[str, Status | None], signal: int | None, strict: bool, code: int
):
    made = Account().summary(
        sweep="s",
        folder="f",
        seed="x",
        statuses=statuses,
        num_left=0,
        interrupted_by=signal,
    )
    assert made.exit_code(strict=strict) == code
