"""Search: points ranked by predicted speed, and the others by what is in their way.

Pure: from shapes and figures of the chip alone, by the one formula of
`scaling.predict`.
"""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from typing import Literal
from typing import NamedTuple

from meshes.chip import Chip
from meshes.spec import MeshSpec
from scaling import quantity
from scaling.candidates import CHOICES
from scaling.feasibility import Obstacle
from scaling.feasibility import refusal
from scaling.point import Point
from scaling.predict import Prediction
from scaling.predict import predict

_DIGITS = 9
"""Of a step time; what differs beyond them differs by rounding alone."""


class Candidate(NamedTuple):
    """A point that fits, and what is expected of it."""

    point: Point
    predicted: Prediction

    @property
    def step_time_s(self) -> float:
        """In the middle of the band; every candidate has one."""
        assert self.predicted.step_time_s is not None
        return self.predicted.step_time_s


class TooLarge(NamedTuple):
    """A point that does not fit into memory."""

    point: Point
    excess_bytes: int
    """By which it exceeds what there is."""


class Refused(NamedTuple):
    """Candidates that cannot run, or not be ranked, because of one obstacle."""

    obstacle: Obstacle | Literal["memory", "policy", "figure"]
    """`memory`: the mesh fits under no policy; `policy`: it does under another."""
    num_candidates: int
    num_meshes: int
    reasons: tuple[tuple[str, int], ...]
    """Each with its number of candidates, the most frequent first."""
    nearest: TooLarge | None
    """The one that exceeds the memory least, where that is the obstacle."""


class Balance(NamedTuple):
    """What is left of the best throughput at one number of slices."""

    num_slices: int
    devices_per_slice: int
    best: Candidate | None
    """None where nothing fits."""
    relative: float | None
    """Its throughput over that of the best of all splits."""


class Found(NamedTuple):
    """The outcome of a search."""

    num_candidates: int
    num_meshes: int
    ranked: tuple[Candidate, ...]
    """All that fit, the fastest first; equals by memory, then the plainest."""
    refused: tuple[Refused, ...]
    """Most candidates first."""
    balance: tuple[Balance, ...]
    """By number of slices."""

    @property
    def best_by_mesh(self) -> tuple[Candidate, ...]:
        """Each mesh with its best slice shape and policy, the fastest first."""
        best: dict[MeshSpec, Candidate] = {}
        for candidate in self.ranked:
            best.setdefault(candidate.point.mesh, candidate)
        return tuple(best.values())


def search(
    points: Iterable[Point], chip: Chip, *, host_memory_bytes: int | None = None
) -> Found:
    """Returns `points` ranked on `chip`, with what is refused and why.

    With `host_memory_bytes` all devices of a point live in that memory, as on CPU.
    """
    ranked: list[Candidate] = []
    refused: list[Unranked] = []
    for point in points:
        found = judged(point, chip, host_memory_bytes=host_memory_bytes)
        if isinstance(found, Candidate):
            ranked.append(found)
        else:
            refused.append(found)
    ranked.sort(key=_order)
    everything = [each.point for each in (*ranked, *refused)]
    return Found(
        num_candidates=len(everything),
        num_meshes=len(set(map(attrgetter("mesh"), everything))),
        ranked=tuple(ranked),
        refused=_grouped(refused, set(map(attrgetter("point.mesh"), ranked))),
        balance=_balance(everything, ranked),
    )


class Unranked(NamedTuple):
    """A point that cannot run or has no predicted time, and why."""

    point: Point
    obstacle: Obstacle | Literal["memory", "figure"]
    reason: str
    excess_bytes: int | None = None
    """By which it exceeds the memory, where that is the obstacle."""


def judged(
    point: Point, chip: Chip, *, host_memory_bytes: int | None = None
) -> Candidate | Unranked:
    """Returns what is expected of a point, or why it cannot be ranked."""
    if (found := refusal(point)) is not None:
        return Unranked(point, found.obstacle, found.reason)
    predicted = predict(point, chip)
    needed, available = predicted.peak_hbm_bytes, predicted.available_hbm_bytes
    place = f"a device of {chip.name}"
    if host_memory_bytes is not None:
        needed, available = needed * point.mesh.num_devices, host_memory_bytes
        place = "this host"
    if available is not None and needed > available:
        reason = f"{place} has {quantity.bytes_(available)}"
        return Unranked(point, "memory", reason, needed - available)
    if predicted.step_time_s is None:
        reason = f"figures of {chip.name} are unknown, so no time is predicted"
        return Unranked(point, "figure", reason)
    return Candidate(point, predicted)


def _order(candidate: Candidate) -> tuple[Any, ...]:
    """Returns what ranks a candidate: time, then memory, then how plain it is."""
    point = candidate.point
    return (
        float(f"{candidate.step_time_s:.{_DIGITS}g}"),
        candidate.predicted.peak_hbm_bytes,
        point.accumulation,
        *(values.index(getattr(point, field)) for field, values in CHOICES.items()),
        point.mesh.num_slices,
        len(point.mesh.dcn) + len(point.mesh.ici),
        str(point.mesh),
        sum(point.slice_shape or ()),
        point.slice_shape or (),
    )


def _grouped(
    refused: Iterable[Unranked], fitting: set[MeshSpec]
) -> tuple[Refused, ...]:
    groups: dict[Any, list[Unranked]] = {}
    for each in refused:
        other = each.obstacle == "memory" and each.point.mesh in fitting
        groups.setdefault("policy" if other else each.obstacle, []).append(each)
    found = (_group(obstacle, members) for obstacle, members in groups.items())
    return tuple(sorted(found, key=lambda group: -group.num_candidates))


def _group(obstacle: Any, members: Sequence[Unranked]) -> Refused:
    too_large = [
        TooLarge(each.point, each.excess_bytes)
        for each in members
        if each.excess_bytes is not None
    ]
    return Refused(
        obstacle=obstacle,
        num_candidates=len(members),
        num_meshes=len(set(map(attrgetter("point.mesh"), members))),
        reasons=tuple(Counter(each.reason for each in members).most_common()),
        nearest=min(too_large, key=lambda each: each.excess_bytes, default=None),
    )


def _balance(
    everything: Iterable[Point], ranked: Sequence[Candidate]
) -> tuple[Balance, ...]:
    """Returns a row for each number of slices; `ranked` is the fastest first."""
    best: dict[int, Candidate] = {}
    for candidate in ranked:
        best.setdefault(candidate.point.mesh.num_slices, candidate)
    sizes = {each.mesh.num_slices: each.mesh.devices_per_slice for each in everything}
    return tuple(
        Balance(
            num_slices=num_slices,
            devices_per_slice=devices,
            best=best.get(num_slices),
            relative=ranked[0].step_time_s / best[num_slices].step_time_s
            if num_slices in best
            else None,
        )
        for num_slices, devices in sorted(sizes.items())
    )
