"""Family: curves that belong into one figure, each a series with a name.

A family has one model, one chip, one regime and one set of software choices; its
series differ in what grows, in the batch, or in the mesh they start from.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from scaling.breakdown import Breakdown
from scaling.curve import Curve
from scaling.curve import CurveKind
from scaling.curve import batch_text
from scaling.point import Point
from scaling.point import Regime
from scaling.report.marks import SWATCHES

SHOWN_ALWAYS = ("seq_len", "compute_dtype")
NOT_SETTINGS = frozenset(
    {"model", "chip", "mesh", "slice_shape", "global_batch_size", "regime"}
)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A curve with its judgement; None where the curve is not one that is judged."""

    curve: Curve
    breakdown: Breakdown | None


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a figure; measured and simulated parts share colour and name."""

    number: int
    """Position in the legend, which decides colour and shape."""
    label: str
    judged: tuple[Judged, ...]


@dataclass(frozen=True, kw_only=True)
class Family:
    """Series that can be compared in one figure."""

    kind: CurveKind
    regime: Regime | None
    model: str
    chip: str
    settings: str
    environment: str
    """Names the environment that all its points share; empty where nothing ran."""
    series: tuple[Series, ...]
    part: int = 0
    """Counts the families that a larger one was split into; the first holds `best`."""

    @property
    def breaks(self) -> bool:
        """Whether scaling surely stops paying on one of its curves."""
        return any(
            judged.breakdown is not None
            and judged.breakdown.outcome in ("breaks", "retrograde")
            for series in self.series
            for judged in series.judged
        )


def families(
    judged: Sequence[Judged], points: Mapping[str, Point]
) -> tuple[Family, ...]:
    """Returns the families of `judged` in order of appearance.

    A family with more series than the legend has colours is split.
    """
    groups: dict[tuple[object, ...], list[Judged]] = {}
    for each in judged:
        groups.setdefault(_key(each.curve, points), []).append(each)
    return tuple(
        family for members in groups.values() for family in _split(members, points)
    )


def settings_text(point: Point | None) -> str:
    """Returns the software choices of `point`: the usual ones, and what is unusual."""
    if point is None:
        return ""
    chosen = point.model_dump(mode="json", exclude_defaults=True)
    always = {name: getattr(point, name) for name in SHOWN_ALWAYS}
    shown = {**always, **chosen}
    return ", ".join(
        f"{name} {value}" for name, value in shown.items() if name not in NOT_SETTINGS
    )


def _key(curve: Curve, points: Mapping[str, Point]) -> tuple[object, ...]:
    point = points.get(curve.points[0].id)
    return (
        curve.kind,
        curve.regime,
        curve.model,
        curve.chip,
        settings_text(point),
        curve.series,
    )


def _split(members: Sequence[Judged], points: Mapping[str, Point]) -> Iterator[Family]:
    curve = members[0].curve
    settings = [settings_text(points.get(curve.points[0].id))]
    batches = {batch_text(each.curve) for each in members}
    if curve.kind == "scaling" and len(batches) == 1:
        settings = [*batches, *settings]
    named = tuple(_named(members).items())
    for part, start in enumerate(range(0, len(named), len(SWATCHES))):
        yield Family(
            kind=curve.kind,
            regime=curve.regime,
            model=curve.model,
            chip=curve.chip,
            settings=", ".join(filter(None, settings)),
            environment=curve.series,
            series=tuple(
                Series(number=number, label=label, judged=tuple(group))
                for number, (label, group) in enumerate(
                    named[start : start + len(SWATCHES)]
                )
            ),
            part=part,
        )


def _named(members: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Returns the members by the shortest names that tell them apart."""
    names = next(filter(None, (_unique(members, name) for name in _NAMES)), None)
    if names is None:
        names = [f"{_NAMES[-1](each.curve)} ({n})" for n, each in enumerate(members, 1)]
    series: dict[str, list[Judged]] = {}
    for name, each in zip(names, members, strict=True):
        series.setdefault(name, []).append(each)
    return series


def _unique(
    members: Sequence[Judged], name: Callable[[Curve], str]
) -> list[str] | None:
    """Returns the name of each member; None if two of one provenance share one."""
    names = [name(each.curve) for each in members]
    told_apart = {
        (text, each.curve.direction, each.curve.provenance)
        for text, each in zip(names, members, strict=True)
    }
    return names if len(told_apart) == len(members) else None


def _growth(curve: Curve) -> str:
    """Returns the axis that grows, one name for both directions: panels tell them."""
    if curve.kind == "load":
        return curve.points[0].mesh
    axis = curve.growth.rpartition(":")[2]
    return "best mesh" if axis == "best" else f"{axis} axis"


def _growth_and_batch(curve: Curve) -> str:
    return f"{_growth(curve)}, {batch_text(curve)}"


def _growth_and_start(curve: Curve) -> str:
    return f"{_growth(curve)} from {curve.points[0].mesh}"


def _growth_start_and_batch(curve: Curve) -> str:
    return f"{_growth_and_start(curve)}, {batch_text(curve)}"


_NAMES = (_growth, _growth_and_batch, _growth_and_start, _growth_start_and_batch)
