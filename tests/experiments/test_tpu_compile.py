"""Programs of `tests/golden/accountings.json` compiled again.

Six small ones in every run of the tests, by whichever libtpu is there; all of them by
`make test-compile`, which wants the libtpu that they are from.
"""

import json
from collections.abc import Callable
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

import pytest

from experiments.compiled_rows import CompiledPoint
from experiments.compiled_rows import compiled_rows
from scaling.analytic import cost
from scaling.cost import Collective
from scaling.point import Point

if TYPE_CHECKING:
    from conftest import Fake

STORED = json.loads(
    (Path(__file__).parents[1] / "golden" / "accountings.json").read_text()
)


@pytest.fixture
def compiled(fake: "Fake") -> Callable[[Point], CompiledPoint]:
    """Returns the row of a point that libtpu was given, in a worker."""

    def compile_(point: Point) -> CompiledPoint:
        summary = fake.compile(point, worker_command=None, timeout_s=900)
        (row,) = compiled_rows(fake.sweep((point,)), summary)
        return row

    return compile_


SMALL = [
    each
    for each in STORED
    if each["point"]["model"] == "mpt-1b" and each["point"].get("attention") == "splash"
]


def sent(collectives: Iterable[Collective], network: str) -> float:
    return sum(each.bytes for each in collectives if each.network == network)


def named(stored: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(each, id=str(each["point"])) for each in stored]


def test_the_small_ones_are_of_five_chips_and_two_slices():
    chips = [each["point"]["chip"] for each in SMALL]
    assert sorted(chips) == ["v4", "v5e", "v5e", "v5p", "v6e", "v7x"]
    assert any("data=2/" in each["point"]["mesh"] for each in SMALL)


@pytest.mark.parametrize("stored", named(SMALL))
def test_a_small_program_does_what_the_closed_form_says(
    compiled: Callable[[Point], CompiledPoint], stored: dict[str, Any]
):
    point = Point.model_validate(stored["point"])
    row, expected = compiled(point), cost(point)
    assert (row.status, row.reason) == ("ok", None)
    found = row.predicted
    assert found is not None
    assert found.arguments_bytes == pytest.approx(expected.arguments_bytes, rel=0.01)
    assert found.executed_flops == pytest.approx(expected.executed_flops, rel=0.02)
    assert found.peak_hbm_bytes == pytest.approx(expected.peak_hbm_bytes, rel=0.15)
    for network in ("ici", "dcn"):
        assert sent(found.collectives, network) == pytest.approx(
            sent(expected.collectives, network), rel=0.05
        )


@pytest.mark.tpu_compile
@pytest.mark.parametrize("stored", named(STORED))
def test_the_program_is_still_the_one_that_is_stored(
    compiled: Callable[[Point], CompiledPoint], stored: dict[str, Any]
):
    row = compiled(Point.model_validate(stored["point"]))
    assert (row.status, row.reason) == ("ok", None)
    predicted = row.predicted
    assert predicted is not None
    assert predicted.arguments_bytes == stored["arguments_bytes"]
    assert predicted.peak_hbm_bytes == pytest.approx(stored["peak_bytes"], rel=0.02)
    assert predicted.executed_flops == pytest.approx(stored["executed_flops"], rel=0.01)
    for network in ("ici", "dcn"):
        assert sent(predicted.collectives, network) == pytest.approx(
            stored[f"{network}_bytes"], rel=0.02
        )
