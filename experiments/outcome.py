"""Outcome: the status of a run from how its processes ended, and the root cause.

The root cause of a run that failed is the first of its processes that failed or ended
abnormally; what the others did after that is collateral.
"""

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from experiments import log
from experiments.protocol import Failed
from experiments.transcript import Transcript
from experiments.watch import Ending
from experiments.watch import Limits
from scaling import quantity
from scaling.measurement import MemoryPhase
from scaling.measurement import Status

# Two ends that are noticed together come in no order that could be trusted.
_TOGETHER_S = 0.01


@dataclass(frozen=True, kw_only=True)
class ProcessEnd:
    """How one process of a run ended, and what it had said."""

    index: int
    exit_code: int | None
    """None if it could not be ended."""
    abnormal_at_s: float | None
    """None where it did well until it ended, or until the runner ended it."""
    stopped_by_us: bool
    """Whether it was still running when the runner ended the run."""
    transcript: Transcript
    log_text: str = ""
    state: str | None = None
    """The letter of the kernel while a hang was noticed: T is stopped."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a run."""

    status: Status
    reason: str | None = None
    phase: MemoryPhase | None = None
    root: int | None = None
    """Index of the process that failed first; None where none is to blame."""
    failed: Failed | None = None


def outcome(
    ends: Sequence[ProcessEnd],
    *,
    ending: Ending,
    limits: Limits,
    num_devices: int,
    oom_kill_counted: bool,
) -> Outcome:
    """Returns the status of a run whose processes have all ended.

    `oom_kill_counted` says that the control group counted a kill for memory
    meanwhile, without which a SIGKILL is not blamed on memory.
    """
    if ending == "hang":
        return Outcome(status="hang", reason=_silence(ends, limits))
    if ending == "timeout":
        return Outcome(status="timeout", reason=_timeout_reason(ends, limits))
    if ending == "memory":
        reason = _too_much_memory(ends, limits)
        return Outcome(status="out_of_memory", phase="host", reason=reason)
    root = _root(ends)
    if root is not None and _gave_up_on_a_stopped_peer(root, ends):
        reason = _with_stopped(f"given up by its peers; {_last_steps(ends)}", ends)
        return Outcome(status="hang", reason=reason)
    if root is not None:
        return _failure(root, oom_kill_counted, many=len(ends) > 1)
    if reason := _why_not_ok(ends, num_devices):
        return Outcome(status="error", reason=reason)
    return Outcome(status="ok")


def end_signal(exit_code: int | None) -> signal.Signals | None:
    """Returns the signal that ended a process, also if a shell reported it."""
    if exit_code is None:
        return None
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return signal.Signals(number) if number > 0 else None
    except ValueError:
        return None


def _root(ends: Sequence[ProcessEnd]) -> ProcessEnd | None:
    abnormal = [end for end in ends if end.abnormal_at_s is not None]
    if not abnormal:
        return None
    first_s = min(end.abnormal_at_s or math.inf for end in abnormal)
    together = [
        end for end in abnormal if (end.abnormal_at_s or 0) - first_s <= _TOGETHER_S
    ]
    return min(together, key=lambda end: (_suspicion(end), end.abnormal_at_s))


def _gave_up_on_a_stopped_peer(root: ProcessEnd, ends: Sequence[ProcessEnd]) -> bool:
    """Returns whether JAX aborted because a peer that is stopped gave no sign of life.

    It does so after a time of its own, which may be shorter than the limit for hangs.
    """
    aborted = end_signal(root.exit_code) == signal.SIGABRT
    return aborted and any(end.state == "T" for end in ends if end is not root)


def _suspicion(end: ProcessEnd) -> int:
    """Ranks processes that ended together: JAX aborts where a peer is lost."""
    number = end_signal(end.exit_code)
    if end.stopped_by_us or number is None:
        return 1
    return 2 if number in (signal.SIGABRT, signal.SIGTERM) else 0


def _failure(root: ProcessEnd, oom_kill_counted: bool, *, many: bool) -> Outcome:
    who = f"process {root.index}" if many else "the worker"
    where = _where(root)
    if root.transcript.failed is not None:
        return _said_failure(root, root.transcript.failed, many=many)
    if flag := log.refused_flag(root.log_text):
        reason = f"the compiler or runtime refuses the flag {flag}"
        return Outcome(status="bad_flag", reason=reason, root=root.index)
    number = end_signal(root.exit_code)
    if number == signal.SIGTERM:
        reason = f"{who} was asked to end by SIGTERM from outside {where}"
        return Outcome(status="preempted", reason=reason, root=root.index)
    if number == signal.SIGKILL and oom_kill_counted:
        reason = f"{who} was killed by the kernel for want of host memory {where}"
        return Outcome(
            status="out_of_memory", phase="host", reason=reason, root=root.index
        )
    words = log.last_words(root.log_text)
    quoted = f": {words}" if words else ""
    if number is not None:
        reason = f"{who} was ended by {number.name} {where}{quoted}"
        return Outcome(status="crash", reason=log.one_line(reason), root=root.index)
    if root.exit_code == 0:
        reason = f"{who} ended with exit code 0 {where} without having finished"
    else:
        reason = f"{who} ended with exit code {root.exit_code} {where}{quoted}"
    return Outcome(status="error", reason=log.one_line(reason), root=root.index)


def _said_failure(root: ProcessEnd, failed: Failed, *, many: bool) -> Outcome:
    who = f"process {root.index}: " if many else ""
    return Outcome(
        status="error" if failed.status == "ok" else failed.status,
        reason=log.one_line(f"{who}{failed.reason}"),
        phase=failed.phase,
        root=root.index,
        failed=failed,
    )


def _where(end: ProcessEnd) -> str:
    transcript = end.transcript
    if transcript.finished is not None:
        return "after it had finished"
    if transcript.last_step is not None:
        return f"after step {transcript.last_step}"
    last = next(reversed(transcript.phase_ends_s), None)
    return f"after phase {last!r}" if last else "before its first word"


def _why_not_ok(ends: Sequence[ProcessEnd], num_devices: int) -> str | None:
    """Returns what makes a run worthless whose processes all ended well."""
    for end in ends:
        transcript, who = end.transcript, f"process {end.index}"
        finished, platform = transcript.finished, transcript.platform
        if finished is not None and finished.compilations_in_window:
            times = finished.compilations_in_window
            return f"{who} compiled {times} times within the timed window"
        if transcript.num_malformed:
            return f"{who} sent {transcript.num_malformed} lines that are no events"
        compiled = finished is not None and finished.program is not None
        timed = transcript.blocks and "timed" in transcript.phase_ends_s
        if not timed and not compiled:
            return f"{who} finished without a timed window"
        if platform is None or platform.num_devices != num_devices:
            found = "no" if platform is None else platform.num_devices
            return f"{who} reported {found} devices and the mesh has {num_devices}"
    steps = [[block.steps for block in end.transcript.blocks] for end in ends]
    if any(each != steps[0] for each in steps):
        return f"the processes timed different blocks of steps: {steps}"
    return None


def _silence(ends: Sequence[ProcessEnd], limits: Limits) -> str:
    if all(end.transcript.finished is not None for end in ends):
        text = f"finished, but did not exit within {limits.hang_s:g} s"
    else:
        text = f"no step finished for {limits.hang_s:g} s; {_last_steps(ends)}"
    return _with_stopped(text, ends)


def _with_stopped(text: str, ends: Sequence[ProcessEnd]) -> str:
    stopped = [str(end.index) for end in ends if end.state == "T"]
    return f"{text}; stopped: process {', '.join(stopped)}" if stopped else text


def _timeout_reason(ends: Sequence[ProcessEnd], limits: Limits) -> str:
    return f"not done after {limits.timeout_s:g} s; {_last_steps(ends)}"


def _too_much_memory(ends: Sequence[ProcessEnd], limits: Limits) -> str:
    limit = quantity.bytes_(limits.memory_bytes)
    return (
        f"took more than the {limit} of this host's memory that a run may take "
        f"{_where(ends[0])}; --memory_bytes sets another limit, and "
        "--retry out_of_memory makes the run again"
    )


def _last_steps(ends: Sequence[ProcessEnd]) -> str:
    steps = [
        "none" if end.transcript.last_step is None else str(end.transcript.last_step)
        for end in ends
    ]
    if len(steps) == 1:
        return f"last step: {steps[0]}"
    each = ", ".join(
        f"process {end.index}: {s}" for end, s in zip(ends, steps, strict=True)
    )
    return f"last steps: {each}"
