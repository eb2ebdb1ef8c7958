import argparse
import json

import pytest

from experiments import cli
from experiments.commands import run as run_command
from experiments.summary import RunSummary
from experiments.usage import UsageError

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
