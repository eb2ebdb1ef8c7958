"""Panels: what each chart shows, as plain data; `figures.py` draws it."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.curve import Direction
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.report.families import Family
from scaling.report.families import Judged
from scaling.report.families import Series
from scaling.report.plain import plain
from scaling.report.words import point_text
from scaling.samples import PointKey

Shown = Literal["throughput", "efficiency", "step_time"]
Reasons = Mapping[PointKey, str | None]
"""Why a point has the status it has, where it was run."""

GROWING: Mapping[Direction, str] = {
    "vertical": "more devices in each slice",
    "horizontal": "more slices, each unchanged",
}
REGIME_TITLES = {
    "strong": "Strong scaling: the global batch is fixed",
    "weak": "Weak scaling: the batch per device is fixed",
}


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One point of a series; `y` is None where the point has no such number."""

    series: int
    provenance: Provenance
    x: float
    y: float | None
    low: float | None
    high: float | None
    status: Status
    text: str
    """Everything about the mark in words, for tooltips and screen readers."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A place on the x axis with a few words: where series break."""

    series: tuple[int, ...]
    x: float
    y: float
    """Where the highest of their points stands."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart: marks of one quantity over devices or over load."""

    title: str
    subtitle: str
    shown: Shown
    x_title: str
    marks: tuple[Mark, ...]
    notes: tuple[Note, ...] = ()
    threshold: float | None = None
    starts: tuple[tuple[float, float], ...] = ()
    """Baselines of judged curves: ideal scaling is drawn from them."""
    logarithmic: bool = False
    """Whether y is: then equal slopes are equal scaling."""

    @property
    def description(self) -> str:
        """The chart in words, for who cannot see it."""
        marks = "; ".join(mark.text for mark in self.marks)
        return f"{self.title}, {self.shown}. {marks or 'Nothing to show'}."


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels that share their scales, with one legend; also one picture file."""

    name: str
    """Stem of the picture's file name."""
    title: str
    family: Family
    rows: tuple[tuple[Panel, ...], ...]

    @property
    def legend(self) -> tuple[tuple[Series, Provenance], ...]:
        """Each series with each provenance it is drawn in, once."""
        found: dict[tuple[int, Provenance], Series] = {}
        for series in self.family.series:
            for judged in series.judged:
                found.setdefault((series.number, judged.curve.provenance), series)
        return tuple((series, word) for (_, word), series in found.items())


def scaling_figure(
    family: Family, *, name: str, reasons: Reasons, threshold: float
) -> Figure:
    """Returns throughput above efficiency, vertical beside horizontal."""
    directions: tuple[Direction, Direction] = ("vertical", "horizontal")
    throughput = tuple(
        Panel(
            title=f"Throughput, {direction}",
            subtitle=f"{GROWING[direction]}; thin line: ideal",
            shown="throughput",
            x_title="devices, over all slices",
            marks=_marks(family, direction, "throughput", reasons),
            starts=_starts(family, direction),
            logarithmic=True,
        )
        for direction in directions
    )
    efficiency = tuple(
        Panel(
            title=f"Efficiency, {direction}",
            subtitle=GROWING[direction],
            shown="efficiency",
            x_title="devices, over all slices",
            marks=_marks(family, direction, "efficiency", reasons),
            notes=tuple(_notes(family, direction)),
            threshold=threshold,
        )
        for direction in directions
    )
    return Figure(
        name=name,
        title=REGIME_TITLES[family.regime or "strong"],
        family=family,
        # Where nothing has an efficiency its panels would only repeat the failures.
        rows=(throughput, efficiency) if _any_value(efficiency) else (throughput,),
    )


def load_figure(family: Family, *, name: str, reasons: Reasons) -> Figure:
    """Returns throughput beside step time over the batch, one series per mesh."""
    shown: tuple[tuple[str, Shown], ...] = (
        ("Throughput", "throughput"),
        ("Step time", "step_time"),
    )
    panels = tuple(
        Panel(
            title=title,
            subtitle="a growing batch on each mesh",
            shown=what,
            x_title="global batch, sequences per optimizer step",
            marks=_marks(family, None, what, reasons),
        )
        for title, what in shown
    )
    return Figure(
        name=name,
        title="Load: a growing batch on one mesh",
        family=family,
        rows=(panels,),
    )


def _any_value(panels: Iterable[Panel]) -> bool:
    return any(mark.y is not None for panel in panels for mark in panel.marks)


def _marks(
    family: Family, direction: Direction | None, shown: Shown, reasons: Reasons
) -> tuple[Mark, ...]:
    return tuple(
        mark
        for series, judged in _judged(family, direction)
        for mark in _curve_marks(judged.curve, series, shown, reasons)
    )


def _judged(
    family: Family, direction: Direction | None
) -> Iterator[tuple[Series, Judged]]:
    for series in family.series:
        for judged in series.judged:
            if judged.curve.direction == direction:
                yield series, judged


def _curve_marks(
    curve: Curve, series: Series, shown: Shown, reasons: Reasons
) -> Iterator[Mark]:
    for point in curve.points:
        y, low, high = _values(point, shown)
        if point.status == "ok" and y is None:
            continue
        reason = reasons.get((point.id, curve.provenance, curve.series))
        words = point_text(curve, point, reason)
        yield Mark(
            series=series.number,
            provenance=curve.provenance,
            x=point.num_devices if curve.kind == "scaling" else point.global_batch_size,
            y=y if point.status == "ok" else None,
            low=low,
            high=high,
            status=point.status,
            text=plain(f"{series.label}: {words}"),
        )


def _values(
    point: CurvePoint, shown: Shown
) -> tuple[float | None, float | None, float | None]:
    """Returns the value shown with its bounds."""
    if shown == "efficiency":
        return point.efficiency, point.efficiency_low, point.efficiency_high
    step = (point.step_time_s, point.step_time_low_s, point.step_time_high_s)
    if shown == "step_time":
        return step
    if point.tokens_per_s is None or not all(step):
        return point.tokens_per_s, None, None
    middle, low, high = (each or 1.0 for each in step)
    tokens = point.tokens_per_s * middle
    return point.tokens_per_s, tokens / high, tokens / low


def _notes(family: Family, direction: Direction) -> Iterator[Note]:
    broken: dict[int, list[tuple[int, float]]] = {}
    threshold = 0.0
    for series, judged in _judged(family, direction):
        found = judged.breakdown
        for point in judged.curve.points:
            if (
                found is not None
                and point.num_devices == found.first_bad_devices
                and point.efficiency is not None
            ):
                threshold = found.threshold
                at = (series.number, point.efficiency)
                broken.setdefault(point.num_devices, []).append(at)
    for devices, places in sorted(broken.items()):
        several = f" ({len(places)} series)" if len(places) > 1 else ""
        yield Note(
            series=tuple(number for number, _ in places),
            x=devices,
            y=max(efficiency for _, efficiency in places),
            text=f"below {threshold:g} from {devices}{several}",
        )


def _starts(family: Family, direction: Direction) -> tuple[tuple[float, float], ...]:
    starts = {
        (point.num_devices, point.tokens_per_s): None
        for _, judged in _judged(family, direction)
        for point in judged.curve.points
        if judged.breakdown is not None
        and point.id == judged.curve.baseline_id
        and point.tokens_per_s
    }
    return tuple(starts)
