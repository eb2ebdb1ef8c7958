"""Record: the Measurement of a run, put together from what its processes said."""

import datetime as dt
import secrets
from collections.abc import Sequence

from experiments import environment as environments
from experiments.outcome import Outcome
from experiments.outcome import ProcessEnd
from experiments.process import WorkerProcess
from experiments.transcript import Transcript
from scaling.measurement import PHASES
from scaling.measurement import Block
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Memory
from scaling.measurement import ProcessOutcome
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Point


def new_run() -> str:
    """Returns the name of a run: twelve random hex digits."""
    return secrets.token_hex(6)


def now_utc() -> str:
    """Returns the time as ISO 8601 of one fixed length, so that text order is time."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


def not_run(
    point: Point,
    *,
    sweep: str,
    status: Status,
    reason: str,
    provenance: Provenance,
    environment: Environment,
    run: str | None = None,
) -> Measurement:
    """Returns the record of a point no process of which could begin to work.

    `run` is its name where there is one already.
    """
    return Measurement(
        id=point.id,
        run=new_run() if run is None else run,
        sweep=sweep,
        point=point,
        status=status,
        reason=reason,
        phase="host" if status == "out_of_memory" else None,
        provenance=provenance,
        started_at=now_utc(),
        environment=environment,
    )


def of_run(
    point: Point,
    *,
    run: str,
    sweep: str,
    started_at: str,
    spawned_at_s: float,
    ended_at_s: float,
    ends: Sequence[ProcessEnd],
    cores: Sequence[tuple[int, ...] | None],
    outcome: Outcome,
    provenance: Provenance,
    environment: Environment,
) -> Measurement:
    """Returns the record of a run, with every sample taken before its end."""
    first = ends[0].transcript
    return Measurement(
        id=point.id,
        run=run,
        sweep=sweep,
        point=point,
        status=outcome.status,
        reason=outcome.reason,
        phase=outcome.phase,
        provenance=provenance,
        started_at=started_at,
        environment=_with_platform(environment, first),
        phases_s=phases_s(first, spawned_at_s=spawned_at_s, ended_at_s=ended_at_s),
        blocks=_blocks(ends),
        warm_up_s=tuple(first.warm_up_s),
        compilations_in_window=_compilations(ends),
        losses=tuple(first.losses),
        memory=_memory(ends, outcome),
        compiled=first.finished and first.finished.program,
        processes=tuple(
            _process(end, own, outcome) for end, own in zip(ends, cores, strict=True)
        ),
    )


def process_end(
    worker: WorkerProcess, *, log_text: str, state: str | None
) -> ProcessEnd:
    """Returns how a worker ended that has ended."""
    return ProcessEnd(
        index=worker.index,
        exit_code=worker.exit_code,
        abnormal_at_s=worker.abnormal_at_s,
        stopped_by_us=worker.stopped_by_us,
        transcript=worker.transcript,
        log_text=log_text,
        state=state,
    )


def phases_s(
    transcript: Transcript, *, spawned_at_s: float, ended_at_s: float
) -> dict[str, float]:
    """Returns how long each phase took, in order, from spawn to what was reached.

    As process 0 said, whose `transcript` it is; but `finish` ends at `ended_at_s`, the
    last exit of all processes, which only the runner sees.
    """
    ends_s = dict(transcript.phase_ends_s)
    if "timed" in ends_s or transcript.finished is not None:
        ends_s["finish"] = ended_at_s
    durations_s: dict[str, float] = {}
    before_s = spawned_at_s
    for name in PHASES:
        if name in ends_s:
            durations_s[name] = max(0.0, ends_s[name] - before_s)
            before_s = ends_s[name]
    return durations_s


def _with_platform(environment: Environment, transcript: Transcript) -> Environment:
    platform = transcript.platform
    if platform is None:
        return environment
    return environment.model_copy(
        update={
            "device_kind": platform.device_kind,
            "versions": {**environment.versions, **platform.versions},
            "flags": environments.arrived(environment.flags, platform.flags),
        }
    )


def _blocks(ends: Sequence[ProcessEnd]) -> tuple[Block, ...]:
    """Returns the blocks that every process has ended, with the time of each."""
    per_process = [end.transcript.blocks for end in ends]
    # A block that ended in some processes only has no slowest one yet.
    return tuple(
        Block(
            steps=together[0].steps,
            elapsed_s=tuple(block.elapsed_s for block in together),
        )
        for together in zip(*per_process, strict=False)
    )


def _compilations(ends: Sequence[ProcessEnd]) -> int | None:
    finished = [end.transcript.finished for end in ends]
    counts = [each.compilations_in_window for each in finished if each is not None]
    counted = [count for count in counts if count is not None]
    return max(counted) if len(counted) == len(ends) else None


def _memory(ends: Sequence[ProcessEnd], outcome: Outcome) -> Memory:
    finished = [f for end in ends if (f := end.transcript.finished) is not None]
    failed = outcome.failed

    def reported(name: str) -> list[int]:
        values = [getattr(each, name) for each in finished]
        return [value for value in values if value is not None]

    available = min(reported("available_device_bytes"), default=None)
    if available is None and failed is not None:
        available = failed.available_device_bytes
    return Memory(
        peak_device_bytes=max(reported("peak_device_bytes"), default=None),
        available_device_bytes=available,
        needed_bytes=None if failed is None else failed.needed_bytes,
        peak_host_bytes=max(reported("peak_host_bytes"), default=None),
        state_bytes_per_device=max(reported("state_bytes_per_device"), default=None),
    )


def _process(
    end: ProcessEnd, cores: tuple[int, ...] | None, outcome: Outcome
) -> ProcessOutcome:
    return ProcessOutcome(
        index=end.index,
        exit_code=end.exit_code,
        last_step=end.transcript.last_step,
        cores=cores,
        collateral=end.index != outcome.root
        and (end.stopped_by_us or end.abnormal_at_s is not None),
    )
