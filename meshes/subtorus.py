"""SubTorus: how the devices of one group lie on the torus of a slice.

Along each dim of the torus a group has some members, next to each other or a stride
apart. They are a ring where the torus closes around all of them, otherwise a line.
Groups that interleave share the links between their members.
"""

from typing import NamedTuple


class Dim(NamedTuple):
    """The members of a group along one dim of the torus."""

    dim: int
    """Of the slice's shape, from 0."""
    members: int
    stride: int
    """Chips from one member to the next."""
    closed: bool
    """Whether the last member is a neighbour of the first."""

    @property
    def links(self) -> float:
        """Links of one chip, each way, that the group has for itself.

        On a line the end receives everything over one.
        """
        return (2 if self.closed else 1) / self.stride

    @property
    def hops(self) -> int:
        """Links to the farthest member, on a line from its end."""
        away = self.members // 2 if self.closed else self.members - 1
        return away * self.stride

    @property
    def closing_hops(self) -> int:
        """Links that a shift by one member needs: on a line the last travels back."""
        return (1 if self.closed else self.members - 1) * self.stride


class SubTorus(NamedTuple):
    """The dims along which a group has more than one member.

    None where its members are the devices of one chip: as near as one link away.
    """

    dims: tuple[Dim, ...]

    @property
    def links(self) -> float:
        """Links of one chip, each way, over which the group can send."""
        return sum(each.links for each in self.dims) or 1.0

    @property
    def hops(self) -> int:
        """Links to the farthest member."""
        return sum(each.hops for each in self.dims) or 1

    @property
    def closing_hops(self) -> int:
        """Links that a shift by one member needs."""
        return max((each.closing_hops for each in self.dims), default=1)

    @property
    def crossing(self) -> float:
        """Members along the dim that is slowest to cross, per link that crosses it."""
        return max((each.members / each.links for each in self.dims), default=1.0)


def line(members: int) -> SubTorus:
    """Returns a line of its own, as a group whose place is not known is taken for."""
    return SubTorus((Dim(0, members, 1, False),))


def joined(several: tuple[SubTorus, ...]) -> SubTorus:
    """Returns the place of the axes together: traffic spreads over the dims of all."""
    return SubTorus(tuple(each for one in several for each in one.dims))
