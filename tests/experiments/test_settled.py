"""Which stored runs count today."""

from collections.abc import Callable
from collections.abc import Sequence

import pytest

from experiments.measuring import Measuring
from experiments.settled import Settled
from scaling.measurement import Measurement
from scaling.point import Point

MakePoint = Callable[..., Point]
MakeRun = Callable[..., Measurement]


@pytest.fixture
def counted(make_point: MakePoint, make_run: MakeRun) -> Callable[..., list[str]]:
    """Returns `(runs, retry=()) -> statuses` of those that count."""

    def found(runs: Sequence[Measurement], retry: Sequence[str] = ()) -> list[str]:
        # As it is before a worker has named its device.
        today = make_run(environment={"device_kind": None}).environment
        settled = Settled([make_point()], Measuring(), today)
        settled.take(runs, retry=retry)  # type: ignore[arg-type]
        return [run.status for run in settled.of(make_point())]

    return found


def test_runs_count_whatever_the_device_kind_that_only_a_worker_knows(
    counted: Callable[..., list[str]], make_run: MakeRun
):
    stored = [make_run(environment={"device_kind": kind}) for kind in ("cpu", None)]
    assert counted(stored) == ["ok", "ok"]


@pytest.mark.parametrize(
    "changed",
    [
        {"code_hash": "1"},
        {"versions": {"jax": "0.11"}},
        {"flags": {"XLA_FLAGS": "--x"}},
        {"host_cpu_model": "another"},
    ],
)
def test_runs_of_another_environment_do_not_count(
    counted: Callable[..., list[str]], make_run: MakeRun, changed: dict[str, object]
):
    assert counted([make_run(environment=changed)]) == []


def test_commit_and_host_name_are_not_in_the_key(
    counted: Callable[..., list[str]], make_run: MakeRun
):
    elsewhere = {"commit": "a-dirty", "hostname": "there"}
    assert counted([make_run(environment=elsewhere)]) == ["ok"]


def test_preempted_runs_do_not_count_nor_those_to_retry(
    counted: Callable[..., list[str]], make_run: MakeRun
):
    stored = [
        make_run(status=status, reason="because")
        for status in ("preempted", "crash", "hang")
    ]
    assert counted(stored, retry=["crash"]) == ["hang"]


def test_runs_of_another_provenance_do_not_count(
    counted: Callable[..., list[str]], make_run: MakeRun
):
    assert counted([make_run(provenance="compiled")]) == []
