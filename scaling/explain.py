"""Explain: what takes memory and time of a point, where its axes lie, what is better.

All from the cost and the prediction of the point: parts sum to what those say.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from meshes.chip import Chip
from meshes.spec import Axis
from meshes.spec import MeshSpec
from meshes.spec import Network
from scaling.analytic import cost
from scaling.cost import Collective
from scaling.feasibility import AXES_AT_WORK
from scaling.held import Held
from scaling.held import held
from scaling.placement import places
from scaling.point import Point
from scaling.predict import Prediction
from scaling.predict import predict
from scaling.predict import timed_collectives
from scaling.search import Candidate
from scaling.search import judged

WORTH_A_MOVE = 0.01
"""Gain in throughput below which another mesh is not called better."""


class Taken(NamedTuple):
    """Seconds of a step that one cause takes, alone and at full rate."""

    cause: str
    """`compute`, `hbm`, or the network of `collective`."""
    collective: Collective | None
    seconds: float
    share_fraction: float
    """Of the sum over all: the step if nothing overlapped."""


class Lies(NamedTuple):
    """Where one axis of the mesh lies on one network."""

    axis: Axis
    network: Network
    size: int
    dims: tuple[int, ...] | None
    """Torus dims along which it has members, from 0; () stays within a chip; None has
    no torus."""
    lengths: tuple[int, ...]
    """Members along those dims."""
    closed: tuple[bool, ...] | None
    """Which of them are rings; None where there is no torus."""
    links: float | None
    """Of one chip, each way, as far as known; shared ones count in part."""
    bytes_per_s: float | None
    """What one device can send."""


class Better(NamedTuple):
    """The nearest faster mesh on the same slices."""

    candidate: Candidate
    steps: int
    """Moves of a prime factor from one axis to another on the same network."""
    gain: float | None
    """In throughput; None where the point itself does not fit."""


class Explanation(NamedTuple):
    """What a point's prediction consists of."""

    point: Point
    predicted: Prediction
    fits: bool
    memory: tuple[Held, ...]
    """Largest first; sums to the predicted peak."""
    times: tuple[Taken, ...] | None
    """Largest first; None where a figure of the chip is unknown."""
    axes: tuple[Lies, ...]
    num_meshes: int
    """Of the same slices, the point's own among them."""
    better: Better | None
    """None where none is, or nothing can be compared."""


def explain(
    point: Point, chip: Chip, *, host_memory_bytes: int | None = None
) -> Explanation:
    """Returns what the prediction of a feasible point consists of.

    With `host_memory_bytes` all devices of a point live in that memory, as on CPU.
    """
    predicted = predict(point, chip)
    own = judged(point, chip, host_memory_bytes=host_memory_bytes)
    fits = isinstance(own, Candidate) or own.obstacle != "memory"
    rings = tuple(_rings(point.mesh))
    return Explanation(
        point=point,
        predicted=predicted,
        fits=fits,
        memory=tuple(sorted(held(point), key=lambda each: -each.bytes)),
        times=_times(point, chip, predicted),
        axes=tuple(_lies(point, chip)),
        num_meshes=sum(map(len, rings)),
        better=None
        if fits and predicted.step_time_s is None
        else _nearest_better(
            point,
            chip,
            rings,
            slowest_s=predicted.step_time_s if fits else None,
            host_memory_bytes=host_memory_bytes,
        ),
    )


def neighbours(mesh: MeshSpec) -> Iterator[MeshSpec]:
    """Yields the meshes one step away: a prime factor of an axis is another's.

    On the same network, so that slices and their devices stay what they are.
    """
    networks: tuple[Network, ...] = ("dcn", "ici")
    for network in networks:
        for source in AXES_AT_WORK:
            for prime in _primes(mesh.size(source, network)):
                for target in AXES_AT_WORK:
                    if target != source:
                        yield _moved(mesh, network, source, target, prime)


def _moved(
    mesh: MeshSpec, network: Network, source: Axis, target: Axis, prime: int
) -> MeshSpec:
    sizes: dict[Axis, int] = {axis: mesh.size(axis, network) for axis in AXES_AT_WORK}
    sizes[source] //= prime
    sizes[target] *= prime
    pairs = tuple(sizes.items())
    if network == "dcn":
        return MeshSpec(dcn=pairs, ici=mesh.ici)
    return MeshSpec(dcn=mesh.dcn, ici=pairs)


def _rings(mesh: MeshSpec) -> Iterator[tuple[MeshSpec, ...]]:
    """Yields all meshes of the same slices by their steps from `mesh`, itself first."""
    seen: dict[MeshSpec, None] = {mesh: None}
    ring = (mesh,)
    while ring:
        yield ring
        found = dict.fromkeys(n for each in ring for n in neighbours(each))
        ring = tuple(each for each in found if each not in seen)
        seen |= dict.fromkeys(ring)


def _nearest_better(
    point: Point,
    chip: Chip,
    rings: tuple[tuple[MeshSpec, ...], ...],
    *,
    slowest_s: float | None,
    host_memory_bytes: int | None,
) -> Better | None:
    """Returns the fastest of the nearest that are better, or None."""
    for steps, ring in enumerate(rings[1:], start=1):
        points = (point.model_copy(update={"mesh": mesh}) for mesh in ring)
        found = [judged(p, chip, host_memory_bytes=host_memory_bytes) for p in points]
        fitting = [each for each in found if isinstance(each, Candidate)]
        if not fitting:
            continue
        best = min(fitting, key=lambda each: (each.step_time_s, str(each.point.mesh)))
        gain = None if slowest_s is None else slowest_s / best.step_time_s - 1
        if gain is None or gain >= WORTH_A_MOVE:
            return Better(best, steps, gain)
    return None


def _times(point: Point, chip: Chip, predicted: Prediction) -> tuple[Taken, ...] | None:
    if predicted.times_s is None:
        return None
    total = sum(predicted.times_s.values())
    parts: list[tuple[str, Collective | None, float]] = [
        (cause, None, predicted.times_s[cause]) for cause in ("compute", "hbm")
    ]
    for timed in timed_collectives(point, chip, cost(point)):
        assert timed.seconds is not None
        parts.append((timed.collective.network, timed.collective, timed.seconds))
    taken = (Taken(*part, part[-1] / total if total else 0.0) for part in parts)
    return tuple(sorted(taken, key=lambda each: -each.seconds))


def _lies(point: Point, chip: Chip) -> Iterator[Lies]:
    placed = places(point, chip)
    for axis, size in point.mesh.ici:
        if axis not in placed:
            yield _on_switch(axis, size, chip)
            continue
        place = placed[axis]
        yield Lies(
            axis=axis,
            network="ici",
            size=size,
            dims=tuple(each.dim for each in place.dims),
            lengths=tuple(each.members for each in place.dims),
            closed=tuple(each.closed for each in place.dims),
            links=place.links,
            bytes_per_s=_per_device(chip, chip.ici_link_bytes_per_s, place.links),
        )
    for axis, size in point.mesh.dcn:
        rate = _per_device(chip, chip.dcn_bytes_per_s, 1)
        yield Lies(axis, "dcn", size, None, (), None, None, rate)


def _on_switch(axis: Axis, size: int, chip: Chip) -> Lies:
    """Returns an axis on NVLink, or in the memory that the cores of a host share."""
    links = chip.ici_links
    rate = _per_device(chip, chip.ici_link_bytes_per_s, links)
    if chip.platform == "cpu":
        # Each byte is read and written.
        links, rate = None, _per_device(chip, chip.hbm_bytes_per_s, 0.5)
    return Lies(axis, "ici", size, None, (), None, links, rate)


def _per_device(chip: Chip, rate: float | None, times: float | None) -> float | None:
    if rate is None or times is None:
        return None
    return rate * times / chip.devices_per_chip


def _primes(number: int) -> tuple[int, ...]:
    """Returns the prime factors of a number, each once."""
    found: list[int] = []
    for candidate in range(2, math.isqrt(number) + 1):
        if number % candidate == 0:
            found.append(candidate)
            while number % candidate == 0:
                number //= candidate
    return (*found, number) if number > 1 else tuple(found)
