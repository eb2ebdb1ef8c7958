"""Breakdown: where a scaling curve stops paying, with what certainty."""

from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict

from scaling.curve import Direction
from scaling.measurement import Status
from scaling.point import Regime

Outcome = Literal["breaks", "none_in_range", "undecided", "retrograde"]


class Breakdown(BaseModel):
    """The judgement over one scaling curve."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    direction: Direction
    regime: Regime
    growth: str
    model: str
    chip: str
    outcome: Outcome
    last_good_devices: int | None
    """Largest count up to which every low bound is at or above the threshold."""
    first_bad_devices: int | None
    """Smallest count whose high bound is below the threshold."""
    threshold: float
    first_cause: str | None = None
    lost_time_s: float | None
    """At `first_bad_devices`, else at the largest count."""
    causes: dict[str, float] | None = None
    """Seconds by cause; None until determined by experiment."""
    ended_by: Status | None = None
    """Status of the next larger point where the curve ends in a failure."""
