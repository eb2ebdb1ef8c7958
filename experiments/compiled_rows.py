"""Compiled rows: the points of a sweep as their compilers left them, to be shown."""

import gzip
from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel
from pydantic import ConfigDict

from experiments import store
from experiments.store import HLO_SUFFIX
from experiments.summary import RunSummary
from experiments.sweep import Sweep
from meshes import hardware
from scaling import quantity
from scaling.compiled import CompiledPrediction
from scaling.compiled import compiled_prediction
from scaling.measurement import Measurement
from scaling.measurement import MemoryPhase
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Point
from scaling.point import Regime
from scaling.samples import in_time_order

if TYPE_CHECKING:
    from rich.table import Table


class CompiledPoint(BaseModel):
    """One point of a sweep, as `scaling compile --json` prints it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    model: str
    chip: str
    slice_shape: tuple[int, ...] | None
    mesh: str
    num_devices: int
    num_slices: int
    regime: Regime
    global_batch_size: int
    seq_len: int
    status: Status
    phase: MemoryPhase | None
    reason: str | None
    provenance: Provenance
    compile_time_s: float | None
    needed_bytes: int | None
    """On each device, as the compiler says, whether it fits or not."""
    predicted: CompiledPrediction | None
    """None where nothing was compiled, or its text cannot be read (see `reason`)."""


def compiled_rows(sweep: Sweep, summary: RunSummary) -> tuple[CompiledPoint, ...]:
    """Returns a row for every point that has a compiled run as `summary` has it.

    Its newest: what the command counted as done or has just compiled.
    """
    newest = {
        run.id: run
        for run in in_time_order(store.load(summary.folder).measurements)
        if run.provenance == "compiled" and run.status == summary.statuses.get(run.id)
    }
    return tuple(
        _row(point, newest[point.id], summary.folder)
        for point in sweep.points
        if point.id in newest
    )


def print_rows(rows: Sequence[CompiledPoint], sweep: Sweep) -> None:
    """Prints the rows as tables of at most 80 columns, with reasons and doubts."""
    from rich.console import Console

    # Reasons and names have brackets of their own.
    console = Console(highlight=False, soft_wrap=False, markup=False)
    console.print(f"{sweep.name}  {sweep.question}")
    groups: dict[str, list[CompiledPoint]] = {}
    for row in rows:
        groups.setdefault(_heading(row), []).append(row)
    for heading, members in groups.items():
        console.print()
        console.print(heading)
        console.print(_table(members))
    for row in rows:
        for line in _remarks(row):
            console.print()
            console.print(f"{row.mesh}, batch {row.global_batch_size}: {line}")


def _row(point: Point, run: Measurement, folder: str) -> CompiledPoint:
    predicted, reason = _predicted(point, run, folder)
    return CompiledPoint(
        id=point.id,
        model=point.model,
        chip=point.chip,
        slice_shape=point.slice_shape,
        mesh=str(point.mesh),
        num_devices=point.mesh.num_devices,
        num_slices=point.mesh.num_slices,
        regime=point.regime,
        global_batch_size=point.global_batch_size,
        seq_len=point.seq_len,
        status=run.status,
        phase=run.phase,
        reason=run.reason or reason,
        provenance=run.provenance,
        compile_time_s=run.phases_s.get("compile"),
        needed_bytes=_needed_bytes(run),
        predicted=predicted,
    )


def _needed_bytes(run: Measurement) -> int | None:
    if run.status == "ok" and run.compiled is not None:
        return run.compiled.peak_bytes
    return run.memory.needed_bytes


def _predicted(
    point: Point, run: Measurement, folder: str
) -> tuple[CompiledPrediction | None, str | None]:
    """Returns the prediction, or None and why there is none of a compiled program."""
    if run.compiled is None or run.status != "ok":
        return None, None
    try:
        text = _text(f"{folder}/{run.id}.{run.run}{HLO_SUFFIX}")
        chip = hardware.chip(point.chip)
        return compiled_prediction(point, run.compiled, text, chip), None
    # Whatever is wrong with a file, or a bucket's library raises: the others are shown.
    except Exception as error:
        return None, f"compiled, and its program cannot be accounted for: {error}"


def _text(path: str) -> str:
    from etils import epath

    return gzip.decompress(epath.Path(path).read_bytes()).decode()


def _heading(row: CompiledPoint) -> str:
    shape = "x".join(map(str, row.slice_shape or ()))
    chip = f"{row.chip}:{shape}" if shape else row.chip
    return f"{row.model} on {chip}, {row.seq_len} tokens, {row.regime} (compiled)"


def _table(rows: Iterable[CompiledPoint]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("mesh", overflow="fold")
    for name in ("batch", "memory", "step time", "MFU"):
        table.add_column(name, justify="right", no_wrap=name != "step time")
    table.add_column("status")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: CompiledPoint) -> tuple[str, ...]:
    predicted = row.predicted
    limit = predicted and predicted.limited_by
    return (
        row.mesh,
        str(row.global_batch_size),
        quantity.bytes_(row.needed_bytes),
        quantity.seconds_band(
            predicted and predicted.step_time_s,
            predicted and predicted.step_time_low_s,
            predicted and predicted.step_time_high_s,
        ),
        quantity.percent(predicted and predicted.mfu),
        f"{row.status}, {limit}" if limit else row.status,
    )


def _remarks(row: CompiledPoint) -> Iterable[str]:
    if row.reason is not None:
        yield row.reason
    if row.predicted is None:
        return
    for each in row.predicted.differences:
        yield (
            f"the program has {quantity.count(each.compiled)} {each.name}, where the "
            f"closed form has {quantity.count(each.expected)}"
        )
    if row.predicted.unpriced:
        names = ", ".join(row.predicted.unpriced)
        yield f"no FLOPs are known of the custom calls {names}"
