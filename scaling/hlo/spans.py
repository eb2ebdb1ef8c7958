"""Span: the mesh axes along which a collective's groups lie, on each network."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from collections.abc import Iterator

from meshes.spec import AXES
from meshes.spec import Axis
from meshes.spec import AxisSizes
from meshes.spec import MeshSpec
from meshes.spec import Network
from scaling.hlo.groups import Groups
from scaling.hlo.groups import Pairs

_Digit = tuple[Axis, Network, int]
"""A prime factor of one part of an axis: it has this many values."""
_Digits = tuple[tuple[_Digit, int], ...]
"""With their strides, outermost first."""


@dataclasses.dataclass(frozen=True)
class Span:
    """What joins the members of a group."""

    axes: tuple[Axis, ...] | None
    """In the order of `AXES`; None where the groups are no product of parts of axes."""
    ici_size: int
    """Members that one slice has of a group."""
    dcn_size: int
    """Slices that a group reaches."""

    @property
    def size(self) -> int:
        """Members of a group."""
        return self.ici_size * self.dcn_size


def span_of_groups(groups: Groups, mesh: MeshSpec) -> Span:
    """Returns the span of groups of positions in `mesh`.

    The groups must all vary along the same axes, or the same parts of axes, and hold
    every combination; else the span names no axes. Sizes are those of the largest
    group. Raises ValueError for a position outside the mesh.
    """
    _check(itertools.chain.from_iterable(groups), mesh)
    digits = _digits(mesh)
    varying = {_varying(group, digits) for group in groups if len(group) > 1}
    if not varying:
        return Span((), 1, 1)
    if len(varying) == 1 and len({len(group) for group in groups}) == 1:
        (dims,) = varying
        if _size(dims, digits) == len(groups[0]) == len(set(groups[0])):
            return Span(
                axes=_axes(dims, digits),
                ici_size=_size(dims, digits, "ici"),
                dcn_size=_size(dims, digits, "dcn"),
            )
    slices = max(len({_slice(each, mesh) for each in group}) for group in groups)
    return Span(None, max(map(len, groups)) // slices, slices)


def span_of_pairs(pairs: Pairs, mesh: MeshSpec) -> Span:
    """Returns the span of a permute: the axes along which sources and targets differ.

    The ring or line of most members gives the size; one that ever leaves its slice
    counts whole as between slices.
    """
    _check(itertools.chain.from_iterable(pairs), mesh)
    digits = _digits(mesh)
    dims = frozenset().union(*(_varying(pair, digits) for pair in pairs))
    crosses = any(_slice(a, mesh) != _slice(b, mesh) for a, b in pairs)
    members = max(map(len, _chains(pairs)))
    sizes = (1, members) if crosses else (members, 1)
    return Span(_axes(dims, digits), *sizes)


def _digits(mesh: MeshSpec) -> _Digits:
    """Returns every digit of a position with its stride, outermost first."""
    return _digits_of_sizes(mesh.dcn, mesh.ici)


@functools.lru_cache(maxsize=64)
def _digits_of_sizes(dcn: AxisSizes, ici: AxisSizes) -> _Digits:
    networks: dict[Network, dict[Axis, int]] = {"dcn": dict(dcn), "ici": dict(ici)}
    digits = [
        (axis, network, prime)
        for axis in AXES
        for network, sizes in networks.items()
        for prime in _primes(sizes.get(axis, 1))
    ]
    stride, found = 1, []
    for digit in reversed(digits):
        found.append((digit, stride))
        stride *= digit[2]
    return tuple(reversed(found))


def _primes(number: int) -> Iterator[int]:
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1


def _varying(members: Iterable[int], digits: _Digits) -> frozenset[int]:
    """Returns the digits in which the members differ."""
    first, *others = members
    found: set[int] = set()
    for at, ((_, _, count), stride) in enumerate(digits):
        value = first // stride % count
        if any(other // stride % count != value for other in others):
            found.add(at)
    return frozenset(found)


def _axes(dims: Iterable[int], digits: _Digits) -> tuple[Axis, ...]:
    named = {digits[at][0][0] for at in dims}
    return tuple(axis for axis in AXES if axis in named)


def _size(
    dims: Iterable[int],
    digits: _Digits,
    network: Network | None = None,
) -> int:
    size = 1
    for at in dims:
        _, on, count = digits[at][0]
        size *= count if network in (None, on) else 1
    return size


def _slice(position: int, mesh: MeshSpec) -> int:
    """Returns the slice of a position: its dcn digits read as one number."""
    number = 0
    for (_, network, count), stride in _digits(mesh):
        if network == "dcn":
            number = number * count + position // stride % count
    return number


def _chains(pairs: Pairs) -> Iterator[set[int]]:
    """Yields the devices that each ring or line of a permute joins."""
    joined: dict[int, set[int]] = {}
    for source, target in pairs:
        one = joined.setdefault(source, {source})
        other = joined.setdefault(target, {target})
        if one is not other:
            one |= other
            joined.update(dict.fromkeys(other, one))
    yield from {id(members): members for members in joined.values()}.values()


def _check(positions: Iterable[int], mesh: MeshSpec) -> None:
    highest = max(positions)
    if highest >= mesh.num_devices:
        raise ValueError(
            f"a collective names device {highest}, mesh {mesh} has "
            f"{mesh.num_devices} devices; give the mesh that was compiled"
        )
