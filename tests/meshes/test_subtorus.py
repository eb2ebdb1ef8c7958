import pytest

from meshes.subtorus import Dim
from meshes.subtorus import SubTorus
from meshes.subtorus import joined
from meshes.subtorus import line

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("dim", "links", "hops", "closing_hops"),
    [
        (Dim(0, 16, 1, True), 2, 8, 1),
        (Dim(0, 8, 1, False), 1, 7, 7),
        # A pair at both ends of a stretch of three; two more interleave with it.
        (Dim(0, 2, 3, False), 1 / 3, 3, 3),
        # Every second chip of a ring of 8.
        (Dim(0, 4, 2, True), 1, 4, 2),
    ],
)
def test_one_dim_by_hand(dim, links, hops, closing_hops):
    place = SubTorus((dim,))
    assert (place.links, place.hops, place.closing_hops) == (links, hops, closing_hops)


def test_several_dims_add_links_and_hops():
    place = SubTorus((Dim(0, 8, 1, True), Dim(1, 2, 1, False)))
    assert place.links == 3
    assert place.hops == 4 + 1
    # What closes the pair travels one link, and so does a shift in the ring.
    assert place.closing_hops == 1
    # 8 members over the two links of a ring, 2 over the one of a line.
    assert place.crossing == 4


def test_devices_of_one_chip_are_a_link_apart():
    place = SubTorus(())
    assert (place.links, place.hops, place.closing_hops, place.crossing) == (1, 1, 1, 1)


def test_axes_together_have_the_dims_of_both():
    ring, pair = SubTorus((Dim(1, 4, 1, True),)), line(2)
    assert joined((ring, pair)).links == ring.links + pair.links
