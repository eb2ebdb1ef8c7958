"""The status of a run and its root cause, from planted ends of its processes."""

import signal

import pytest

from experiments.outcome import Outcome
from experiments.outcome import ProcessEnd
from experiments.outcome import end_signal
from experiments.outcome import outcome
from experiments.protocol import BlockEnded
from experiments.protocol import Failed
from experiments.protocol import Finished
from experiments.protocol import Platform
from experiments.transcript import Transcript
from experiments.watch import Ending
from experiments.watch import Limits


def said(
    *, steps: tuple[int, ...] = (2, 2), num_devices: int = 2, compilations: int = 0
) -> Transcript:
    """What a process says that does everything it should."""
    transcript = Transcript(started_at_s=0.0)
    transcript.phase_ends_s = dict.fromkeys(("start", "compile", "timed"), 1.0)
    transcript.platform = Platform(
        device_kind="cpu", num_devices=num_devices, versions={}, flags={}
    )
    transcript.blocks = [
        BlockEnded(steps=each, elapsed_s=0.1, last_step=7) for each in steps
    ]
    transcript.last_step = 7
    transcript.finished = Finished(compilations_in_window=compilations)
    return transcript


def cut_short() -> Transcript:
    transcript = said()
    transcript.finished = None
    return transcript


def end(
    index: int = 0,
    exit_code: int | None = 0,
    *,
    at_s: float | None = None,
    transcript: Transcript | None = None,
    stopped_by_us: bool = False,
    log_text: str = "",
    state: str | None = None,
) -> ProcessEnd:
    return ProcessEnd(
        index=index,
        exit_code=exit_code,
        abnormal_at_s=at_s,
        stopped_by_us=stopped_by_us,
        transcript=transcript or (said() if at_s is None else cut_short()),
        log_text=log_text,
        state=state,
    )


def judge(
    *ends: ProcessEnd, ending: Ending = "abnormal", oom_kill_counted: bool = False
) -> Outcome:
    return outcome(
        ends,
        ending=ending,
        limits=Limits(timeout_s=900.0, hang_s=120.0),
        num_devices=2,
        oom_kill_counted=oom_kill_counted,
    )


def test_a_run_whose_processes_all_finish_is_ok_without_a_reason():
    assert judge(end(0), end(1), ending="ended") == Outcome(status="ok")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGKILL"])
def test_a_signal_that_was_not_ours_is_a_crash_that_names_the_process(name: str):
    number = signal.Signals[name]
    found = judge(end(0), end(1, -number, at_s=5.0))
    assert (found.status, found.phase, found.root) == ("crash", None, 1)
    assert found.reason == f"process 1 was ended by {name} after step 7"


def test_a_kill_is_out_of_memory_only_where_the_group_counted_it():
    killed = end(0, -signal.SIGKILL, at_s=5.0)
    assert judge(killed).status == "crash"
    found = judge(killed, oom_kill_counted=True)
    assert (found.status, found.phase) == ("out_of_memory", "host")


def test_a_counted_kill_does_not_explain_another_signal():
    found = judge(end(0, -signal.SIGSEGV, at_s=5.0), oom_kill_counted=True)
    assert found.status == "crash"


@pytest.mark.parametrize("exit_code", [-15, 143])
def test_sigterm_from_outside_is_preemption(exit_code: int):
    assert judge(end(0, exit_code, at_s=5.0)).status == "preempted"


def test_a_failure_that_the_worker_explains_is_taken_as_it_says():
    transcript = cut_short()
    transcript.failed = Failed(
        status="out_of_memory", reason="RESOURCE_EXHAUSTED: 5 GiB", phase="run"
    )
    found = judge(end(0, 1, at_s=5.0, transcript=transcript))
    assert (found.status, found.phase) == ("out_of_memory", "run")
    assert found.reason == "RESOURCE_EXHAUSTED: 5 GiB"


def test_an_unexplained_exception_is_quoted_from_the_log():
    log_text = "Traceback (most recent call last):\n  x\nValueError: no\nbye\n"
    found = judge(end(0, 1, at_s=5.0, log_text=log_text))
    assert found.status == "error"
    assert (
        found.reason == "the worker ended with exit code 1 after step 7: ValueError: no"
    )


def test_ending_well_without_having_finished_is_an_error():
    found = judge(end(0, 0, at_s=5.0))
    assert found.status == "error"
    assert "without having finished" in str(found.reason)


@pytest.mark.parametrize(
    ("log_text", "flag"),
    [
        ("F1130 a.cc:2] Unknown flag in XLA_FLAGS: --xla_foo=1", "--xla_foo=1"),
        ("ERROR: Unknown command line flag 'xla_bar'. Did you mean", "xla_bar"),
        ("E1 b.cc:3] Couldn't interpret value maybe for flag xla_cpu_x.", "xla_cpu_x"),
        ('F1 c.cc:4] Could not open file "–xla" to read flags for', "–xla"),
    ],
)
@pytest.mark.parametrize("exit_code", [1, -signal.SIGABRT])
def test_a_refused_flag_is_named(log_text: str, flag: str, exit_code: int):
    found = judge(end(0, exit_code, at_s=5.0, log_text=log_text))
    assert found.status == "bad_flag"
    assert str(found.reason).endswith(f" {flag}")


def test_the_first_to_end_is_the_root_and_not_the_one_that_aborts_for_it():
    first = end(1, 3, at_s=5.0, log_text="OSError: disk")
    second = end(0, -signal.SIGABRT, at_s=6.0)
    found = judge(second, first)
    assert (found.status, found.root) == ("error", 1)


def test_one_that_aborts_while_the_runner_ends_it_is_not_the_root():
    first = end(1, 3, at_s=5.0, log_text="OSError: disk")
    second = end(0, -signal.SIGABRT, transcript=cut_short(), stopped_by_us=True)
    found = judge(second, first)
    assert (found.status, found.root) == ("error", 1)


def test_of_two_noticed_together_an_abort_is_the_consequence():
    aborted = end(0, -signal.SIGABRT, at_s=5.0)
    segfaulted = end(1, -signal.SIGSEGV, at_s=5.002)
    assert judge(aborted, segfaulted).root == 1


def test_one_that_the_runner_ended_is_never_the_root():
    ours = end(0, -signal.SIGTERM, stopped_by_us=True, transcript=cut_short())
    found = judge(ours, end(1, -signal.SIGABRT, at_s=5.0))
    assert (found.status, found.root) == ("crash", 1)


def test_a_process_that_dies_after_finishing_spoils_the_run():
    found = judge(end(0, -signal.SIGABRT, at_s=5.0, transcript=said()))
    assert found.status == "crash"
    assert "after it had finished" in str(found.reason)


def test_a_hang_tells_the_last_step_of_each_process_and_which_was_stopped():
    behind = cut_short()
    behind.last_step = None
    found = judge(
        end(0, -9, transcript=cut_short(), stopped_by_us=True, state="S"),
        end(1, -9, transcript=behind, stopped_by_us=True, state="T"),
        ending="hang",
    )
    assert (found.status, found.root) == ("hang", None)
    assert found.reason == (
        "no step finished for 120 s; last steps: process 0: 7, process 1: none; "
        "stopped: process 1"
    )


def test_a_single_worker_that_hangs_has_its_reason():
    hung = end(0, -signal.SIGTERM, transcript=cut_short(), stopped_by_us=True)
    found = judge(hung, ending="hang")
    assert found.reason == "no step finished for 120 s; last step: 7"


def test_one_that_does_not_exit_has_its_reason():
    found = judge(end(0, -signal.SIGTERM, stopped_by_us=True), ending="hang")
    assert found.reason == "finished, but did not exit within 120 s"


def test_an_abort_over_a_stopped_peer_is_the_hang_of_that_peer():
    found = judge(
        end(0, -signal.SIGABRT, at_s=5.0),
        end(1, -9, transcript=cut_short(), stopped_by_us=True, state="T"),
    )
    assert (found.status, found.root) == ("hang", None)
    assert str(found.reason).startswith("given up by its peers")
    assert str(found.reason).endswith("stopped: process 1")


def test_a_timeout_tells_the_limit():
    ours = end(0, -15, transcript=cut_short(), stopped_by_us=True)
    found = judge(ours, ending="timeout")
    assert found.status == "timeout"
    assert found.reason == "not done after 900 s; last step: 7"


def test_a_compilation_in_the_window_is_not_ok():
    found = judge(end(0, transcript=said(compilations=1)), ending="ended")
    assert found.status == "error"
    assert "compiled 1 times within the timed window" in str(found.reason)


def test_processes_that_timed_different_steps_are_not_ok():
    ends = end(0), end(1, transcript=said(steps=(2, 1)))
    assert judge(*ends, ending="ended").status == "error"


def test_another_number_of_devices_than_the_mesh_has_is_not_ok():
    found = judge(end(0, transcript=said(num_devices=1)), ending="ended")
    assert found.reason == "process 0 reported 1 devices and the mesh has 2"


def test_a_run_without_blocks_is_not_ok():
    assert judge(end(0, transcript=said(steps=())), ending="ended").status == "error"


def test_a_shell_reports_a_signal_as_128_more():
    assert end_signal(137) == signal.SIGKILL
    assert end_signal(-9) == signal.SIGKILL
    assert end_signal(1) is None
    assert end_signal(255) is None
    assert end_signal(None) is None
