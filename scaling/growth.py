"""Growth: which points differ only in what grows, and so may stand on one curve.

Vertically one ici axis grows while the slices stay what they are in number; across
them horizontally one dcn axis grows while each slice stays as it is. Strong scaling
holds the global batch, weak scaling the batch per device. Everything else in a point,
fields not yet thought of included, must be equal.
"""

import json
from collections import defaultdict
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from meshes.spec import AXES
from meshes.spec import Axis
from meshes.spec import Network
from scaling.point import Point
from scaling.samples import PointRuns
from scaling.samples import as_one

Direction = Literal["vertical", "horizontal"]
_DIRECTIONS: tuple[tuple[Network, Direction], ...] = (
    ("ici", "vertical"),
    ("dcn", "horizontal"),
)

GROWS = frozenset({"mesh", "slice_shape", "global_batch_size"})
"""The fields of a point in which the points of one curve may differ."""

_Key = tuple[Hashable, ...]


@dataclass(frozen=True, kw_only=True)
class Members:
    """Points of one series that differ only in `growth`; provenances may differ."""

    direction: Direction | None
    """None for a load curve."""
    growth: str
    points: tuple[PointRuns, ...]


def scaling_members(runs: Sequence[PointRuns]) -> Iterator[Members]:
    """Yields the points of every scaling curve, of at least two device counts.

    `best` holds every mesh of its counts; it is left out where it would only repeat a
    curve on which a single axis grows.
    """
    fixed = [_fixed(each.point) for each in runs]

    def growing(keys: Iterable[_Key]) -> Iterator[tuple[PointRuns, ...]]:
        for points in _grouped(runs, zip(keys, fixed, strict=True)):
            if len({each.point.mesh.num_devices for each in points}) > 1:
                yield points

    for network, direction in _DIRECTIONS:
        seen: set[frozenset[str]] = set()
        for axis in AXES:
            for points in growing(_but(axis, network, each.point) for each in runs):
                seen.add(_ids(points))
                yield Members(
                    direction=direction, growth=f"{network}:{axis}", points=points
                )
        for points in growing(_counts(network, each.point) for each in runs):
            if _ids(points) not in seen:
                yield Members(direction=direction, growth="best", points=points)


def load_members(runs: Sequence[PointRuns]) -> Iterator[Members]:
    """Yields the points of every load curve: one mesh, at least two batches.

    The regime says what a scaling curve holds and is no difference here: of one mesh
    and batch the strong and the weak point are one program, whose runs are pooled.
    """
    meshes = (
        (
            str(each.point.mesh),
            each.point.slice_shape,
            _settings(each.point, but=GROWS | {"regime"}),
        )
        for each in runs
    )
    for points in _grouped(runs, meshes):
        if len({each.point.global_batch_size for each in points}) > 1:
            programs = _grouped(
                points,
                ((each.provenance, each.point.global_batch_size) for each in points),
            )
            yield Members(
                direction=None, growth="batch", points=tuple(map(as_one, programs))
            )


def _grouped(
    runs: Iterable[PointRuns], keys: Iterable[_Key]
) -> Iterator[tuple[PointRuns, ...]]:
    """Yields the runs of one series with equal keys."""
    groups: dict[_Key, list[PointRuns]] = defaultdict(list)
    for key, each in zip(keys, runs, strict=True):
        groups[each.series, *key].append(each)
    yield from map(tuple, groups.values())


def _ids(points: Iterable[PointRuns]) -> frozenset[str]:
    return frozenset(each.point_id for each in points)


def _fixed(point: Point) -> _Key:
    """Returns what the points of a scaling curve share, whatever grows."""
    per_device = Fraction(point.global_batch_size, point.mesh.num_devices)
    batch = per_device if point.regime == "weak" else point.global_batch_size
    return (_settings(point), batch)


def _settings(point: Point, but: Iterable[str] = GROWS) -> str:
    return json.dumps(point.model_dump(mode="json", exclude=set(but)), sort_keys=True)


def _but(axis: Axis, network: Network, point: Point) -> _Key:
    """Returns the mesh without the size of `axis` on `network`, and a fixed slice."""
    mesh = point.mesh
    rest = tuple(pair for pair in getattr(mesh, network) if pair[0] != axis)
    if network == "ici":
        return (mesh.dcn, rest)
    return (rest, mesh.ici, point.slice_shape)


def _counts(network: Network, point: Point) -> _Key:
    """Returns what is left of a mesh where any mesh of its size will do."""
    mesh = point.mesh
    if network == "ici":
        return (mesh.num_slices,)
    return (mesh.devices_per_slice, point.slice_shape)
