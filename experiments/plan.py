"""Plan: what a sweep would run, whether each point can, and what to expect of it.

Touches no device: shapes, the hardware table, this host's memory, and a calibration
if it has one.
"""

from collections.abc import Iterable
from collections.abc import Mapping

from experiments.cores import num_cores
from experiments.host_memory import why_too_large
from experiments.protocol import Timing
from experiments.rows import BATCH
from experiments.rows import MESH
from experiments.rows import STEP_TIME
from experiments.rows import Column
from experiments.rows import Row
from experiments.rows import identity
from experiments.rows import print_tables
from experiments.sweep import Sweep
from meshes import hardware
from meshes.chip import Chip
from scaling import quantity
from scaling.feasibility import why_infeasible
from scaling.measurement import MemoryPhase
from scaling.measurement import Status
from scaling.point import Point
from scaling.predict import Prediction
from scaling.predict import missing_figures
from scaling.predict import predict

RUN_OVERHEAD_S = {"cpu": 8.0, "gpu": 60.0, "tpu": 60.0}
"""A run's start, state, compilation and exit. On CPU as `cpu_quick` took on 2 cores;
elsewhere a guess: compiling a large model takes a minute or more."""
WARM_UP_STEPS = 5
"""Steps until the time of one has settled; a guess, the worker decides."""


class PlannedPoint(Row):
    """One point of a plan, as `scaling plan --json` prints it."""

    predicted: Prediction | None
    """None where the point is invalid."""


def plan(sweep: Sweep, chips: Mapping[str, Chip]) -> tuple[PlannedPoint, ...]:
    """Returns every point of the sweep with its status and prediction.

    `chips` are those of the sweep by name: as the table has them, or calibrated.
    """
    return tuple(_planned(point, chips[point.chip]) for point in sweep.points)


def wall_time_s(planned: Iterable[PlannedPoint], sweep: Sweep) -> float:
    """Returns about how long all runs of the points that can run take.

    As if nothing were stored yet.
    """
    return sum(
        _run_s(row, sweep.timing) * num_runs(row, sweep)
        for row in planned
        if row.status == "ok"
    )


def num_runs(row: PlannedPoint, sweep: Sweep) -> int:
    """Returns the runs of a point that can run; a simulated one has a single one."""
    return 1 if _is_simulated(row.chip, row.num_devices) else sweep.repeats


def print_plan(planned: tuple[PlannedPoint, ...], sweep: Sweep) -> None:
    """Prints the plan as tables of at most 80 columns, reasons, and the time."""
    console = print_tables(sweep, planned, _COLUMNS, heading=_heading)
    reasons = [row for row in planned if row.reason is not None]
    if reasons:
        console.print()
    for row in reasons:
        console.print(f"{row.mesh}, batch {row.global_batch_size}: {row.reason}")
    for line in sorted(_without_times(planned, sweep)):
        console.print(line)
    console.print()
    console.print(_expectation(planned, sweep))


def _without_times(planned: tuple[PlannedPoint, ...], sweep: Sweep) -> set[str]:
    """Returns a line for each chip that lacks a figure which a step's time takes."""
    untimed = {row.id for row in planned if row.predicted and not row.predicted.times_s}
    points = (point for point in sweep.points if point.id in untimed)
    return {
        f"no step time on {point.chip}, nor what is limited by it: its "
        f"{' and '.join(missing)} is not known"
        for point in points
        if (missing := missing_figures(point, hardware.chip(point.chip)))
        and hardware.chip(point.chip).platform != "cpu"
    }


def _planned(point: Point, chip: Chip) -> PlannedPoint:
    reason = why_infeasible(point)
    if reason is not None:
        return _row(point, status="invalid", reason=reason)
    predicted = predict(point, chip)
    if (reason := why_too_large(point)) is not None:
        return _row(
            point,
            status="out_of_memory",
            phase="host",
            reason=reason,
            predicted=predicted,
        )
    if _is_simulated(point.chip, point.mesh.num_devices):
        # Its devices take turns on the cores: what a core each would do says nothing.
        predicted = predicted.without_times()
    if predicted.fits:
        return _row(point, status="ok", predicted=predicted)
    return _row(
        point,
        status="out_of_memory",
        # A TPU program that does not fit is refused when it is compiled.
        phase="compile" if chip.platform == "tpu" else "run",
        reason=(
            f"needs {quantity.bytes_(predicted.peak_hbm_bytes)} on each device and "
            f"{chip.name} has {quantity.bytes_(predicted.available_hbm_bytes)}"
        ),
        predicted=predicted,
    )


def _row(
    point: Point,
    *,
    status: Status,
    phase: MemoryPhase | None = None,
    reason: str | None = None,
    predicted: Prediction | None = None,
) -> PlannedPoint:
    return PlannedPoint(
        **identity(point),
        status=status,
        phase=phase,
        reason=reason,
        provenance="analytic",
        predicted=predicted,
    )


def _run_s(row: PlannedPoint, timing: Timing) -> float:
    step_time_s = (row.predicted and row.predicted.step_time_s) or 0.0
    block_s = max(timing.min_block_s, step_time_s)
    overhead_s = RUN_OVERHEAD_S[hardware.chip(row.chip).platform]
    return overhead_s + WARM_UP_STEPS * step_time_s + timing.num_blocks * block_s


def _heading(row: PlannedPoint) -> str:
    return f"{row.model} on {row.chip}, {row.seq_len} tokens, {row.regime}"


def _status(row: PlannedPoint) -> str:
    if row.status != "ok":
        return row.status
    if _is_simulated(row.chip, row.num_devices):
        return "ok, simulated"
    limit = row.predicted and row.predicted.limited_by
    return f"ok, {limit}" if limit else "ok"


_COLUMNS = (
    MESH,
    Column("devices", lambda row: str(row.num_devices)),
    BATCH,
    Column("memory", lambda row: _memory(row.predicted)),
    STEP_TIME,
    Column("status", lambda row: _status(row), justify="left", wraps=True),
)


def _memory(predicted: Prediction | None) -> str:
    return quantity.bytes_(predicted and predicted.peak_hbm_bytes)


def _is_simulated(chip_name: str, num_devices: int) -> bool:
    """Whether devices of a CPU would share this host's cores."""
    return hardware.chip(chip_name).platform == "cpu" and num_devices > num_cores()


def _expectation(planned: tuple[PlannedPoint, ...], sweep: Sweep) -> str:
    feasible = sum(row.status == "ok" for row in planned)
    text = f"{feasible} of {len(planned)} points can run"
    if not feasible:
        return text
    runs = sum(num_runs(row, sweep) for row in planned if row.status == "ok")
    duration = quantity.seconds(wall_time_s(planned, sweep))
    return f"{text}; {quantity.counted(runs, 'run')} take about {duration}"
