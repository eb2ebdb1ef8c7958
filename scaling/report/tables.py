"""Tables: the rows behind every mark, for the page and as CSV files.

`points.csv` has one row for each point on each curve that holds it, and one for each
point on none. `samples.csv` has one row for each timed block, run and process: the
raw data, from which everything else follows.
"""

import csv
import io
import math
import statistics
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.hlo.timeline import CAUSES
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.point import Point
from scaling.predicted import figures
from scaling.report.findings import Findings
from scaling.samples import PointKey
from scaling.samples import PointRuns
from scaling.utilisation import mfu

CURVE_COLUMNS = (
    "kind",
    "direction",
    "regime",
    "growth",
    "model",
    "chip",
    "provenance",
    "baseline_id",
    "series",
)
POINT_COLUMNS = tuple(name for name in CurvePoint.model_fields if name != "exposed_s")
EXPOSED_COLUMNS = {cause: f"exposed_{cause}_s" for cause in CAUSES}
SETTING_COLUMNS = (
    *(
        name
        for name in Point.model_fields
        if name not in {*CURVE_COLUMNS, *POINT_COLUMNS}
    ),
    "reason",
)
COLUMNS = (
    *CURVE_COLUMNS,
    *POINT_COLUMNS,
    *EXPOSED_COLUMNS.values(),
    *SETTING_COLUMNS,
)
RUN_COLUMNS = ("id", "run", "sweep", "status", "provenance", "started_at")
SAMPLE_COLUMNS = (*RUN_COLUMNS, "block", "steps", "process", "elapsed_s")


@dataclass(frozen=True, kw_only=True)
class PointRow:
    """One point as the page lists it; figures are those of its own curve if any."""

    point: Point
    provenance: Provenance
    series: str
    reason: str | None
    figures: CurvePoint


def point_rows(findings: Findings) -> tuple[PointRow, ...]:
    """Returns every point once for each provenance and environment it was run in."""
    on_curves = _figures_by_key(findings.curves)
    rows = (
        PointRow(
            point=runs.point,
            provenance=runs.provenance,
            series=runs.series,
            reason=runs.reason,
            figures=_own(runs, on_curves.get(runs.key)),
        )
        for runs in findings.runs
    )
    return tuple(sorted(rows, key=_order))


def write_points(findings: Findings, file: IO[str]) -> None:
    """Writes `points.csv`; an empty field is a value that was not measured."""
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    placed: set[PointKey] = set()
    for curve in findings.curves:
        for point in curve.points:
            key = (point.id, curve.provenance, curve.series)
            placed.add(key)
            about = {name: getattr(curve, name) for name in CURVE_COLUMNS}
            writer.writerow({**about, **_fields(findings, point, key)})
    for row in point_rows(findings):
        key = (row.figures.id, row.provenance, row.series)
        if key not in placed:
            about = {"provenance": row.provenance, "series": row.series}
            writer.writerow({**about, **_fields(findings, row.figures, key)})


def write_samples(measurements: Iterable[Measurement], file: IO[str]) -> None:
    """Writes `samples.csv`: what each process took for each timed block, in seconds."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(SAMPLE_COLUMNS)
    for run in measurements:
        about = _row(getattr(run, name) for name in RUN_COLUMNS)
        # Numbers need no quoting, and there may be half a million of them.
        file.writelines(
            f"{about},{number},{block.steps},{process},{elapsed_s!r}\n"
            for number, block in enumerate(run.blocks)
            for process, elapsed_s in enumerate(block.elapsed_s)
        )


def _row(values: Iterable[object]) -> str:
    """Returns one line of CSV without its end."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _fields(findings: Findings, shown: CurvePoint, key: PointKey) -> dict[str, object]:
    point = findings.points[shown.id]
    settings = point.model_dump(mode="json", include={*SETTING_COLUMNS})
    if point.slice_shape is not None:
        settings["slice_shape"] = "x".join(map(str, point.slice_shape))
    return {
        **settings,
        "model": point.model,
        "chip": point.chip,
        "regime": point.regime,
        **shown.model_dump(exclude={"exposed_s"}),
        **{
            column: (shown.exposed_s or {}).get(cause)
            for cause, column in EXPOSED_COLUMNS.items()
        },
        "reason": findings.reasons.get(key),
    }


def _figures_by_key(curves: Iterable[Curve]) -> Mapping[PointKey, CurvePoint]:
    """Returns the figures of each point; `best` curves come last.

    On those a point is estimated from half of its runs.
    """
    found: dict[PointKey, CurvePoint] = {}
    for curve in sorted(curves, key=lambda each: each.growth == "best"):
        for point in curve.points:
            found.setdefault((point.id, curve.provenance, curve.series), point)
    return found


def _own(runs: PointRuns, on_curve: CurvePoint | None) -> CurvePoint:
    """Returns the figures of the point's own runs, those on its curve if they are.

    A load curve pools them with those of the other regime.
    """
    own = on_curve is not None and on_curve.num_runs <= len(runs.samples)
    return on_curve if on_curve is not None and own else _alone(runs)


def _alone(runs: PointRuns) -> CurvePoint:
    """Returns the figures of a point on no curve, which has no interval."""
    point = runs.point
    (predicted,) = figures([(point, runs.prediction)], compared=False)
    step_time_s = math.exp(statistics.fmean(runs.samples)) if runs.samples else None
    found = {
        **dict.fromkeys(CurvePoint.model_fields),
        "id": runs.point_id,
        "mesh": str(point.mesh),
        "num_devices": point.mesh.num_devices,
        "num_slices": point.mesh.num_slices,
        "global_batch_size": point.global_batch_size,
        "num_runs": len(runs.samples),
        "tokens_per_s": step_time_s and point.tokens_per_step / step_time_s,
        "step_time_s": step_time_s,
        "mfu": step_time_s and mfu(point, step_time_s),
        "status": runs.status,
        **predicted,
    }
    return CurvePoint.model_validate(found)


def _order(row: PointRow) -> tuple[object, ...]:
    point = row.point
    return (
        point.model,
        point.chip,
        point.regime,
        point.seq_len,
        point.mesh.num_devices,
        point.mesh.num_slices,
        str(point.mesh),
        point.global_batch_size,
        row.figures.id,
        row.provenance,
        row.series,
    )
