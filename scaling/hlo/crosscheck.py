"""Cross-check: where a compiled program does other work than the closed form says."""

from collections.abc import Iterable
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import NonNegativeFloat

from meshes.collectives import CollectiveKind
from meshes.spec import AXES
from meshes.spec import Axis
from scaling.cost import Collective
from scaling.cost import Cost
from scaling.hlo.accounting import Accounting

TOLERANCE_FRACTION = 0.05
"""Differences up to it are not named."""
NEGLIGIBLE_FRACTION = 0.01
"""Collectives below this share of their network's bytes, as the mean of the loss."""


class Difference(BaseModel):
    """One amount of which the program and the closed form say different things."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """`executed_flops`, or `bytes` with network and axes."""
    compiled: NonNegativeFloat
    expected: NonNegativeFloat
    compiled_kinds: tuple[CollectiveKind, ...] = ()
    """By which collectives, most bytes first; none for FLOPs."""
    expected_kinds: tuple[CollectiveKind, ...] = ()

    @property
    def fraction(self) -> float | None:
        """Compiled above expected, as a share of expected; None where that is 0."""
        return self.compiled / self.expected - 1 if self.expected else None


def compare(
    accounting: Accounting, cost: Cost, *, tolerance: float = TOLERANCE_FRACTION
) -> tuple[Difference, ...]:
    """Returns the FLOPs and sent bytes that differ by more than `tolerance`.

    Bytes are compared per network and axes; axes that one collective joins are
    compared together. Memory traffic is not: that of the closed form is a lower bound
    which knows nothing of attention's squares.
    """
    flops = Difference(
        name="executed_flops",
        compiled=accounting.executed_flops,
        expected=cost.executed_flops,
    )
    found = (flops, *_bytes(accounting.collectives, cost.collectives))
    return tuple(each for each in found if _differs(each, tolerance))


def _differs(each: Difference, tolerance: float) -> bool:
    return abs(each.compiled - each.expected) > tolerance * each.expected


def _bytes(
    compiled: Iterable[Collective], expected: Iterable[Collective]
) -> Iterator[Difference]:
    for network in ("ici", "dcn"):
        ours = [each for each in compiled if each.network == network]
        theirs = [each for each in expected if each.network == network]
        for axes in _joined(_axes_in_use(ours) + _axes_in_use(theirs)):
            mine = [each for each in ours if _within(each, axes)]
            other = [each for each in theirs if _within(each, axes)]
            yield Difference(
                name=f"bytes over {network} along {'+'.join(axes) or 'no axes'}",
                compiled=sum(each.bytes for each in mine),
                expected=sum(each.bytes for each in other),
                compiled_kinds=_kinds(mine),
                expected_kinds=_kinds(other),
            )


def _axes_in_use(collectives: Iterable[Collective]) -> list[tuple[Axis, ...]]:
    """Returns the axes of the collectives that are worth naming."""
    totals: dict[tuple[Axis, ...], float] = {}
    for each in collectives:
        totals[each.axes] = totals.get(each.axes, 0.0) + each.bytes
    least = NEGLIGIBLE_FRACTION * sum(totals.values())
    return [axes for axes, total in totals.items() if total > least]


def _within(each: Collective, axes: tuple[Axis, ...]) -> bool:
    return bool(each.axes) == bool(axes) and set(each.axes) <= set(axes)


def _joined(several: Iterable[tuple[Axis, ...]]) -> Iterator[tuple[Axis, ...]]:
    """Yields the axes in sets that no collective reaches across."""
    sets: list[set[Axis]] = []
    for axes in several:
        touching = [each for each in sets if each & set(axes)]
        rest = [each for each in sets if not each & set(axes)]
        if not axes and set() in rest:
            continue
        sets = [*rest, set(axes).union(*touching)]
    for each in sets:
        yield tuple(axis for axis in AXES if axis in each)


def _kinds(collectives: Iterable[Collective]) -> tuple[CollectiveKind, ...]:
    totals: dict[CollectiveKind, float] = {}
    for each in collectives:
        totals[each.kind] = totals.get(each.kind, 0.0) + each.bytes
    return tuple(sorted(totals, key=lambda kind: -totals[kind]))
