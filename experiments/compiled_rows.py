"""Compiled rows: the points of a sweep as their compilers left them, to be shown."""

from collections.abc import Iterable
from collections.abc import Sequence

from experiments import store
from experiments.predictions import prediction
from experiments.rows import BATCH
from experiments.rows import STEP_TIME
from experiments.rows import Column
from experiments.rows import Row
from experiments.rows import identity
from experiments.rows import mesh_column
from experiments.rows import print_tables
from experiments.store import HLO_SUFFIX
from experiments.summary import RunSummary
from experiments.sweep import Sweep
from meshes import hardware
from scaling import quantity
from scaling.compiled import CompiledPrediction
from scaling.measurement import CompilerWarning
from scaling.measurement import Measurement
from scaling.point import Point
from scaling.samples import in_time_order

_SHOWN_WARNINGS = 5


class CompiledPoint(Row):
    """One point of a sweep, as `scaling compile --json` prints it."""

    compile_time_s: float | None
    needed_bytes: int | None
    """On each device, as the compiler says, whether it fits or not."""
    warnings: tuple[CompilerWarning, ...]
    """What the compiler's log said."""
    predicted: CompiledPrediction | None
    """None where nothing was compiled, or its text cannot be read (see `reason`)."""


def compiled_rows(sweep: Sweep, summary: RunSummary) -> tuple[CompiledPoint, ...]:
    """Returns a row for every point that has a compiled run as `summary` has it.

    Its newest: what the command counted as done or has just compiled.
    """
    newest = newest_runs(summary)
    return tuple(
        _row(point, newest[point.id], summary.folder)
        for point in sweep.points
        if point.id in newest
    )


def newest_runs(summary: RunSummary) -> dict[str, Measurement]:
    """Returns by point id the newest compiled run that is as `summary` has it."""
    return {
        run.id: run
        for run in in_time_order(store.load(summary.folder).measurements)
        if run.provenance == "compiled" and run.status == summary.statuses.get(run.id)
    }


def print_rows(rows: Sequence[CompiledPoint], sweep: Sweep) -> None:
    """Prints the rows as tables of at most 80 columns, with reasons and doubts."""
    console = print_tables(sweep, rows, _COLUMNS, heading=_heading)
    for name in sorted({row.chip for row in rows if _is_too_large(row)}):
        available = hardware.chip(name).available_hbm_bytes_per_device
        console.print()
        console.print(
            f"out_of_memory: of each device of {name} the compiler leaves "
            f"{quantity.bytes_(available)} to a program"
        )
    for row in rows:
        for line in _remarks(row):
            console.print()
            console.print(f"{row.mesh}, batch {row.global_batch_size}: {line}")


def _row(point: Point, run: Measurement, folder: str) -> CompiledPoint:
    predicted, reason = _predicted(run, folder)
    return CompiledPoint(
        **identity(point),
        status=run.status,
        phase=run.phase,
        reason=run.reason or reason,
        provenance=run.provenance,
        compile_time_s=run.phases_s.get("compile"),
        needed_bytes=_needed_bytes(run),
        warnings=() if run.compiled is None else run.compiled.warnings,
        predicted=predicted,
    )


def _needed_bytes(run: Measurement) -> int | None:
    if run.status == "ok" and run.compiled is not None:
        return run.compiled.peak_bytes
    return run.memory.needed_bytes


def _predicted(
    run: Measurement, folder: str
) -> tuple[CompiledPrediction | None, str | None]:
    """Returns the prediction, or None and why there is none of a compiled program."""
    if run.compiled is None or run.status != "ok":
        return None, None
    try:
        found = prediction(run, f"{folder}/{run.id}.{run.run}{HLO_SUFFIX}")
        return found, None if found.mfu is not None else _why_no_mfu(run.point)
    # Whatever is wrong with a file, or a bucket's library raises: the others are shown.
    except Exception as error:
        return None, (
            f"compiled, and its program cannot be accounted for: {error}; where its "
            f"file is damaged, `--retry ok --only {run.id}` compiles it again"
        )


def _why_no_mfu(point: Point) -> str:
    chip = hardware.chip(point.chip)
    if chip.peak_flops_per_s_per_device(point.compute_dtype) is None:
        return f"no peak of {chip.name} in {point.compute_dtype} is known, so no MFU"
    return (
        f"a rate of {chip.name}'s memory or links is not known, so no time and no MFU"
    )


def _heading(row: CompiledPoint) -> str:
    shape = "x".join(map(str, row.slice_shape or ()))
    chip = f"{row.chip}:{shape}" if shape else row.chip
    return f"{row.model} on {chip}, {row.seq_len} tokens, {row.regime} (compiled)"


def _status(row: CompiledPoint) -> str:
    limit = row.predicted and row.predicted.limited_by
    return f"{row.status}, {limit}" if limit else row.status


_COLUMNS = (
    # As wide as eighty columns leave it beside `out_of_memory`.
    mesh_column(19),
    BATCH,
    Column("memory", lambda row: quantity.bytes_(row.needed_bytes)),
    STEP_TIME,
    Column("MFU", lambda row: quantity.percent(row.predicted and row.predicted.mfu)),
    Column("status", _status, justify="left", wraps=True),
)


def _is_too_large(row: CompiledPoint) -> bool:
    """Whether all that there is to say is how much memory the program needs."""
    return (
        row.status == "out_of_memory"
        and row.phase == "compile"
        and row.needed_bytes is not None
        and hardware.chip(row.chip).available_hbm_bytes_per_device is not None
    )


def _remarks(row: CompiledPoint) -> Iterable[str]:
    if row.reason is not None and not _is_too_large(row):
        yield row.reason
    for warning in row.warnings[:_SHOWN_WARNINGS]:
        made_by = f" ({warning.op_name})" if warning.op_name else ""
        yield (
            f"the partitioner replicates {warning.tensor}{made_by} on every device to "
            f"go from {warning.before} to {warning.after}"
        )
    if (more := len(row.warnings) - _SHOWN_WARNINGS) > 0:
        yield f"{quantity.counted(more, 'more tensor')} replicated so; --json has all"
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
