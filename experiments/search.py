"""Search: what `scaling plan --search` looks through, and what it finds, as JSON."""

import math
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from pydantic import BaseModel
from pydantic import ConfigDict

from experiments.compiled_rows import CompiledPoint
from experiments.compiled_rows import compiled_rows
from experiments.compiling import Compiling
from experiments.cores import num_cores
from experiments.host_memory import host_memory_bytes
from experiments.point_flags import ADHOC
from experiments.rows import Row
from experiments.rows import identity
from experiments.runner import run_sweep
from experiments.sweep import Sweep
from experiments.sweep import chip_text
from experiments.usage import note
from meshes import topology
from meshes.chip import Chip
from models.config import AttentionKernel
from models.config import Layers
from models.config import Remat
from models.config import Residual
from scaling import quantity
from scaling.candidates import Split
from scaling.candidates import candidates
from scaling.candidates import splits
from scaling.point import Point
from scaling.point import Regime
from scaling.predict import Prediction
from scaling.search import Balance
from scaling.search import Candidate
from scaling.search import Found
from scaling.search import Refused
from scaling.search import search

_SAYS_EVERY_S = 2.0


class RankedPoint(Row):
    """One candidate that fits, with its policy."""

    accumulation: int
    attention: AttentionKernel
    remat: Remat
    residual: Residual
    layers: Layers
    predicted: Prediction
    relative: float
    """Its throughput over that of the best."""


class Reason(BaseModel):
    """Why candidates are refused, and how many are for this reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str
    num_candidates: int


class RefusedRow(BaseModel):
    """Candidates that are refused because of one obstacle."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    obstacle: str
    num_candidates: int
    num_meshes: int
    reasons: tuple[Reason, ...]
    least_excess_bytes: int | None
    """By which the nearest of those that are too large exceeds the memory."""
    nearest_id: str | None
    nearest_mesh: str | None


class BalanceRow(BaseModel):
    """The best of one number of slices."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_slices: int
    devices_per_slice: int
    best_id: str | None
    mesh: str | None
    slice_shape: tuple[int, ...] | None
    tokens_per_s: float | None
    relative: float | None


class SearchDocument(BaseModel):
    """What `scaling plan --search --json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    chip: str
    num_devices: int
    regime: Regime
    global_batch_size: int
    seq_len: int
    num_candidates: int
    num_meshes: int
    ranked: tuple[RankedPoint, ...]
    refused: tuple[RefusedRow, ...]
    balance: tuple[BalanceRow, ...]
    confirmed: tuple[CompiledPoint, ...] | None
    """The best meshes as compiled; None where none were asked for."""


def chosen_splits(
    base: Point, chip: Chip, num_devices: int, numbers: Sequence[int]
) -> tuple[Split, ...]:
    """Returns the splits of the devices into these numbers of slices, or into all.

    Raises ValueError with one sentence where there are none.
    """
    possible = splits(chip, num_devices, base.slice_shape)
    for number in numbers or (() if possible else (1,)):
        if all(split.num_slices != number for split in possible):
            raise ValueError(_no_split(base, chip, num_devices, number))
    return tuple(s for s in possible if not numbers or s.num_slices in numbers)


def found_on(
    base: Point,
    chip: Chip,
    among: Sequence[Split],
    fixed: Iterable[str],
) -> Found:
    """Returns the outcome of the search over `among`, saying on stderr how far it is.

    Raises ValueError where no time can be predicted for any candidate.
    """
    on_host = None
    if chip.platform == "cpu":
        _refuse_simulated(among[0])
        on_host = host_memory_bytes()
    points = tuple(candidates(base, among, fixed=fixed))
    found = search(_told(points), chip, host_memory_bytes=on_host)
    if not found.ranked and any(each.obstacle == "figure" for each in found.refused):
        cure = (
            "run `scaling calibrate`"
            if chip.platform == "cpu"
            else f"`scaling show chips {chip.name}` lists those that are known"
        )
        raise ValueError(
            f"figures of chip {chip.name!r} are unknown, so nothing can be ranked by "
            f"time; {cure}"
        )
    return found


def confirmed(found: Found, number: int, *, results: str) -> tuple[CompiledPoint, ...]:
    """Compiles the best policy of the `number` fastest meshes and returns the rows.

    Stored as `scaling compile` stores them; what is stored is not compiled again.
    """
    points = tuple(each.point for each in found.best_by_mesh[:number])
    sweep = Sweep(name=ADHOC, question="The best meshes.", points=points)
    return compiled_rows(sweep, run_sweep(sweep, Compiling(), results=results))


def document(
    base: Point,
    num_devices: int,
    found: Found,
    compiled: tuple[CompiledPoint, ...] | None,
) -> SearchDocument:
    """Returns the outcome as it is printed with `--json`: all candidates that fit."""
    return SearchDocument(
        model=base.model,
        chip=base.chip,
        num_devices=num_devices,
        regime=base.regime,
        global_batch_size=base.global_batch_size,
        seq_len=base.seq_len,
        num_candidates=found.num_candidates,
        num_meshes=found.num_meshes,
        ranked=tuple(_ranked(each, found) for each in found.ranked),
        refused=tuple(map(_refused, found.refused)),
        balance=tuple(map(_balanced, found.balance)),
        confirmed=compiled,
    )


def _no_split(base: Point, chip: Chip, num_devices: int, number: int) -> str:
    devices, rest = divmod(num_devices, number)
    if rest:
        return f"{num_devices} devices do not divide into {number} slices"
    try:
        if base.slice_shape is not None:
            topology.check_slice(chip, base.slice_shape)
            available = math.prod(base.slice_shape) * chip.devices_per_chip
            return (
                f"{num_devices} devices in {quantity.counted(number, 'slice')} are "
                f"{devices} each, and {chip_text(base)} has {available}"
            )
        topology.squarest_slice(chip, topology.num_chips(chip, devices))
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{number} slices of {devices} {chip.name} were left out")


def _refuse_simulated(split: Split) -> None:
    devices = split.num_slices * split.devices_per_slice
    if devices > num_cores():
        raise ValueError(
            f"{devices} devices of chip 'cpu' would take turns on {num_cores()} cores, "
            f"so nothing can be ranked by time; use --devices {num_cores()} or fewer"
        )


def _told(points: Sequence[Point]) -> Iterator[Point]:
    """Yields the points, saying now and then how many are done."""
    said_s = time.monotonic()
    for number, point in enumerate(points):
        if number % 1000 == 0 and time.monotonic() - said_s > _SAYS_EVERY_S:
            said_s = time.monotonic()
            note(f"{number:,} of {len(points):,} candidates")
        yield point


def _ranked(candidate: Candidate, found: Found) -> RankedPoint:
    point = candidate.point
    return RankedPoint(
        **identity(point),
        status="ok",
        phase=None,
        reason=None,
        provenance="analytic",
        predicted=candidate.predicted,
        accumulation=point.accumulation,
        attention=point.attention,
        remat=point.remat,
        residual=point.residual,
        layers=point.layers,
        relative=relative(candidate, found),
    )


def relative(candidate: Candidate, found: Found) -> float:
    """Returns the throughput of a candidate over that of the best."""
    return found.ranked[0].step_time_s / candidate.step_time_s


def _refused(group: Refused) -> RefusedRow:
    nearest = group.nearest
    return RefusedRow(
        obstacle=group.obstacle,
        num_candidates=group.num_candidates,
        num_meshes=group.num_meshes,
        reasons=tuple(Reason(reason=r, num_candidates=n) for r, n in group.reasons),
        least_excess_bytes=None if nearest is None else nearest.excess_bytes,
        nearest_id=None if nearest is None else nearest.point.id,
        nearest_mesh=None if nearest is None else str(nearest.point.mesh),
    )


def _balanced(row: Balance) -> BalanceRow:
    point = None if row.best is None else row.best.point
    return BalanceRow(
        num_slices=row.num_slices,
        devices_per_slice=row.devices_per_slice,
        best_id=None if point is None else point.id,
        mesh=None if point is None else str(point.mesh),
        slice_shape=None if point is None else point.slice_shape,
        tokens_per_s=None if row.best is None else row.best.predicted.tokens_per_s,
        relative=row.relative,
    )
