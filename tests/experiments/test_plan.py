import os

import pytest

from experiments import host_memory
from experiments import plan as planning
from experiments.calibrated import calibration_path
from experiments.calibrated import chips_of
from experiments.protocol import Timing
from experiments.sweep import Sweep
from experiments.sweep import grid
from meshes.hardware import CHIPS
from meshes.hardware import chip
from meshes.spec import MeshSpec
from scaling.point import Point

pytestmark = pytest.mark.fast

BASE = Point(
    model="tiny",
    chip="cpu",
    mesh=MeshSpec(),
    global_batch_size=8,
    seq_len=128,
    compute_dtype="float32",
)


def sweep_of(*meshes, base=BASE, **fields):
    return Sweep(
        name="a",
        question="?",
        points=grid(base, meshes=meshes),
        **{"repeats": 3, **fields},
    )


def calibrated():
    return chip("cpu").model_copy(
        update={"matmul_flops_per_s": {"float32": 40e9}, "hbm_bytes_per_s": 8e9}
    )


def test_rows_keep_the_order_and_say_what_each_point_is():
    sweep = sweep_of("1/1", "1/tensor=4", "data=2/1")
    one, four, two = planning.plan(sweep, CHIPS)
    assert (one.status, four.status, two.status) == ("ok", "invalid", "ok")
    assert [row.id for row in (one, four, two)] == [p.id for p in sweep.points]
    assert four.reason is not None
    assert four.predicted is None
    assert (two.num_devices, two.num_slices) == (2, 2)
    assert one.reason is None
    assert one.provenance == "analytic"


def test_time_counts_runs_that_can_be_made_and_simulated_points_once(monkeypatch):
    monkeypatch.setattr(planning, "num_cores", lambda: 2)
    timing = Timing(num_blocks=10, min_block_s=0.5)
    sweep = sweep_of("1/1", "1/tensor=4", "1/data=2", "1/data=4", timing=timing)
    rows = planning.plan(sweep, CHIPS)
    run_s = planning.RUN_OVERHEAD_S["cpu"] + 10 * 0.5
    # Three runs of two points, one of the simulated, none of the invalid.
    assert planning.wall_time_s(rows, sweep) == pytest.approx(7 * run_s)


def test_a_step_longer_than_a_block_is_what_takes_the_time():
    base = BASE.model_copy(update={"global_batch_size": 4096})
    timing = Timing(num_blocks=10, min_block_s=0.1)
    sweep = sweep_of("1/1", base=base, timing=timing, repeats=1)
    (row,) = planning.plan(sweep, {"cpu": calibrated()})
    assert row.predicted is not None
    step_time_s = row.predicted.step_time_s
    assert step_time_s is not None
    assert step_time_s > 1
    assert planning.wall_time_s([row], sweep) > 10 * step_time_s


def test_a_calibration_of_this_host_replaces_the_table(tmp_path):
    results = str(tmp_path)
    sweep = sweep_of("1/1")
    assert chips_of(sweep, results) == ({"cpu": chip("cpu")}, ())
    path = calibration_path(results, "cpu")
    path.parent.mkdir()
    path.write_text(calibrated().model_dump_json())
    chips, named = chips_of(sweep, results)
    assert chips == {"cpu": calibrated()}
    assert named == (str(path),)
    (row,) = planning.plan(sweep, chips)
    assert row.predicted is not None
    assert row.predicted.step_time_s is not None


def test_a_calibration_of_another_host_does_not_hold_here(tmp_path):
    path = calibration_path(str(tmp_path), "cpu", host="another")
    path.parent.mkdir()
    path.write_text(calibrated().model_dump_json())
    assert chips_of(sweep_of("1/1"), str(tmp_path))[1] == ()


@pytest.mark.parametrize("content", ["", "{", '{"name": "cpu"}', "[]"])
def test_an_unreadable_calibration_is_named(tmp_path, content):
    path = calibration_path(str(tmp_path), "cpu")
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ValueError, match=r"is no chip that `scaling calibrate` wrote"):
        chips_of(sweep_of("1/1"), str(tmp_path))


def test_the_text_gives_reasons_and_the_time(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(planning, "num_cores", lambda: 8)
    sweep = sweep_of("1/1", "1/tensor=4", "1/data=2")
    planning.print_plan(planning.plan(sweep, CHIPS), sweep)
    text = capsys.readouterr().out
    assert "tiny on cpu, 128 tokens, strong" in text
    assert "1/tensor=4, batch 8: kv_heads 2 does not divide" in text
    assert "2 of 3 points can run; 6 runs take about" in text


def test_a_chip_without_a_figure_is_named_with_it(capsys):
    base = BASE.model_copy(update={"chip": "v2", "global_batch_size": 64})
    sweep = sweep_of("1/fsdp=8", base=base)
    planning.print_plan(planning.plan(sweep, CHIPS), sweep)
    assert "no step time on v2, nor what is limited by it: its bandwidth of ici is" in (
        capsys.readouterr().out
    )


def test_a_point_on_cpu_that_this_host_cannot_hold_is_out_of_host_memory(monkeypatch):
    monkeypatch.setattr(host_memory, "host_memory_bytes", lambda: 1_000_000)
    cpu = sweep_of("1/1")
    (row,) = planning.plan(cpu, CHIPS)
    assert (row.status, row.phase) == ("out_of_memory", "host")
    assert row.reason is not None
    assert row.reason.startswith("its device needs at least")
    assert row.predicted is not None
    assert planning.wall_time_s([row], cpu) == 0
    # Another chip's memory is its own.
    tpu = sweep_of("1/1", base=BASE.model_copy(update={"chip": "v5e"}))
    assert planning.plan(tpu, CHIPS)[0].status == "ok"


def test_calibrations_may_lie_in_a_bucket():
    path = calibration_path("gs://bucket/results", "cpu", host="h")
    assert os.fspath(path) == "gs://bucket/results/chips/h-cpu.json"


def test_what_shares_cores_is_called_simulated_and_gets_no_time(capsys, monkeypatch):
    monkeypatch.setattr(planning, "num_cores", lambda: 2)
    sweep = sweep_of("1/data=2", "1/data=4")
    chips = {"cpu": calibrated()}
    honest, simulated = planning.plan(sweep, chips)
    assert honest.predicted is not None
    assert honest.predicted.step_time_s is not None
    assert simulated.predicted is not None
    assert simulated.predicted.step_time_s is None
    assert simulated.predicted.peak_hbm_bytes > 0
    planning.print_plan((honest, simulated), sweep)
    text = capsys.readouterr().out
    assert "ok, simulated" in text
    assert "2 of 2 points can run; 4 runs take about" in text
