"""The largest batch that fits, from a compiler with a memory of our own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import largest_batch
from experiments.compiled_rows import compiled_rows
from experiments.largest_batch import largest_batches
from experiments.largest_batch import next_multiple
from experiments.summary import RunSummary
from experiments.sweep import Sweep
from scaling.point import Point

if TYPE_CHECKING:
    from conftest import Fake

MakePoint = Callable[..., Point]
TOO_LARGE = {
    "do": "failed",
    "failed": {"status": "out_of_memory", "reason": "no room", "phase": "compile"},
}


@given(most=st.integers(0, 1000), first=st.integers(1, 1000))
def test_it_ends_between_the_last_that_fits_and_the_next(most: int, first: int):
    fits, refused, tries = 0, None, 0
    while multiple := next_multiple(first, fits=fits, refused=refused):
        assert fits < multiple < (refused or 4000)
        tries += 1
        if multiple <= most:
            fits = multiple
        else:
            refused = multiple
    assert (fits, refused) == (most, most + 1)
    assert tries <= 22


def test_a_good_guess_costs_few_tries():
    assert next_multiple(12, fits=0, refused=None) == 12
    assert next_multiple(12, fits=12, refused=None) == 24
    assert next_multiple(12, fits=12, refused=13) is None


@pytest.fixture
def searched(
    fake: "Fake", monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Sweep, RunSummary]]:
    """Returns `(*points, **options) -> what largest_batches returns`; guesses 2."""
    monkeypatch.setattr(largest_batch, "_guess", lambda at: 2)

    def search(*points: Point, **options: object) -> tuple[Sweep, RunSummary]:
        return largest_batches(
            fake.sweep(points), lambda sweep: fake.compile(*sweep.points, **options)
        )

    return search


@pytest.fixture
def tpu(make_point: MakePoint) -> MakePoint:
    """Returns `(mesh, batch=16, **fields) -> Point` on 16 chips of v5e."""

    def point(mesh: str, batch: int = 16, **fields: object) -> Point:
        usual = {"chip": "v5e", "slice_shape": (4, 4), "seq_len": 256}
        return make_point(mesh, batch, **{**usual, **fields})

    return point


def test_each_mesh_and_policy_has_two_rows(
    fake: "Fake", tpu: MakePoint, searched: Callable[..., tuple[Sweep, RunSummary]]
):
    small, large = "1/fsdp=16", "1/fsdp=8,tensor=2"
    fake.behave(
        {f"{small} B={16 * number}": TOO_LARGE for number in range(6, 30)}
        | {f"{large} B={16 * number}": TOO_LARGE for number in range(1, 30)}
    )
    points = tpu(small), tpu(small, 32), tpu(large, accumulation=2)
    sweep, summary = searched(*points, work={"jobs": 2})
    rows = compiled_rows(sweep, summary)
    assert [(row.mesh, row.global_batch_size, row.status) for row in rows] == [
        (small, 80, "ok"),
        (small, 96, "out_of_memory"),
        # Its shares are 8 × 2: nothing fits.
        (large, 16, "out_of_memory"),
    ]
    tried = {(str(r.point.mesh), r.point.global_batch_size) for r in fake.stored()}
    assert tried == {
        *((small, batch) for batch in (32, 64, 128, 96, 80)),
        *((large, batch) for batch in (32, 16)),
    }
    before = len(fake.stored())
    again, told = searched(*points)
    assert (again, told.statuses) == (sweep, summary.statuses)
    assert len(fake.stored()) == before, "all of it is stored"


def test_what_is_no_answer_ends_the_search_and_is_shown(
    fake: "Fake", tpu: MakePoint, searched: Callable[..., tuple[Sweep, RunSummary]]
):
    fake.behave({"1/fsdp=16 B=64": {"do": "signal", "signal": "SIGABRT"}})
    sweep, summary = searched(tpu("1/fsdp=16"), tpu("1/tensor=16"))
    rows = compiled_rows(sweep, summary)
    assert [(row.global_batch_size, row.status) for row in rows] == [
        (32, "ok"),
        (64, "crash"),
        (2, "invalid"),
    ]


def test_a_run_that_is_not_final_ends_the_search(
    fake: "Fake", tpu: MakePoint, searched: Callable[..., tuple[Sweep, RunSummary]]
):
    fake.behave({"1/fsdp=16 B=64": {"do": "exit", "code": 143}})
    sweep, _ = searched(tpu("1/fsdp=16"))
    assert [point.global_batch_size for point in sweep.points] == [32]


def test_the_closed_form_begins_where_it_has_the_limit(tpu: MakePoint):
    def at(multiple: int) -> Point:
        return tpu("1/fsdp=16", 16 * multiple, model="llama3-8b", remat="full")

    guess = largest_batch._guess(at)
    fits = [
        largest_batch.predict(at(each), largest_batch.hardware.chip("v5e")).fits
        for each in (guess, guess + 1)
    ]
    assert fits == [True, False]
    assert largest_batch._guess(lambda each: tpu("1/tensor=16", each)) == 1
