"""Protocol: what the runner tells a worker process, and what the worker tells back.

The runner writes one Job as one JSON line to the worker's standard input and keeps
that pipe open: end of file means the runner is gone, and the worker ends itself.
The worker writes events as JSON lines to the file descriptor `--events_fd N`; samples
travel as they are taken, so a run that hangs or dies keeps what it had measured.
Everything printed goes to the run's log file and is never parsed for results.
"""

from typing import Annotated
from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import Field
from pydantic import NonNegativeFloat
from pydantic import NonNegativeInt
from pydantic import PositiveFloat
from pydantic import PositiveInt
from pydantic import TypeAdapter

from scaling.measurement import CompiledProgram
from scaling.measurement import MemoryPhase
from scaling.measurement import Status
from scaling.point import Point

SYNTHETIC = "synthetic"
"""The `Point.data` that is made while it is read, and so is not prepared."""


Task = Literal["measure", "compile"]
"""What is done with a point: run on attached devices, or compiled for absent ones."""


class NoCompilerError(Exception):
    """The compiler for the point's chip is not installed."""


class DoesNotFitError(Exception):
    """A program was compiled, and takes more memory than its device has."""

    def __init__(self, *, needed_bytes: int, available_bytes: int):
        super().__init__(
            f"the program takes {needed_bytes / 2**30:.1f} GiB of each device, which "
            f"has {available_bytes / 2**30:.1f} GiB; the compiler does not refuse it"
        )
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes


class Timing(BaseModel):
    """How long a run warms up and what it times; the same for all points of a sweep."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_blocks: PositiveInt = 10
    min_block_s: PositiveFloat = 0.2
    """A block has as many steps as reach this time, at least one."""
    max_warm_up_s: PositiveFloat = 30.0
    """Warm-up ends here even if the step time has not settled."""


class Job(BaseModel):
    """One process's share of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: Task = "measure"
    point: Point
    run: str
    process_index: NonNegativeInt = 0
    num_processes: PositiveInt = 1
    coordinator: str | None = None
    """`host:port` of process 0; None for a single process, which never joins."""
    cores: tuple[NonNegativeInt, ...] | None = None
    """Cores to confine the process to before JAX starts; None confines nothing."""
    spawned_at_s: float
    """`time.monotonic()` of the runner just before the first process was spawned."""
    data_folder: str
    """Where prepared token records live; the runner has prepared them."""
    checkpoint_folder: str | None = None
    timing: Timing = Timing()
    hlo_path: str | None = None
    """Where the text of a compiled program goes, gzipped."""


class PhaseEnded(BaseModel):
    """A phase of `scaling.measurement.PHASES` ended."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Literal["phase"] = "phase"
    name: str
    at_s: float
    """`time.monotonic()`, which all processes of a machine share."""


class Platform(BaseModel):
    """What the worker found once JAX was up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Literal["platform"] = "platform"
    device_kind: str
    num_devices: PositiveInt
    """Over all processes."""
    versions: dict[str, str]
    flags: dict[str, str]


class StepEnded(BaseModel):
    """A step, or the last of a block, was waited for."""

    # `experiments.measure` ends at a loss that is no finite number and sends none. Were
    # one sent, JSON has no number for it: it is written as "NaN" and not as null.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    event: Literal["step"] = "step"
    step: NonNegativeInt
    warm_up_s: NonNegativeFloat | None = None
    """The step's time while warming up."""
    loss: float | None = None


class BlockEnded(BaseModel):
    """A timed block ended in this process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Literal["block"] = "block"
    steps: PositiveInt
    elapsed_s: NonNegativeFloat
    last_step: NonNegativeInt


class Finished(BaseModel):
    """The worker has done all it was asked to, the last checkpoint durable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Literal["finished"] = "finished"
    compilations_in_window: NonNegativeInt | None = None
    """None where nothing was timed."""
    program: CompiledProgram | None = None
    """Of a job that compiled."""
    peak_device_bytes: NonNegativeInt | None = None
    available_device_bytes: NonNegativeInt | None = None
    peak_host_bytes: NonNegativeInt | None = None
    state_bytes_per_device: NonNegativeInt | None = None


class Failed(BaseModel):
    """The worker could not go on, and knows why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Literal["failed"] = "failed"
    status: Status
    reason: str
    phase: MemoryPhase | None = None
    needed_bytes: NonNegativeInt | None = None
    available_device_bytes: NonNegativeInt | None = None


Event = Annotated[
    PhaseEnded | Platform | StepEnded | BlockEnded | Finished | Failed,
    Field(discriminator="event"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
"""Parses one line: `EVENT.validate_json(line)`."""
