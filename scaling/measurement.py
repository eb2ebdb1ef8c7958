"""Measurement: the raw outcome of one run; everything else is derived when reading.

A run file holds exactly one Measurement as JSON. Times are seconds, sizes bytes, and
None means not measured. Nothing derived is stored: a better formula needs no re-run.
"""

from typing import Literal
from typing import get_args

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import NonNegativeFloat
from pydantic import NonNegativeInt
from pydantic import PositiveInt

from scaling.point import Point

FORMAT_VERSION = 1

Status = Literal[
    "ok",
    "out_of_memory",
    "invalid",
    "hang",
    "timeout",
    "crash",
    "error",
    "bad_flag",
    "wrong_platform",
    "skipped",
    "preempted",
]
STATUSES: tuple[Status, ...] = get_args(Status)

MemoryPhase = Literal["compile", "run", "host"]
Provenance = Literal["measured", "simulated", "compiled", "analytic", "published"]


POOLED_DISTRIBUTIONS = (
    "jax",
    "jaxlib",
    "libtpu",
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
)
"""Whose versions decide whether runs may be pooled."""


class Environment(BaseModel):
    """What a run ran on. Runs may be pooled only where `pooling_key` is equal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    versions: dict[str, str]
    """Version by distribution: python, jax, jaxlib, flax, optax, plugins, …"""
    device_kind: str | None
    """What JAX calls the device (`TPU v5 lite`, `cpu`); None if never reached."""
    host_cpu_model: str
    flags: dict[str, str]
    """Environment variables that reach the compiler or runtime, as the worker saw."""
    code_hash: str
    """Hash of the sources that decide what is measured and how."""
    commit: str | None
    """Commit of the checkout, with `-dirty` where it has changes; not pooled by."""
    hostname: str
    num_cores: PositiveInt
    """Cores that this host lends to runs, by affinity and quota; the cores of one
    process are in its `ProcessOutcome`."""

    @property
    def pooling_key(self) -> tuple[object, ...]:
        """Returns what must agree before two runs of a point may be pooled."""
        return (
            tuple((name, self.versions.get(name)) for name in POOLED_DISTRIBUTIONS),
            self.device_kind,
            self.host_cpu_model,
            tuple(sorted(self.flags.items())),
            self.code_hash,
        )


class Block(BaseModel):
    """Consecutive steps timed together, ended by waiting for the last one's output."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: PositiveInt
    elapsed_s: tuple[NonNegativeFloat, ...]
    """One per process; the block took as long as the slowest."""


class Memory(BaseModel):
    """Bytes as the runtime and the system report them; None where they do not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    peak_device_bytes: NonNegativeInt | None = None
    """Largest `peak_bytes_in_use` over the devices of the run; None on CPU."""
    available_device_bytes: NonNegativeInt | None = None
    needed_bytes: NonNegativeInt | None = None
    """What an out-of-memory message said was asked for."""
    peak_host_bytes: NonNegativeInt | None = None
    """Largest resident set over the processes."""
    state_bytes_per_device: NonNegativeInt | None = None
    """Parameters and optimizer state on the fullest device, from the shards."""


class CompilerWarning(BaseModel):
    """A tensor that the partitioner replicates on all devices to shard it otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["involuntary_rematerialization"]
    tensor: str
    """Name and shape on one device, as the compiler writes them."""
    op_name: str | None
    """Of the source that made it."""
    before: str
    """Its sharding, as the compiler writes it."""
    after: str
    """The sharding it was to have."""


class CompiledProgram(BaseModel):
    """What a compiler says of a step for one device; its HLO text lies beside."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    program_hash: str
    """SHA-256 of the StableHLO that was compiled."""
    arguments_bytes: NonNegativeInt
    outputs_bytes: NonNegativeInt
    aliases_bytes: NonNegativeInt
    """The part of the outputs that lies in arguments, as the donated state does."""
    temporaries_bytes: NonNegativeInt
    code_bytes: NonNegativeInt
    live_peak_bytes: NonNegativeInt | None = None
    """The most that is alive at once; None where the compiler does not say."""
    warnings: tuple[CompilerWarning, ...] = ()
    """What the compiler's log said of the step."""

    @property
    def peak_bytes(self) -> int:
        """Returns the device memory a step takes, its code apart.

        The peak that the compiler states is what it holds against the device's memory.
        All that it allocates in the course of a step, the bound without one, may be
        more than a device has.
        """
        if self.live_peak_bytes is not None:
            return self.live_peak_bytes
        donated = self.outputs_bytes - self.aliases_bytes
        return self.arguments_bytes + donated + self.temporaries_bytes


class ProcessOutcome(BaseModel):
    """How one worker process of a run ended."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: NonNegativeInt
    exit_code: int | None
    """As `subprocess` gives it: negative is a signal; None if it was never started."""
    last_step: NonNegativeInt | None
    """Last step it reported as finished."""
    cores: tuple[NonNegativeInt, ...] | None = None
    """Cores the process was confined to; None if it was not."""
    collateral: bool = False
    """Whether it ended because another process had ended before, or by our kill."""


class Measurement(BaseModel):
    """One execution of a point: what happened, with every raw sample."""

    # A worker ends in an error before it reports a loss that is not finite. If one is
    # stored all the same, JSON has no number for it: "NaN" is read back, null is not.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    format_version: int = FORMAT_VERSION
    id: str
    """Point.id; half of the file name."""
    run: str
    """Twelve random hex digits; the other half."""
    sweep: str
    point: Point
    status: Status
    reason: str | None = None
    """One line; None only where status is `ok`."""
    phase: MemoryPhase | None = None
    """Where memory ran out; None for every other status."""
    provenance: Provenance
    started_at: str
    """UTC, ISO 8601, just before the processes were spawned."""
    environment: Environment
    phases_s: dict[str, NonNegativeFloat] = {}
    """Consecutive phases of process 0 from just before spawn, in order (`PHASES`)."""
    blocks: tuple[Block, ...] = ()
    """The timed window, outliers kept."""
    warm_up_s: tuple[NonNegativeFloat, ...] = ()
    """Every step before the timed window, the first one without compilation."""
    compilations_in_window: NonNegativeInt | None = None
    """Compilations during the timed window; a run with one is not `ok`."""
    losses: tuple[tuple[int, float], ...] = ()
    """(step, loss) at some steps, the first and the last among them."""
    memory: Memory = Memory()
    compiled: CompiledProgram | None = None
    """None unless the run compiled for hardware that is absent."""
    processes: tuple[ProcessOutcome, ...] = ()


PHASES = (
    "start",
    "devices",
    "data",
    "state",
    "compile",
    "warm_up",
    "timed",
    "finish",
)
"""start: spawn to the first line of the worker; devices: imports and device set-up;
data: input pipeline; state: initialisation on the mesh; compile: the step, once;
warm_up: until step time settles; timed: first to last block; finish: last
checkpoint, and exit. Of a run that compiles for absent hardware: state is lowering the
step, compile includes writing its text."""
