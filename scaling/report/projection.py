"""Projection: the tool's own question, answered from shapes and vendor figures alone.

A machine with two cores cannot show where a slice of 256 chips stops paying. So that
the first page does, one small model is predicted on Cloud TPU v5e: vertically from one
chip to the largest slice, horizontally over slices of 32 chips up to the same total,
which data parallelism joins. At each count stands the mesh predicted to be fastest.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from meshes import hardware
from meshes import topology
from meshes.spec import MeshSpec
from meshes.spec import enumerate_meshes
from models.config import Remat
from scaling.breakdown import breakdown
from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.curve import Direction
from scaling.feasibility import AXES_AT_WORK
from scaling.feasibility import why_infeasible
from scaling.measurement import Status
from scaling.point import Point
from scaling.point import Regime
from scaling.predict import Prediction
from scaling.predict import predict
from scaling.predicted import figures
from scaling.report.families import Judged
from scaling.verdict import verdict

MODEL = "small"
CHIP = "v5e"
SEQ_LEN = 512
REMAT: Remat = "full"
GLOBAL_BATCH = 128
"""Sequences per step in strong scaling: one chip still holds them, with `REMAT`."""
BATCH_PER_DEVICE = 16
SLICES_BY_DIRECTION: Mapping[Direction, tuple[tuple[int, int], ...]] = {
    "vertical": tuple((1, chips) for chips in (1, 4, 8, 16, 32, 64, 128, 256)),
    "horizontal": tuple((slices, 32) for slices in (1, 2, 4, 8)),
}
"""Number of slices and chips in each; there is no v5e slice of 2 chips."""


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Analytic curves with their judgements, and the points they are made of."""

    judged: tuple[Judged, ...]
    points: Mapping[str, Point]

    @property
    def verdict(self) -> str:
        """A sentence for each direction and regime, as for measured curves."""
        return verdict(
            [each.breakdown for each in self.judged if each.breakdown],
            curves=[each.curve for each in self.judged],
        )


def project(threshold: float) -> Projection:
    """Returns both directions of both regimes, judged by the predicted band."""
    points: dict[str, Point] = {}
    regimes: tuple[Regime, ...] = ("strong", "weak")
    judged = tuple(
        _judged(direction, regime, threshold, points)
        for regime in regimes
        for direction in SLICES_BY_DIRECTION
    )
    return Projection(judged=judged, points=points)


def _judged(
    direction: Direction,
    regime: Regime,
    threshold: float,
    points: dict[str, Point],
) -> Judged:
    chosen = [
        _choice(num_slices, chips, regime)
        for num_slices, chips in SLICES_BY_DIRECTION[direction]
    ]
    points.update({each.point.id: each.point for each in chosen})
    base = next((each for each in chosen if each.predicted), None)
    curve = Curve(
        kind="scaling",
        direction=direction,
        regime=regime,
        growth="best",
        model=MODEL,
        chip=CHIP,
        provenance="analytic",
        baseline_id=base and base.point.id,
        points=tuple(_curve_points(chosen)),
    )
    return Judged(curve=curve, breakdown=breakdown(curve, threshold=threshold))


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """The mesh that stands for its count; without a prediction none of them runs."""

    point: Point
    predicted: Prediction | None
    status: Status


def _choice(num_slices: int, chips: int, regime: Regime) -> _Choice:
    """Returns the fastest mesh that fits, else one that is too large or invalid."""
    chip = hardware.chip(CHIP)
    possible = list(_points(num_slices, chips, regime))
    feasible = [point for point in possible if why_infeasible(point) is None]
    predicted = [(point, predict(point, chip)) for point in feasible]
    fitting = [each for each in predicted if each[1].fits and each[1].step_time_s]
    if fitting:
        point, best = min(fitting, key=lambda each: each[1].step_time_s or 0.0)
        return _Choice(point=point, predicted=best, status="ok")
    if feasible:
        return _Choice(point=feasible[0], predicted=None, status="out_of_memory")
    return _Choice(point=possible[0], predicted=None, status="invalid")


def _points(num_slices: int, chips: int, regime: Regime) -> Iterator[Point]:
    chip = hardware.chip(CHIP)
    devices = num_slices * chips
    batch = GLOBAL_BATCH if regime == "strong" else BATCH_PER_DEVICE * devices
    for within in enumerate_meshes(devices_per_slice=chips, axes=AXES_AT_WORK):
        yield Point(
            model=MODEL,
            chip=CHIP,
            mesh=MeshSpec(dcn=(("data", num_slices),), ici=within.ici),
            slice_shape=topology.squarest_slice(chip, chips),
            regime=regime,
            global_batch_size=batch,
            seq_len=SEQ_LEN,
            remat=REMAT,
        )


def _curve_points(chosen: Sequence[_Choice]) -> Iterator[CurvePoint]:
    found = figures([(each.point, each.predicted) for each in chosen])
    absent = dict.fromkeys(CurvePoint.model_fields)
    for each, fields in zip(chosen, found, strict=True):
        known = {
            "id": each.point.id,
            "mesh": str(each.point.mesh),
            "num_devices": each.point.mesh.num_devices,
            "num_slices": each.point.mesh.num_slices,
            "global_batch_size": each.point.global_batch_size,
            "num_runs": 0,
            "status": each.status,
        }
        yield CurvePoint.model_validate({**absent, **known, **fields})
