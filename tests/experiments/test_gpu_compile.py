"""Compiling for absent GPUs by XLA's GPU compiler: `make test-gpu-compile` runs it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from experiments.compiled_rows import CompiledPoint
from experiments.compiled_rows import compiled_rows
from meshes.targets import GPU_TARGETS
from models.counts import executed_flops_per_token
from models.presets import MODELS
from scaling.analytic import cost
from scaling.point import Point

if TYPE_CHECKING:
    from conftest import Fake

pytestmark = pytest.mark.gpu_compile

MakePoint = Callable[..., Point]


@pytest.fixture
def compiled(fake: "Fake") -> Callable[..., CompiledPoint]:
    """Returns the row of a point that the real compiler was given, in a worker."""

    def compile_(point: Point) -> CompiledPoint:
        summary = fake.compile(point, worker_command=None, timeout_s=500)
        (row,) = compiled_rows(fake.sweep((point,)), summary)
        return row

    return compile_


@pytest.fixture
def gpu(make_point: MakePoint) -> MakePoint:
    """Returns `(mesh, batch=64, chip="h100-sxm", **fields) -> Point`: tiny."""

    def point(mesh: str, batch: int = 64, **fields: object) -> Point:
        usual = {"chip": "h100-sxm", "seq_len": 256, "compute_dtype": "bfloat16"}
        return make_point(mesh, batch, **{**usual, **fields})

    return point


@pytest.mark.parametrize("chip", [each.chip for each in GPU_TARGETS])
def test_one_domain_of_every_gpu(
    compiled: Callable[..., CompiledPoint], gpu: MakePoint, chip: str
):
    point = gpu("1/fsdp=4,tensor=2", chip=chip, remat="full")
    row = compiled(point)
    assert (row.status, row.reason) == ("ok", None)
    predicted = row.predicted
    assert predicted is not None
    per_token = executed_flops_per_token(MODELS["tiny"], 256, remat="full")
    assert predicted.executed_flops == pytest.approx(
        point.tokens_per_step / 8 * per_token, rel=0.02
    )
    assert predicted.unpriced == ()
    assert predicted.step_time_s is not None
    assert {each.network for each in predicted.collectives} == {"ici"}


def test_two_nodes_meet_over_the_network_between_them(
    compiled: Callable[..., CompiledPoint], gpu: MakePoint
):
    row = compiled(gpu("data=2/fsdp=8"))
    assert row.predicted is not None
    crossing = {
        each.axes for each in row.predicted.collectives if each.network == "dcn"
    }
    assert ("data",) in crossing
    # Gradients are all-reduced over both axes at once and cut afterwards.
    (one,) = row.predicted.differences
    assert one.name == "bytes over ici along fsdp"


def test_cudnn_attention_has_the_flops_of_the_closed_form(
    compiled: Callable[..., CompiledPoint], gpu: MakePoint
):
    point = gpu("1/fsdp=4", 32, attention="cudnn")
    row = compiled(point)
    assert (row.status, row.reason) == ("ok", None)
    assert row.predicted is not None
    assert row.predicted.unpriced == ()
    assert row.predicted.executed_flops == pytest.approx(
        cost(point).executed_flops, rel=0.02
    )


def test_what_does_not_fit_is_out_of_memory_though_the_compiler_accepts_it(
    compiled: Callable[..., CompiledPoint], gpu: MakePoint
):
    row = compiled(gpu("1/fsdp=8", model="llama3-8b", seq_len=8192, batch=64))
    assert (row.status, row.phase) == ("out_of_memory", "compile")
    assert row.needed_bytes is not None
    assert row.needed_bytes > 84_942_979_072
    assert row.predicted is None
