"""Timing, on steps that take as long as a fake clock says."""

import itertools
from collections.abc import Callable
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest

from experiments import timing
from experiments.protocol import Timing
from experiments.timing import Loop
from experiments.timing import may_queue_steps
from experiments.timing import settled
from experiments.timing import time_blocks
from experiments.timing import warm_up


class Clock:
    """Time that passes only where something says that it takes time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now_s = 100.0
        self.pending_s = 0.0
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(timing.jax, "block_until_ready", self._wait)

    def _wait(self, arrays: object) -> object:
        self.now_s += self.pending_s
        self.pending_s = 0.0
        return arrays


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def loop_of(
    clock: Clock,
    step_s: Callable[[int], float],
    *,
    queue_steps: bool = True,
    save: timing.Save | None = None,
    save_every: int = 0,
) -> Loop:
    """Returns a loop whose steps are dispatched at once and done when waited for."""

    def step(state: int, batch: int) -> tuple[int, float]:
        assert batch == state, "a step got another step's batch"
        clock.pending_s += step_s(state)
        return state + 1, float(state)

    return Loop(
        step=step,
        state=0,
        batches=itertools.count(),
        queue_steps=queue_steps,
        save=save,
        save_every=save_every,
    )


def test_a_block_ends_when_its_work_is_done_not_when_it_is_dispatched(clock):
    loop = loop_of(clock, lambda _: 0.5)
    assert loop.run(4) == pytest.approx(2.0)
    assert (loop.state, loop.loss, loop.steps_done) == (4, 3.0, 4)


@pytest.mark.parametrize(("queue_steps", "most"), [(True, 4), (False, 1)])
def test_steps_in_flight(clock, queue_steps, most):
    in_flight = []

    def step_s(_: int) -> float:
        in_flight.append(round(clock.pending_s / 0.5) + 1)
        return 0.5

    loop = loop_of(clock, step_s, queue_steps=queue_steps)
    assert loop.run(4) == pytest.approx(2.0)
    assert max(in_flight) == most


def test_only_the_cpu_runtime_has_one_step_in_flight():
    assert [may_queue_steps(name) for name in ("tpu", "gpu", "cpu")] == [
        True,
        True,
        False,
    ]


def test_real_work_is_waited_for():
    work = jax.jit(lambda x: jnp.sin(x @ x))
    x = jnp.ones((700, 700))
    jax.block_until_ready(work(x))

    def step(state: jax.Array, batch: object) -> tuple[jax.Array, jax.Array]:
        return work(state), state[0, 0]

    loop = Loop(step=step, state=x, batches=itertools.repeat(None), queue_steps=True)
    loop.run(5)
    assert loop.state.is_ready()
    assert loop.loss.is_ready()


def test_saving_is_not_in_the_time_of_a_block(clock):
    saved = []

    def save(steps_done: int, state: int) -> None:
        clock.now_s += 2.0
        saved.append((steps_done, state))

    loop = loop_of(clock, lambda _: 0.5, save=save, save_every=3)
    assert loop.run(4) == pytest.approx(2.0)
    assert loop.run(5) == pytest.approx(2.5)
    assert saved == [(3, 3), (6, 6), (9, 9)]


def test_waiting_for_data_is_in_the_time_of_a_block(clock):
    def slow() -> Iterator[int]:
        for number in itertools.count():
            clock.now_s += 0.1
            yield number

    loop = Loop(
        step=lambda state, batch: (state + 1, 0.0),
        state=0,
        batches=slow(),
        queue_steps=True,
    )
    assert loop.run(4) == pytest.approx(0.4)


def test_warm_up_goes_on_until_steps_get_no_faster(clock):
    cold = [3.0, 1.0, 0.6, 0.4]
    loop = loop_of(clock, lambda i: cold[i] if i < len(cold) else 0.4)
    reported: list[float] = []
    steps = warm_up(loop, Timing(min_block_s=1.0), agree=int, report=reported.append)
    assert reported == pytest.approx([*cold, 0.4])
    assert steps == 3  # 1.0 s of steps of 0.4 s


def test_warm_up_of_fast_steps_compares_windows_not_single_steps(clock):
    # Every third step takes twice as long: single steps would seldom agree.
    loop = loop_of(clock, lambda i: 0.001 if i % 3 else 0.002)
    reported: list[float] = []
    warm_up(loop, Timing(min_block_s=0.404), agree=int, report=reported.append)
    # 0.101 s a window, by the median of the window before.
    assert len(reported) == 1 + 51 + 101


def test_warm_up_has_a_cap(clock):
    loop = loop_of(clock, lambda i: 8.0 * 0.5**i if i < 40 else 1e-9)
    reported: list[float] = []
    limits = Timing(max_warm_up_s=12.0, min_block_s=0.01)
    warm_up(loop, limits, agree=int, report=reported.append)
    assert reported == [8.0, 4.0]


def test_process_0_decides_for_all(clock):
    # What another process would do by its own clock does not matter.
    decided = iter([1, 2, 0, 7])
    loop = loop_of(clock, lambda _: 100.0)
    reported: list[float] = []
    steps = warm_up(
        loop, Timing(), agree=lambda _: next(decided), report=reported.append
    )
    assert (steps, loop.steps_done) == (7, 3)


def test_blocks_are_reported_one_by_one(clock):
    loop = loop_of(clock, lambda i: 0.1 if i < 6 else 0.3)
    reported: list[float] = []
    time_blocks(loop, num_blocks=3, steps=3, report=reported.append)
    assert reported == pytest.approx([0.3, 0.3, 0.9])


@pytest.mark.parametrize(
    ("windows_s", "expected"),
    [
        ([1.0], False),
        ([1.0, 0.96], True),
        ([1.0, 1.04], True),
        ([1.0, 0.94], False),
        ([1.0, 1.5], False),  # one disturbed window says nothing
        ([1.0, 0.5, 0.8, 0.6], True),  # noisy, and no longer getting faster
        ([1.0, 0.5, 0.8, 0.4], False),
    ],
)
def test_settled(windows_s, expected):
    assert settled(windows_s) is expected
