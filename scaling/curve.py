"""Curve: points that differ only in what grows, made from measurements."""

from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict

from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Regime

CurveKind = Literal["scaling", "load", "chip"]
Direction = Literal["vertical", "horizontal"]


class CurvePoint(BaseModel):
    """One point of a curve with what was derived from its runs; None: not measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    mesh: str
    num_devices: int
    num_slices: int
    global_batch_size: int
    num_runs: int
    tokens_per_s: float | None
    """Of the whole mesh."""
    step_time_s: float | None
    step_time_low_s: float | None
    step_time_high_s: float | None
    """`low` and `high` bound a 90 % interval; None with a single run."""
    efficiency: float | None
    efficiency_low: float | None
    efficiency_high: float | None
    marginal_efficiency: float | None
    mfu: float | None
    status: Status


class Curve(BaseModel):
    """Points over one growing quantity, in increasing order of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CurveKind
    direction: Direction | None
    """None for a load curve."""
    regime: Regime | None
    growth: str
    """`ici:AXIS`, `dcn:AXIS` or `best`; `batch` for a load curve."""
    model: str
    chip: str
    provenance: Provenance
    baseline_id: str | None
    points: tuple[CurvePoint, ...]
