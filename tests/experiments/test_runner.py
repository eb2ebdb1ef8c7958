"""What each kind of run becomes, with a worker that behaves as the test says."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

import pytest

from experiments import cores
from experiments import execution
from experiments import host_memory
from experiments import plan
from experiments import process
from experiments import watch
from experiments.launch import local
from experiments.measuring import Measuring
from experiments.places import Places
from experiments.summary import Account
from meshes.hardware import CHIPS
from scaling.measurement import Measurement
from scaling.point import Point

if TYPE_CHECKING:
    from conftest import Fake

MakePoint = Callable[..., Point]


def run_one(fake: "Fake", point: Point, behaviour: object, **options: Any):
    fake.behave({"*": behaviour})
    fake.run(point, **options)
    return fake.only_run()


def running(run: str) -> list[str]:
    """Returns the processes that carry the mark of a run."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if run.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_a_run_that_goes_well_keeps_every_sample(fake: "Fake", make_point: MakePoint):
    run = run_one(fake, make_point("1/data=2"), {"blocks": 4, "after": 3})
    assert (run.status, run.reason, run.provenance) == ("ok", None, "measured")
    assert [block.steps for block in run.blocks] == [2] * 4
    assert all(len(block.elapsed_s) == 1 for block in run.blocks)
    assert run.warm_up_s == (0.002,) * 3
    assert run.losses == ((1, 6.0), (2, 6.0), (3, 6.0))
    assert run.compilations_in_window == 0
    assert run.memory.peak_host_bytes == 1000
    assert run.memory.peak_device_bytes is None
    (only,) = run.processes
    assert (only.exit_code, only.last_step, only.cores) == (0, 11, (0, 1))
    assert run.environment.device_kind == "cpu"
    assert run.environment.num_cores == cores.num_cores()


def test_phases_follow_each_other_from_spawn_to_exit(
    fake: "Fake", make_point: MakePoint
):
    run = run_one(fake, make_point(), {"start_s": 0.2, "step_s": 0.02})
    assert list(run.phases_s) == [
        "start", "devices", "data", "state", "compile", "warm_up", "timed", "finish"
    ]  # fmt: skip
    assert run.phases_s["start"] >= 0.2
    assert run.phases_s["timed"] >= sum(max(block.elapsed_s) for block in run.blocks)
    assert run.phases_s["finish"] > 0


def test_two_slices_are_two_processes_with_cores_of_their_own(
    fake: "Fake", make_point: MakePoint
):
    run = run_one(fake, make_point("data=2/1"), [{"step_s": 0.002}, {"step_s": 0.01}])
    assert run.status == "ok"
    assert [each.cores for each in run.processes] == [(0,), (1,)]
    assert [block.elapsed_s for block in run.blocks] == [(0.004, 0.02)] * 3


def test_more_devices_than_cores_is_simulated_and_run_once(
    fake: "Fake", make_point: MakePoint
):
    fake.run(make_point("1/data=4"), make_point("1/data=2"), repeats=3)
    runs = fake.stored()
    simulated = [run for run in runs if run.provenance == "simulated"]
    assert len(runs) == 4
    assert [run.point.mesh.num_devices for run in simulated] == [4]
    assert simulated[0].processes[0].cores is None


FAILED = {"status": "out_of_memory", "reason": "no room", "phase": "compile"}


@pytest.mark.parametrize(
    ("behaviour", "status", "said"),
    [
        ({"do": "signal", "signal": "SIGSEGV"}, "crash", "SIGSEGV after step 2"),
        ({"do": "signal", "signal": "SIGABRT"}, "crash", "SIGABRT after step 2"),
        ({"do": "signal", "signal": "SIGKILL"}, "crash", "SIGKILL after step 2"),
        ({"do": "signal", "signal": "SIGTERM"}, "preempted", "from outside"),
        ({"do": "exit", "code": 143}, "preempted", "from outside"),
        ({"do": "exit", "code": 3, "say": "KeyError: 'x'"}, "error", "KeyError: 'x'"),
        ({"do": "exit_early"}, "error", "without having finished"),
        ({"do": "failed", "failed": FAILED}, "out_of_memory", "no room"),
        (
            {"do": "failed", "failed": {"status": "wrong_platform", "reason": "a GPU"}},
            "wrong_platform",
            "a GPU",
        ),
        (
            {"do": "exit", "code": 1, "say": "F1 x] Unknown flag in XLA_FLAGS: --a"},
            "bad_flag",
            "--a",
        ),
        ({"compilations": 1}, "error", "within the timed window"),
        ({"num_devices": 7}, "error", "reported 7 devices"),
        ({"malformed": True}, "error", "no events"),
        ({"blocks": 0}, "error", "without a timed window"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_goes_wrong_is_a_status_with_a_reason(
    fake: "Fake",
    make_point: MakePoint,
    behaviour: dict[str, object],
    status: str,
    said: str,
):
    # Preempted is tried again, so the first record is looked at.
    fake.behave({"*": behaviour})
    fake.run(make_point())
    run = fake.stored()[0]
    assert run.status == status
    assert said in str(run.reason)
    assert "\n" not in str(run.reason)
    assert run.phase == ("compile" if status == "out_of_memory" else None)


def test_a_run_that_failed_keeps_what_it_had_measured(
    fake: "Fake", make_point: MakePoint
):
    run = run_one(fake, make_point(), {"do": "signal", "signal": "SIGSEGV", "after": 5})
    assert len(run.warm_up_s) == 5
    assert list(run.phases_s)[-1] == "compile"
    assert run.processes[0].exit_code == -signal.SIGSEGV


@pytest.mark.parametrize(
    ("do", "reason"),
    [
        ("hang", "no step finished for 3 s; last step: 2"),
        ("hang_at_exit", "finished, but did not exit within 3 s"),
    ],
)
def test_no_step_for_too_long_is_a_hang(
    fake: "Fake", make_point: MakePoint, do: str, reason: str
):
    run = run_one(fake, make_point(), {"do": do}, hang_s=3.0)
    assert (run.status, run.reason) == ("hang", reason)
    assert run.processes[0].collateral


def test_two_that_hang_have_given_nobody_up(fake: "Fake", make_point: MakePoint):
    run = run_one(fake, make_point("data=2/1"), {"do": "hang"}, hang_s=3.0)
    assert run.reason == (
        "no step finished for 3 s; last steps: process 0: 2, process 1: 2"
    )
    assert [each.collateral for each in run.processes] == [True, True]


@pytest.mark.parametrize("behaviour", [{"do": "never"}, {"after": 10_000}])
def test_the_limit_of_a_run_is_a_timeout(
    fake: "Fake",
    make_point: MakePoint,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: dict[str, object],
):
    # However slow the machine, a worker that ends when asked is not killed.
    monkeypatch.setattr(process, "TERM_GRACE_S", 60.0)
    run = run_one(fake, make_point(), behaviour, timeout_s=0.6)
    assert run.status == "timeout"
    assert str(run.reason).startswith("not done after 0.6 s")
    assert run.processes[0].exit_code == -signal.SIGTERM


def test_one_that_ignores_sigterm_is_killed_with_its_children(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.3)
    behaviour = {"do": "hang", "ignore_term": True, "children": ["same", "own"]}
    run = run_one(fake, make_point(), behaviour, hang_s=0.5)
    assert run.processes[0].exit_code == -signal.SIGKILL
    assert running(run.run) == []


def test_children_that_a_good_run_leaves_are_ended_too(
    fake: "Fake", make_point: MakePoint
):
    run = run_one(fake, make_point(), {"children": ["same", "own"]})
    assert run.status == "ok"
    assert running(run.run) == []


def test_the_first_process_to_end_is_the_root_and_the_other_collateral(
    fake: "Fake", make_point: MakePoint
):
    behaviours = [{"do": "hang"}, {"do": "signal", "signal": "SIGKILL"}]
    run = run_one(fake, make_point("data=2/1"), behaviours)
    assert run.status == "crash"
    assert str(run.reason).startswith("process 1 was ended by SIGKILL")
    assert [each.collateral for each in run.processes] == [True, False]


def test_a_process_that_aborts_is_the_root_and_not_the_one_we_then_end(
    fake: "Fake", make_point: MakePoint
):
    behaviours = [{"do": "hang"}, {"do": "signal", "signal": "SIGABRT"}]
    run = run_one(fake, make_point("data=2/1"), behaviours)
    assert run.status == "crash"
    assert str(run.reason).startswith("process 1 was ended by SIGABRT")
    assert [each.collateral for each in run.processes] == [True, False]


def test_the_reason_is_from_the_log_of_the_process_to_blame(
    fake: "Fake", make_point: MakePoint
):
    behaviours = [
        {"do": "hang", "say": "ValueError: innocent"},
        {"do": "exit", "code": 1, "say": "ValueError: guilty"},
    ]
    run = run_one(fake, make_point("data=2/1"), behaviours)
    assert str(run.reason).endswith("ValueError: guilty")
    (log,) = fake.folder.glob("*.log")
    assert log.name == f"{run.id}.{run.run}.log"
    assert "guilty" in log.read_text()


def test_endless_output_neither_blocks_nor_fills_the_disk(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "MAX_LOG_BYTES", 20_000_000)
    run = run_one(fake, make_point(), {"megabytes": 300, "say": "ValueError: early"})
    assert run.status == "ok"
    (log,) = fake.folder.glob("*.log")
    assert log.stat().st_size <= 20_000_000
    assert b"the runner cut this log here" in log.read_bytes()


def test_a_long_log_is_cut_although_the_run_ends_before_anyone_looks(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "MAX_LOG_BYTES", 3_000_000)

    def late(workers: list[process.WorkerProcess], **options: Any) -> watch.Ending:
        for worker in workers:
            process.wait_readable(worker.exit_descriptors(), timeout_s=60)
        return watch.watch(workers, **options)

    monkeypatch.setattr(execution, "watch", late)
    # Said before the rest, and still the reason; cut off after that.
    behaviour = {"do": "exit", "code": 1, "megabytes": 4, "say": "ValueError: early"}
    run = run_one(fake, make_point(), behaviour)
    assert "ValueError: early" in str(run.reason)
    (log,) = fake.folder.glob("*.log")
    assert log.stat().st_size < 1_100_000
    assert b"the runner cut this log here" in log.read_bytes()


def test_a_worker_that_cannot_be_started_is_an_error(
    fake: "Fake", make_point: MakePoint
):
    fake.run(make_point(), worker_command=["/nonexistent/python"])
    run = fake.only_run()
    assert run.status == "error"
    assert "/nonexistent/python" in str(run.reason)


PORT_TAKEN = {
    "do": "exit",
    "code": 1,
    "say": "RuntimeError: Failed to start RPC server",
    "before": "devices",
}


def test_a_taken_port_is_tried_once_more(
    fake: "Fake", make_point: MakePoint, tmp_path: Path
):
    once = {**PORT_TAKEN, "once": str(tmp_path / "taken")}
    run = run_one(fake, make_point("data=2/1"), [once, {"do": "ok"}])
    assert run.status == "ok"
    assert os.listdir(fake.folder).count(f"{run.id}.{run.run}.json") == 1
    assert list(fake.folder.glob("*.log")) == []


def test_a_port_that_is_taken_again_is_an_error(fake: "Fake", make_point: MakePoint):
    run = run_one(fake, make_point("data=2/1"), [PORT_TAKEN, {"do": "ok"}])
    assert run.status == "error"
    assert str(run.reason).endswith("Failed to start RPC server")
    (log,) = fake.folder.glob("*.log")
    assert log.name == f"{run.id}.{run.run}.log"


def test_where_a_second_process_cannot_be_started_none_is_left(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    started = []

    def start(*args: Any, **kwargs: Any) -> process.WorkerProcess:
        if started:
            raise OSError("no more processes")
        started.append(process.WorkerProcess(*args, **kwargs))
        return started[0]

    monkeypatch.setattr(local, "WorkerProcess", start)
    before = pipes()
    # Wherever it is when the runner ends it, its log says something.
    behaviour = {"*": [{"do": "hang", "say": "here"}, {}]}
    fake.behave(behaviour)

    def ended_late(workers: list[process.WorkerProcess]) -> None:
        deadline = time.monotonic() + 60
        while not workers[0].log.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.end_all(workers)

    monkeypatch.setattr(local, "end_all", ended_late)
    fake.run(make_point("data=2/1"))
    run = fake.only_run()
    assert run.status == "error"
    assert "no more processes" in str(run.reason)
    assert started[0].ended
    assert pipes() == before
    # The log of the one that did start belongs to the record.
    assert [path.name for path in fake.folder.glob("*.log")] == [
        f"{run.id}.{run.run}.log"
    ]


def test_a_process_that_cannot_be_started_leaves_no_pipe(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    def no_more(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    before = pipes()
    monkeypatch.setattr(process.subprocess, "Popen", no_more)
    fake.run(make_point())
    assert "no more processes" in str(fake.only_run().reason)
    assert pipes() == before


def pipes() -> int:
    """Returns how many ends of pipes this process has open."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += os.readlink(descriptor).startswith("pipe:")
    return count


def test_a_sweep_goes_on_after_every_kind_of_failure(
    fake: "Fake", make_point: MakePoint
):
    fake.behave(
        {
            "1/1 B=1": {"do": "hang"},
            "1/1 B=2": {"do": "signal", "signal": "SIGABRT"},
            "1/1 B=3": {"do": "never"},
            "1/1 B=4": {"do": "exit", "code": 1},
        }
    )
    points = [make_point("1/1", batch) for batch in range(1, 6)]
    summary = fake.run(*points, hang_s=5.0, timeout_s=15.0)
    statuses = [summary.statuses[point.id] for point in points]
    assert statuses == ["hang", "crash", "timeout", "error", "ok"]
    assert summary.exit_code() == 0
    assert summary.exit_code(strict=True) == 3


def test_an_infeasible_point_is_invalid_without_a_process(
    fake: "Fake", make_point: MakePoint
):
    fake.run(make_point("1/data=3", batch=8), worker_command=["/nonexistent"])
    run = fake.only_run()
    assert run.status == "invalid"
    assert "8" in str(run.reason)
    assert run.processes == ()
    fake.run(make_point("1/data=3", batch=8))
    assert len(fake.stored()) == 1


def test_several_slices_of_a_chip_without_a_launcher_are_invalid(
    fake: "Fake", make_point: MakePoint
):
    point = make_point("data=2/fsdp=4", chip="v5e", slice_shape=(2, 2))
    fake.run(point)
    run = fake.only_run()
    assert run.status == "invalid"
    assert "launcher" in str(run.reason)


def test_what_needs_more_memory_than_the_host_has_is_out_of_it_without_a_process(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(host_memory, "host_memory_bytes", lambda: 1_000_000)
    point = make_point("1/data=2")
    fake.run(point, worker_command=["/nonexistent"])
    run = fake.only_run()
    assert (run.status, run.phase, run.processes) == ("out_of_memory", "host", ())
    assert "its 2 devices need at least" in str(run.reason)
    (planned,) = plan.plan(fake.sweep((point,)), CHIPS)
    assert (planned.status, planned.phase, planned.reason) == (
        run.status,
        run.phase,
        run.reason,
    )
    assert fake.run(point).stored == {}


def test_a_host_that_has_the_memory_now_runs_what_it_had_not(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(host_memory, "host_memory_bytes", lambda: 1_000_000)
        assert fake.run(make_point()).stored == {"out_of_memory": 1}
    assert fake.run(make_point()).stored == {"ok": 1}


def test_out_of_memory_that_a_worker_met_stays(fake: "Fake", make_point: MakePoint):
    run = run_one(fake, make_point(), {"do": "failed", "failed": FAILED})
    assert run.status == "out_of_memory"
    assert fake.run(make_point()).stored == {}


def test_an_invalid_point_whose_reason_is_gone_is_run(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(local, "why_not", lambda _: "no launcher yet")
        assert fake.run(make_point()).stored == {"invalid": 1}
        assert fake.run(make_point()).stored == {}
    summary = fake.run(make_point())
    assert summary.stored == {"ok": 1}
    assert summary.statuses == {make_point().id: "ok"}


def test_a_skipped_point_is_run_once_nothing_dominates_it(
    fake: "Fake", make_point: MakePoint
):
    failed = {"status": "out_of_memory", "reason": "no room", "phase": "run"}
    fake.behave({"1/1 B=8": {"do": "failed", "failed": failed}})
    small, large = make_point("1/1", 8), make_point("1/1", 16)
    fake.run(small)
    assert fake.run(small, large).stored == {"skipped": 1}
    # What it was skipped for is not in this command, and is as true as it was.
    assert fake.run(small, large, only=[large.id]).stored == {}
    fake.behave({})
    assert fake.run(small, retry=["out_of_memory"]).stored == {"ok": 1}
    assert fake.run(small, large).stored == {"ok": 1}


class UnkeepableError(Exception):
    pass


def test_a_run_is_stored_before_its_log_is_kept(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    def failing(*_: object) -> None:
        raise UnkeepableError("the bucket is gone")

    monkeypatch.setattr(Places, "_keep_log", failing)
    run = run_one(fake, make_point(), {"say": "a word"})
    assert run.status == "ok"
    assert "could not be kept: the bucket is gone" in fake.output.getvalue()


def test_an_end_between_storing_and_clearing_up_loses_no_run(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    def killed(*_: object) -> None:
        raise UnkeepableError

    monkeypatch.setattr(Places, "keep_log", killed)
    with pytest.raises(UnkeepableError):
        fake.run(make_point())
    assert fake.only_run().status == "ok"


def test_larger_batches_than_one_without_room_are_skipped(
    fake: "Fake", make_point: MakePoint
):
    failed = {"status": "out_of_memory", "reason": "no room", "phase": "run"}
    fake.behave({"1/1 B=8": {"do": "failed", "failed": failed}})
    small, other = make_point("1/1", 8), make_point("1/1", 16, remat="full")
    fake.run(small)
    fake.run(small, make_point("1/1", 16), other, make_point("1/1", 4), repeats=2)
    by_id: dict[str, list[Measurement]] = {}
    for run in fake.stored():
        by_id.setdefault(run.id, []).append(run)
    statuses = {id_: [run.status for run in runs] for id_, runs in by_id.items()}
    assert statuses == {
        small.id: ["out_of_memory"],
        make_point("1/1", 16).id: ["skipped"],
        other.id: ["ok", "ok"],
        make_point("1/1", 4).id: ["ok", "ok"],
    }
    (skipped,) = by_id[make_point("1/1", 16).id]
    assert f"dominated by {small.id}" in str(skipped.reason)


def test_repeats_are_counted_over_several_commands(fake: "Fake", make_point: MakePoint):
    points = make_point("1/1"), make_point("1/data=2")
    assert fake.run(*points, repeats=2).stored == {"ok": 4}
    assert fake.run(*points, repeats=2).stored == {}
    assert fake.run(*points, repeats=3, only=[points[0].id]).stored == {"ok": 1}
    assert fake.run(*points, repeats=3).stored == {"ok": 1}


def test_runs_of_another_environment_stay_and_do_not_count(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    fake.run(make_point())
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    fake.run(make_point())
    first, second = fake.stored()
    assert first.environment.flags == {}
    assert second.environment.flags == {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}
    assert fake.run(make_point()).stored == {}


def test_what_keeps_stored_runs_from_counting_is_said(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    point = make_point()
    fake.run(point)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    fake.run(point)
    said = fake.output.getvalue()
    assert (
        "1 stored run of another environment stays and will not be pooled with "
        "today's (XLA_FLAGS)" in said
    )
    assert said.count("another environment") == 1


def test_what_is_not_attached_is_looked_for_once(fake: "Fake", make_point: MakePoint):
    failed = {"status": "wrong_platform", "reason": "no TPU here"}
    fake.behave({"*": {"do": "failed", "failed": failed}})
    points = [make_point("1/1", batch) for batch in (1, 2, 3)]
    summary = fake.run(*points, repeats=2)
    assert set(summary.statuses.values()) == {"wrong_platform"}
    looked, *others = sorted(fake.stored(), key=lambda run: run.started_at)
    assert len(looked.processes) == 1
    assert len(others) == 2
    for run in others:
        assert run.processes == ()
        assert run.reason == f"as point {looked.id}: no TPU here"
    fake.behave({})
    again = fake.run(*points, retry=["wrong_platform"])
    assert set(again.statuses.values()) == {"ok"}


def test_simulated_runs_do_not_count_once_there_are_cores(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cores, "available_cores", lambda: (0,))
    fake.run(make_point("1/data=2"))
    monkeypatch.setattr(cores, "available_cores", lambda: (0, 1))
    fake.run(make_point("1/data=2"))
    assert [run.provenance for run in fake.stored()] == ["simulated", "measured"]


def test_retry_repeats_what_ended_so_and_nothing_else(
    fake: "Fake", make_point: MakePoint
):
    points = make_point("1/1", 8), make_point("1/1", 16)
    fake.behave({"1/1 B=8": {"do": "exit", "code": 1}})
    fake.run(*points)
    fake.behave({})
    assert fake.run(*points).stored == {}
    summary = fake.run(*points, retry=["error"])
    assert summary.stored == {"ok": 1}
    assert summary.statuses == {point.id: "ok" for point in points}
    assert [run.status for run in fake.stored() if run.id == points[0].id] == [
        "error",
        "ok",
    ]


def test_a_preempted_run_is_made_again_at_the_end_and_by_the_next_command(
    fake: "Fake", make_point: MakePoint
):
    fake.behave({"1/1 B=8": {"do": "exit", "code": 143}})
    points = make_point("1/1", 8), make_point("1/1", 16)
    summary = fake.run(*points)
    assert summary.stored == {"preempted": 2, "ok": 1}
    assert fake.stored()[-1].status == "preempted"
    assert summary.statuses[points[0].id] is None
    fake.behave({})
    assert fake.run(*points).stored == {"ok": 1}


def test_max_time_stops_between_runs(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    # By this clock every run takes ten seconds, however long it does take.
    clock = property(lambda account: 10.0 * sum(account.stored.values()))
    monkeypatch.setattr(Account, "wall_s", clock)
    points = [make_point("1/1", batch) for batch in (1, 2, 3, 4)]
    summary = fake.run(*points, max_time_s=15.0)
    assert summary.stored == {"ok": 2}
    assert summary.num_left == 2
    assert " still due; the same command goes on" in fake.output.getvalue()


def test_data_is_prepared_once_and_a_failure_is_the_points_own(
    fake: "Fake", make_point: MakePoint, tmp_path: Path
):
    script = tmp_path / "prepare.sh"
    script.write_text(
        'echo "$2 $3" >> "$1/calls"\n'
        '[ "$3" = bad ] && { echo "ValueError: no such data" >&2; exit 2; }\nexit 0\n'
    )
    good = [make_point("1/1", batch, data="text") for batch in (8, 16)]
    bad = make_point("1/1", 8, data="bad")
    summary = fake.run(*good, bad, work=Measuring(["sh", str(script)]), repeats=2)
    assert sorted((fake.results / ".data" / "calls").read_text().splitlines()) == [
        "64 bad",
        "64 text",
    ]
    assert summary.stored == {"ok": 4, "error": 1}
    (error,) = [run for run in fake.stored() if run.status == "error"]
    assert error.reason == "data 'bad' could not be prepared: ValueError: no such data"


def test_preparing_data_has_a_limit(fake: "Fake", make_point: MakePoint):
    point = make_point(data="text")
    fake.run(point, work=Measuring(["sh", "-c", "sleep 100"]), timeout_s=0.5)
    assert "not done after 0.5 s" in str(fake.only_run().reason)


def test_progress_has_a_line_for_each_run_with_the_time_left(
    fake: "Fake", make_point: MakePoint
):
    fake.behave({"1/1 B=16": {"do": "exit", "code": 1, "say": "ValueError: no"}})
    fake.run(make_point("1/1"), make_point("1/1", 16), make_point("1/data=3", 8))
    lines = fake.output.getvalue().splitlines()
    (good,) = [line for line in lines if " ms " in line]
    assert good[:4] in ("1/2 ", "2/2 ")
    assert "cpu  1/1       B=8" in good
    assert good.endswith(" left)")
    (bad,) = [line for line in lines if "ValueError: no" in line]
    assert "error: the worker ended with exit code 1" in bad
    assert any("invalid: " in line for line in lines)
    assert any(" of which harness " in line for line in lines)


def test_a_long_run_says_that_it_goes_on_where_there_is_no_terminal(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("experiments.progress._PLAIN_EVERY_S", 0.3)
    fake.behave({"*": {"start_s": 1.2}})
    fake.run(make_point())
    waiting = [line for line in fake.output.getvalue().splitlines() if " for " in line]
    assert waiting
    assert all(" left)" in line for line in waiting)


def test_what_the_shell_sets_and_a_worker_does_not_get_is_said(
    fake: "Fake", make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    fake.run(make_point())
    assert "JAX_PLATFORMS=cuda of this shell is not passed on" in fake.output.getvalue()


def test_unread_files_are_named(fake: "Fake", make_point: MakePoint):
    fake.folder.mkdir(parents=True)
    (fake.folder / "strange.json").write_text("{")
    fake.run(make_point())
    assert "not read: " in fake.output.getvalue()
    assert "strange.json" in fake.output.getvalue()
