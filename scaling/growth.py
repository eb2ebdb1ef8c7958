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
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from meshes.spec import AXES
from meshes.spec import Axis
from meshes.spec import MeshSpec
from meshes.spec import Network
from scaling.point import Point
from scaling.samples import PointRuns

Direction = Literal["vertical", "horizontal"]
DIRECTIONS: Mapping[Network, Direction] = {"ici": "vertical", "dcn": "horizontal"}

GROWS = frozenset({"mesh", "slice_shape", "global_batch_size"})
"""The fields of a point in which the points of one curve may differ."""

_Groups = Mapping[tuple[Hashable, ...], Sequence[PointRuns]]


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
    fixed = {id(each): (each.series, *_fixed(each.point)) for each in runs}
    for network, direction in DIRECTIONS.items():
        seen: set[frozenset[str]] = set()
        for axis in AXES:
            by_axis = _grouped(
                runs, lambda each: (*fixed[id(each)], *_but(axis, network, each.point))
            )
            for points in _growing(by_axis):
                seen.add(frozenset(each.point_id for each in points))
                yield Members(
                    direction=direction, growth=f"{network}:{axis}", points=points
                )
        any_mesh = _grouped(
            runs, lambda each: (*fixed[id(each)], *_counts(network, each.point))
        )
        for points in _growing(any_mesh):
            if frozenset(each.point_id for each in points) not in seen:
                yield Members(direction=direction, growth="best", points=points)


def load_members(runs: Sequence[PointRuns]) -> Iterator[Members]:
    """Yields the points of every load curve: one mesh, at least two batches."""
    meshes = _grouped(
        runs,
        lambda each: (
            each.series,
            _settings(each.point),
            each.point.mesh,
            each.point.slice_shape,
        ),
    )
    for points in meshes.values():
        if len({each.point.global_batch_size for each in points}) > 1:
            yield Members(direction=None, growth="batch", points=tuple(points))


def _grouped(runs: Iterable[PointRuns], key) -> _Groups:
    groups: dict[tuple[Hashable, ...], list[PointRuns]] = defaultdict(list)
    for each in runs:
        groups[key(each)].append(each)
    return groups


def _growing(groups: _Groups) -> Iterator[tuple[PointRuns, ...]]:
    for points in groups.values():
        if len({each.point.mesh.num_devices for each in points}) > 1:
            yield tuple(points)


def _fixed(point: Point) -> tuple[Hashable, ...]:
    """Returns what the points of a scaling curve share, whatever grows."""
    per_device = Fraction(point.global_batch_size, point.mesh.num_devices)
    batch = per_device if point.regime == "weak" else point.global_batch_size
    return (_settings(point), batch)


def _settings(point: Point) -> str:
    return json.dumps(point.model_dump(mode="json", exclude=set(GROWS)), sort_keys=True)


def _but(axis: Axis, network: Network, point: Point) -> tuple[Hashable, ...]:
    """Returns the mesh without the size of `axis` on `network`, and a fixed slice."""
    mesh = point.mesh
    rest = tuple(pair for pair in getattr(mesh, network) if pair[0] != axis)
    if network == "ici":
        return (mesh.dcn, rest)
    return (rest, mesh.ici, point.slice_shape)


def _counts(network: Network, point: Point) -> tuple[Hashable, ...]:
    """Returns what is left of a mesh where any mesh of its size will do."""
    mesh: MeshSpec = point.mesh
    if network == "ici":
        return (mesh.num_slices,)
    return (mesh.devices_per_slice, point.slice_shape)
