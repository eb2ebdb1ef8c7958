import argparse
import json

import pytest

from experiments import cli
from experiments.calibrate import CalibrationError
from experiments.calibrated import calibration_path
from experiments.calibrated import read_chip
from experiments.calibrated import write_chip
from experiments.commands import calibrate as calibrate_command
from experiments.commands import plan as plan_command
from experiments.commands import run as run_command
from experiments.summary import RunSummary
from experiments.usage import UsageError
from meshes.chip import Chip
from meshes.hardware import chip

pytestmark = pytest.mark.fast


def summary(**fields):
    return RunSummary(
        **{
            "sweep": "cpu_quick",
            "folder": "results/cpu_quick",
            "seed": "s",
            "statuses": {"a": "ok", "b": "ok"},
            "stored": {"ok": 2},
            "wall_s": 10.0,
            "useful_s": 9.0,
            "parts_s": {"planning": 1.0},
            **fields,
        }
    )


@pytest.fixture
def runner(monkeypatch):
    """Stands in for the runner and records what it was asked for."""

    class Runner:
        result = summary()
        asked = None

        def __call__(self, sweep, **arguments):
            self.asked = arguments | {"sweep": sweep}
            return self.result

    found = Runner()
    monkeypatch.setattr("experiments.runner.run_sweep", found)
    return found


def run(*arguments):
    args = cli.parsed(["run", *arguments])
    assert isinstance(args, argparse.Namespace)
    return run_command.run(args)


def test_run_passes_on_what_it_was_given(runner):
    code = run(
        *("cpu_quick", "--results", "r", "--repeats", "2", "--timeout_s", "60"),
        *("--hang_s", "5.5", "--max_time_s", "100", "--retry", "hang"),
        *("--retry", "timeout"),
    )
    assert code == 0
    assert runner.asked is not None
    assert runner.asked.pop("sweep").name == "cpu_quick"
    assert runner.asked == {
        "results": "r",
        "repeats": 2,
        "timeout_s": 60.0,
        "hang_s": 5.5,
        "max_time_s": 100.0,
        "only": [],
        "retry": ("hang", "timeout"),
    }


def test_points_by_flags_are_the_sweep_adhoc(runner):
    run("--model", "tiny", "--chip", "cpu", "--mesh", "1/1", "--batch", "4")
    assert runner.asked is not None
    assert runner.asked["sweep"].name == "adhoc"


@pytest.mark.parametrize(
    ("fields", "flags", "code"),
    [
        ({}, (), 0),
        ({}, ("--strict",), 0),
        ({"statuses": {"a": "ok", "b": "hang"}}, (), 0),
        ({"statuses": {"a": "ok", "b": "hang"}}, ("--strict",), 3),
        ({"interrupted_by": 2}, (), 130),
    ],
)
def test_exit_codes_of_run(runner, fields, flags, code):
    runner.result = summary(**fields)
    assert run("cpu_quick", *flags) == code


def test_run_prints_one_json_document(runner, capsys):
    run("cpu_quick", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["statuses"] == {"a": "ok", "b": "ok"}
    assert found["overhead_s"] == pytest.approx(1.0)
    assert found["overhead_fraction"] == pytest.approx(0.1)


def test_run_without_a_point_that_can_is_2_after_the_json(runner, capsys):
    runner.result = summary(statuses={"a": "invalid", "b": "invalid"})
    with pytest.raises(UsageError, match="no point can run"):
        run("cpu_quick", "--json")
    assert json.loads(capsys.readouterr().out)["statuses"]["a"] == "invalid"


def test_a_busy_folder_is_the_users_to_solve(monkeypatch):
    from experiments.lock import FolderBusyError

    def busy(*_, **__):
        raise FolderBusyError("another run is writing to results")

    monkeypatch.setattr("experiments.runner.run_sweep", busy)
    with pytest.raises(UsageError, match="another run"):
        run("cpu_quick")


def test_a_full_disk_is_said_without_a_traceback(monkeypatch):
    from experiments.store import NotStoredError

    def full(*_, **__):
        raise NotStoredError("run a.b could not be stored in results: no space")

    monkeypatch.setattr("experiments.runner.run_sweep", full)
    with pytest.raises(UsageError, match="could not be stored"):
        run("cpu_quick")


@pytest.fixture
def calibrated(monkeypatch):
    """Stands in for the measuring of this host."""
    found = chip("cpu").model_copy(
        update={"matmul_flops_per_s": {"float32": 40e9}, "hbm_bytes_per_s": 8e9}
    )
    monkeypatch.setattr("experiments.calibrate.calibrate", lambda: found)
    return found


def calibrate(*arguments):
    return calibrate_command.run(cli.parsed(["calibrate", *arguments]))


def test_calibrate_stores_what_it_prints(calibrated, tmp_path, capsys):
    assert calibrate("--results", str(tmp_path), "--json") == 0
    captured = capsys.readouterr()
    assert Chip.model_validate(json.loads(captured.out)) == calibrated
    path = calibration_path(str(tmp_path), "cpu")
    assert read_chip(path) == calibrated
    assert str(path) in captured.err
    # No half-written file is left beside it.
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_plan_uses_and_names_the_calibration_of_this_host(
    calibrated, tmp_path, capsys
):
    results = str(tmp_path)
    calibrate("--results", results)
    capsys.readouterr()
    plan_command.run(cli.parsed(["plan", "cpu_quick", "--json", "--results", results]))
    captured = capsys.readouterr()
    assert str(calibration_path(results, "cpu")) in captured.err
    one_device = json.loads(captured.out)[0]["predicted"]
    assert one_device["step_time_s"] > 0
    # A measured rate is no vendor's peak.
    assert one_device["mfu"] is None


def test_a_plan_takes_a_calibration_of_elsewhere(calibrated, tmp_path, capsys):
    path = tmp_path / "elsewhere.json"
    write_chip(path, calibrated)
    by_flags = ("--model", "tiny", "--mesh", "1/1", "--batch", "8")
    by_flags += ("--set", "compute_dtype=float32")
    for points in (("cpu_quick",), by_flags):
        plan_command.run(cli.parsed(["plan", "--json", *points, "--chip", str(path)]))
        captured = capsys.readouterr()
        assert json.loads(captured.out)[0]["predicted"]["step_time_s"] > 0
        assert str(path) in captured.err


def test_a_calibration_of_another_chip_is_refused(calibrated, tmp_path):
    path = tmp_path / "cpu.json"
    write_chip(path, calibrated)
    with pytest.raises(UsageError, match=r"chip 'cpu', and the points are on v5e"):
        plan_command.run(cli.parsed(["plan", "v5e_vertical", "--chip", str(path)]))
    with pytest.raises(UsageError, match=r"there is no chip file 'no\.json'"):
        plan_command.run(cli.parsed(["plan", "cpu_quick", "--chip", "no.json"]))


def test_a_host_that_cannot_be_measured_is_said_in_a_sentence(monkeypatch, tmp_path):
    def busy():
        raise CalibrationError("the machine is too busy to calibrate")

    monkeypatch.setattr("experiments.calibrate.calibrate", busy)
    with pytest.raises(UsageError, match="too busy"):
        calibrate("--results", str(tmp_path))
    assert list(tmp_path.iterdir()) == []
