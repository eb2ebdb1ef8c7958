"""Programs of `tests/golden/accountings.json` compiled again: `make test-compile`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

import pytest

from experiments.compiled_rows import CompiledPoint
from experiments.compiled_rows import compiled_rows
from scaling.point import Point

if TYPE_CHECKING:
    from conftest import Fake

pytestmark = pytest.mark.tpu_compile

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


@pytest.mark.parametrize(
    "stored", [pytest.param(each, id=str(each["point"])) for each in STORED]
)
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
        sent = sum(c.bytes for c in predicted.collectives if c.network == network)
        assert sent == pytest.approx(stored[f"{network}_bytes"], rel=0.02)
