"""Compiling for absent hardware: by a fake worker, and by the real TPU compiler."""

import gzip
import importlib.util
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from experiments import absent
from experiments import compiling
from experiments import environment
from experiments import store
from experiments.compiled_rows import compiled_rows
from experiments.compiled_rows import print_rows
from experiments.compiling import Compiling
from experiments.launch import local
from experiments.places import Places
from experiments.protocol import DoesNotFitError
from experiments.protocol import NoCompilerError
from experiments.worker import failure
from models.counts import executed_flops_per_token
from models.presets import MODELS
from scaling.feasibility import compiled_slice
from scaling.feasibility import why_no_target
from scaling.measurement import CompiledProgram
from scaling.point import Point

if TYPE_CHECKING:
    from conftest import Fake

MakePoint = Callable[..., Point]
GOLDEN = Path(__file__).parent.parent / "golden" / "hlo"
libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="takes the TPU compiler"
)


@pytest.fixture
def tpu(make_point: MakePoint) -> Callable[..., Point]:
    """Returns `(mesh, batch=64, **fields) -> Point`: tiny on a v5e:4x4 slice."""

    def point(mesh: str = "1/fsdp=16", batch: int = 64, **fields: object) -> Point:
        usual = {"chip": "v5e", "slice_shape": (4, 4), "seq_len": 256}
        return make_point(
            mesh, batch, **{**usual, "compute_dtype": "bfloat16", **fields}
        )

    return point


def test_a_compiled_point_keeps_its_program_and_is_not_compiled_again(
    fake: "Fake", tpu: MakePoint
):
    point = tpu()
    assert fake.compile(point, repeats=3).stored == {"ok": 1}
    run = fake.only_run()
    assert (run.provenance, run.status, run.reason) == ("compiled", "ok", None)
    assert run.compiled is not None
    # Outputs that lie in arguments are counted once.
    assert run.compiled.peak_bytes == 2000
    assert list(run.phases_s)[-2:] == ["compile", "finish"]
    assert (run.blocks, run.compilations_in_window) == ((), None)
    (text,) = fake.folder.glob("*.hlo.gz")
    assert text.name == f"{point.id}.{run.run}.hlo.gz"
    assert gzip.decompress(text.read_bytes()) == b"HloModule fake"
    assert fake.compile(point).stored == {}


def test_several_slices_are_compiled_by_one_process(fake: "Fake", tpu: MakePoint):
    fake.compile(tpu("data=2/fsdp=16"))
    run = fake.only_run()
    assert len(run.processes) == 1
    # The fake worker has 16 devices and knows of no second slice.
    assert run.reason == "process 0 reported 16 devices and the mesh has 32"


def test_measured_and_compiled_runs_of_a_point_are_apart(
    fake: "Fake", make_point: MakePoint
):
    cpu = make_point()
    fake.run(cpu)
    summary = fake.compile(cpu)
    assert summary.statuses == {cpu.id: "invalid"}
    measured, compiled = sorted(fake.stored(), key=lambda run: run.started_at)
    assert (measured.provenance, compiled.provenance) == ("measured", "compiled")
    assert compiled.reason is not None
    assert "`scaling run` measures it" in compiled.reason
    assert fake.run(cpu).stored == {}


def test_a_compiler_that_aborts_is_a_crash_and_the_next_point_compiles(
    fake: "Fake", tpu: MakePoint
):
    first, second = tpu(batch=64), tpu(batch=128)
    fake.behave({"1/fsdp=16 B=64": {"do": "signal", "signal": "SIGABRT"}})
    summary = fake.compile(first, second)
    assert summary.statuses == {first.id: "crash", second.id: "ok"}


def test_a_worker_that_compiles_is_told_of_no_tpu(tpu: MakePoint):
    user = {
        "TPU_ACCELERATOR_TYPE": "v4-8",
        "TPU_TOPOLOGY": "2x2x2",
        "CLOUD_TPU_TASK_ID": "1",
        "JAX_NUM_CPU_DEVICES": "3",
        "XLA_FLAGS": "--kept",
    }
    environ = local.worker_environ(tpu(), task="compile", mark="m", environ=user)
    assert environ["JAX_PLATFORMS"] == "cpu"
    assert environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] == "1"
    assert environ["TPU_ACCELERATOR_TYPE"] != "v4-8"
    assert environ["XLA_FLAGS"] == "--kept"
    for name in ("TPU_TOPOLOGY", "CLOUD_TPU_TASK_ID", "JAX_NUM_CPU_DEVICES"):
        assert name not in environ
    assert local.worker_environ(tpu(), mark="m", environ=user)["TPU_TOPOLOGY"]


def test_a_compiler_that_is_missing_is_named_with_what_brings_it(
    tpu: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoCompilerError) as raised:
        absent.absent_devices(tpu())
    failed = failure(raised.value, after="start")
    assert failed.status == "wrong_platform"
    assert "pip install 'scaling-toolkit[tpu]'" in failed.reason


def test_a_program_larger_than_its_device_is_out_of_memory_at_compile_time():
    error = DoesNotFitError(needed_bytes=100 * 2**30, available_bytes=79 * 2**30)
    failed = failure(error, after="state")
    assert (failed.status, failed.phase) == ("out_of_memory", "compile")
    assert failed.needed_bytes == 100 * 2**30
    assert failed.available_device_bytes == 79 * 2**30
    assert "100.0 GiB of each device, which has 79.0 GiB" in failed.reason


def test_a_program_that_cannot_be_read_is_a_row_with_a_reason(
    fake: "Fake", tpu: MakePoint
):
    point = tpu()
    summary = fake.compile(point)
    (row,) = compiled_rows(fake.sweep((point,)), summary)
    assert row.status == "ok"
    assert row.predicted is None
    assert row.reason is not None
    assert row.reason.startswith("compiled, and its program cannot be accounted for")


def test_nothing_is_left_of_a_program_whose_run_was_not_stored(
    fake: "Fake", tpu: MakePoint
):
    fake.compile(tpu())
    (kept,) = fake.folder.glob("*.hlo.gz")
    dead = fake.folder / "0123456789abcdef.0123456789ab.hlo.gz"
    dead.write_bytes(b"half")
    fake.compile(tpu())
    assert [*fake.folder.glob("*.hlo.gz")] == [kept]


def test_a_program_that_cannot_be_kept_is_compiled_again_on_request(
    fake: "Fake", tpu: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    def keep_hlo(places: Places, name: str) -> None:
        raise RuntimeError("the bucket is gone")

    with monkeypatch.context() as broken:
        broken.setattr(Places, "keep_hlo", keep_hlo)
        fake.compile(tpu())
    run = fake.only_run()
    assert (run.status, run.compiled) == ("error", None)
    assert run.reason == "the program could not be stored: the bucket is gone"
    again = fake.compile(tpu(), retry=["error"])
    assert again.stored == {"ok": 1}


def test_memory_of_this_host_says_nothing_of_larger_batches(
    fake: "Fake", tpu: MakePoint
):
    failed = {"status": "out_of_memory", "reason": "no room", "phase": "host"}
    fake.behave({"1/fsdp=16 B=64": {"do": "failed", "failed": failed}})
    small, large = tpu(batch=64), tpu(batch=128)
    fake.compile(small)
    assert fake.compile(small, large).statuses == {
        small.id: "out_of_memory",
        large.id: "ok",
    }


def test_reasons_keep_their_brackets(
    fake: "Fake", tpu: MakePoint, capsys: pytest.CaptureFixture[str]
):
    failed = {"status": "wrong_platform", "reason": "install 'x[tpu]' not [/it]"}
    fake.behave({"*": {"do": "failed", "failed": failed}})
    point = tpu()
    summary = fake.compile(point)
    sweep = fake.sweep((point,))
    print_rows(compiled_rows(sweep, summary), sweep)
    assert "install 'x[tpu]' not [/it]" in capsys.readouterr().out


def test_a_chip_without_a_known_peak_has_no_mfu_and_says_why(
    fake: "Fake", make_point: MakePoint
):
    """B200 in float32, from a program that a compiler made for another GPU."""
    point = make_point("data=2/fsdp=4", 16, chip="b200", seq_len=256)
    fake.behave({"*": {"num_devices": 8}})
    summary = fake.compile(point)
    (text,) = fake.folder.glob("*.hlo.gz")
    text.write_bytes((GOLDEN / "h100_data2_nodes.hlo.gz").read_bytes())
    (row,) = compiled_rows(fake.sweep((point,)), summary)
    assert row.predicted is not None
    assert row.predicted.mfu is None
    assert row.reason == "no peak of b200 in float32 is known, so no MFU"


@pytest.mark.parametrize("damage", [b"", b"no gzip", gzip.compress(b"x" * 9_999)[:40]])
def test_a_damaged_program_leaves_the_compilers_bytes(
    fake: "Fake", tpu: MakePoint, damage: bytes
):
    point = tpu()
    summary = fake.compile(point)
    (text,) = fake.folder.glob("*.hlo.gz")
    text.write_bytes(damage)
    (row,) = compiled_rows(fake.sweep((point,)), summary)
    assert row.predicted is None
    assert row.needed_bytes == 2000


def test_an_interrupt_before_the_first_point_prints_no_rows(
    fake: "Fake", tpu: MakePoint
):
    summary = fake.compile(tpu(), max_time_s=1e-9)
    assert compiled_rows(fake.sweep((tpu(),)), summary) == ()


def test_gpus_are_compiled_for_the_part_of_a_domain_that_the_mesh_uses(
    make_point: MakePoint,
):
    whole = make_point("data=4/fsdp=8", 64, chip="h100-sxm")
    part = make_point("1/fsdp=4", 64, chip="h100-sxm", slice_shape=(8,))
    assert (compiled_slice(whole), compiled_slice(part)) == ((8,), (4,))
    assert why_no_target(whole) is why_no_target(part) is None


def test_several_are_compiled_at_a_time(fake: "Fake", tpu: MakePoint, tmp_path: Path):
    # Each waits until the other is there.
    meeting = {"do": "ok", "meet": str(tmp_path / "met"), "number": 2}
    fake.behave({"*": meeting})
    points = [tpu(batch=batch) for batch in (16, 32, 48, 64)]
    summary = fake.compile(*points, work={"jobs": 2})
    assert summary.stored == {"ok": 4}
    assert len({run.run for run in fake.stored()}) == 4
    assert summary.useful_s < summary.wall_s
    assert "4/4" in fake.output.getvalue()


def test_a_compiler_beyond_its_memory_is_out_of_the_hosts_and_not_the_devices(
    fake: "Fake", tpu: MakePoint
):
    fake.behave({"1/fsdp=16 B=16": {"do": "devour"}})
    small, large = tpu(batch=16), tpu(batch=32)
    work = {"memory_bytes": 2**28}
    summary = fake.compile(small, work=work, timeout_s=60.0)
    assert summary.statuses == {small.id: "out_of_memory"}
    run = fake.only_run()
    assert (run.phase, run.memory.needed_bytes) == ("host", None)
    assert run.reason == (
        "took more than the 256 MiB of this host's memory that a run may take after "
        "phase 'compile'; --memory_bytes sets another limit, and --retry out_of_memory "
        "makes the run again"
    )
    assert fake.compile(small, large, work=work).stored == {"ok": 1}


def test_by_default_compilations_share_most_of_the_hosts_memory(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(compiling, "host_memory_bytes", lambda: 1000)
    assert Compiling().memory_bytes == 900
    assert Compiling(jobs=3).memory_bytes == 300
    assert Compiling(memory_bytes=70).memory_bytes == 70
    monkeypatch.setattr(compiling, "host_memory_bytes", lambda: None)
    assert Compiling().memory_bytes is None


def test_what_another_processor_compiled_counts(
    fake: "Fake", tpu: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    fake.compile(tpu())
    monkeypatch.setattr(environment, "host_cpu_model", lambda: "another processor")
    assert fake.compile(tpu()).stored == {}
    monkeypatch.setattr(environment, "code_hash", lambda sources: "changed")
    assert fake.compile(tpu()).stored == {"ok": 1}


WARNED = (
    "W1 spmd_partitioner.cc:666] [SPMD] Involuntary full rematerialization. The "
    "compiler cannot go from sharding {devices=[4]<=[4]} to {replicated} efficiently "
    'for HLO operation %copy = f32[8]{0} copy(%x), metadata={op_name="jit(step)/add"}.'
)


def test_what_the_compiler_warns_of_is_stored_and_told(
    fake: "Fake", tpu: MakePoint, capsys: pytest.CaptureFixture[str]
):
    fake.behave({"*": {"say": WARNED}})
    summary = fake.compile(tpu())
    run = fake.only_run()
    assert run.compiled is not None
    (warning,) = run.compiled.warnings
    assert warning.tensor == "%copy = f32[8]"
    sweep = fake.sweep((tpu(),))
    rows = compiled_rows(sweep, summary)
    assert rows[0].warnings == (warning,)
    print_rows(rows, sweep)
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "the partitioner replicates %copy = f32[8] (jit(step)/add) on every device to "
        "go from {devices=[4]<=[4]} to {replicated}" in told
    )


def test_a_program_stored_before_warnings_were_has_none():
    stored = dict.fromkeys(
        ("arguments", "outputs", "aliases", "temporaries", "code"), 1
    )
    fields = {f"{name}_bytes": size for name, size in stored.items()}
    program = CompiledProgram.model_validate({"program_hash": "0", **fields})
    assert program.warnings == ()


REFUSED = {
    "do": "failed",
    "failed": {"status": "out_of_memory", "reason": "no room", "phase": "compile"},
}


def test_of_skipped_points_one_at_least_is_compiled_all_the_same(
    fake: "Fake", tpu: MakePoint
):
    fake.behave({"*": REFUSED})
    points = [tpu(batch=16 * number) for number in range(1, 6)]
    fake.compile(points[0])
    summary = fake.compile(*points)
    statuses = Counter(summary.statuses.values())
    assert statuses["out_of_memory"] >= 2
    assert statuses.keys() <= {"out_of_memory", "skipped"}
    # It was audited: the next command starts nothing.
    assert fake.compile(*points).stored == {}


def test_an_audit_that_is_preempted_again_and_again_ends(
    fake: "Fake", tpu: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Compiling, "audit_every", 10**9)
    fake.behave({"1/fsdp=16 B=16": REFUSED, "*": {"do": "exit", "code": 143}})
    small, *large = [tpu(batch=16 * number) for number in range(1, 4)]
    fake.compile(small)
    summary = fake.compile(small, *large)
    # Each is tried twice, and stays skipped.
    assert summary.stored == {"skipped": 2, "preempted": 4}
    assert {summary.statuses[point.id] for point in large} == {"skipped"}


def test_where_a_larger_batch_fits_every_skipped_point_is_compiled(
    fake: "Fake", tpu: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    # A point drawn by the day's seed would be found to fit before any is skipped.
    monkeypatch.setattr(Compiling, "audit_every", 10**9)
    fake.behave({"1/fsdp=16 B=16": REFUSED})
    points = [tpu(batch=16 * number) for number in range(1, 6)]
    fake.compile(points[0])
    summary = fake.compile(*points)
    assert Counter(summary.statuses.values()) == {"ok": 4, "out_of_memory": 1}
    assert f"batch 16 of {points[0].id} did not: " in fake.output.getvalue()
    assert " made all the same" in fake.output.getvalue()


@libtpu
def test_the_real_compiler_leaves_no_kernel_without_a_price(
    fake: "Fake", tpu: MakePoint
):
    point = tpu(
        "1/fsdp=4",
        8,
        slice_shape=(2, 2),
        seq_len=1024,
        remat="full",
        attention="splash",
    )
    summary = fake.compile(point, worker_command=None, timeout_s=300)
    (row,) = compiled_rows(fake.sweep((point,)), summary)
    assert row.predicted is not None
    assert row.predicted.unpriced == ()
    assert "executed_flops" not in [each.name for each in row.predicted.differences]


@libtpu
def test_the_real_compiler_tells_bytes_and_seconds(
    fake: "Fake", tpu: MakePoint, capsys: pytest.CaptureFixture[str]
):
    """One point compiles, one does not fit; both by libtpu, in a worker."""
    fits = tpu("1/fsdp=8,tensor=2", remat="full")
    large = tpu(model="llama3-8b", seq_len=8192, batch=64, compute_dtype="float32")
    summary = fake.compile(fits, large, worker_command=None, timeout_s=300)
    assert summary.statuses == {fits.id: "ok", large.id: "out_of_memory"}
    sweep = fake.sweep((fits, large))
    compiled, refused = compiled_rows(sweep, summary)

    predicted = compiled.predicted
    assert predicted is not None
    per_token = executed_flops_per_token(MODELS["tiny"], 256, remat="full")
    assert predicted.executed_flops == pytest.approx(
        fits.tokens_per_step / 16 * per_token, rel=0.03
    )
    assert predicted.exposed_s is not None
    assert sum(predicted.exposed_s.values()) == pytest.approx(predicted.step_time_s)
    low, high = predicted.step_time_low_s, predicted.step_time_high_s
    assert low is not None
    assert high is not None
    assert low <= (predicted.step_time_s or 0) <= high
    assert {axis for each in predicted.collectives for axis in each.axes} == {
        "fsdp",
        "tensor",
    }

    assert compiled.needed_bytes is not None
    assert compiled.needed_bytes >= predicted.arguments_bytes
    assert refused.phase == "compile"
    assert refused.needed_bytes is not None
    assert refused.needed_bytes > 16e9
    runs = {run.id: run for run in store.load(fake.results).measurements}
    assert runs[fits.id].environment.device_kind == "TPU v5 lite"

    print_rows((compiled, refused), sweep)
    text = capsys.readouterr().out
    assert "…" not in text
    assert "tiny on v5e:4x4, 256 tokens, strong (compiled)" in text
    json.dumps([row.model_dump(mode="json") for row in (compiled, refused)])
