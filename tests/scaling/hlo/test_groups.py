import itertools
import math

import hypothesis
import hypothesis.strategies as st
import pytest

from meshes.spec import AXES
from meshes.spec import MeshSpec
from scaling.hlo.groups import replica_groups
from scaling.hlo.groups import source_target_pairs
from scaling.hlo.spans import Span
from scaling.hlo.spans import span_of_groups
from scaling.hlo.spans import span_of_pairs

ROWS = ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))
COLUMNS = tuple(zip(*ROWS, strict=True))


@pytest.mark.parametrize(
    ("spelling", "groups"),
    [
        ("{}", (tuple(range(16)),)),
        ("{{}}", (tuple(range(16)),)),
        ("{{0,1,2,3},{4,5,6,7},{8,9,10,11},{12,13,14,15}}", ROWS),
        ("[4,4]<=[16]", ROWS),
        ("[4,4]<=[4,4]T(1,0)", COLUMNS),
        (
            "[2,8]<=[2,2,4]T(1,0,2)",
            ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, *ROWS[3])),
        ),
        ("mesh['axis_0'=4,'axis_1'=4] {'axis_0'}", COLUMNS),
        ("mesh['axis_0'=4,'axis_1'=4] {'axis_1'}", ROWS),
        ("mesh['data'=1,'fsdp'=16] {'fsdp'}", (tuple(range(16)),)),
        # (before)size: the inner four of sixteen, and the outer four
        ("mesh['fsdp'=16] {'fsdp':(4)4}", ROWS),
        ("mesh['fsdp'=16] {'fsdp':(1)4}", COLUMNS),
        ("mesh['a'=4,'b'=4], device_ids=([16]<=[4,4]T(1,0)) {'a'}", ROWS),
        ("mesh['a'=4,'b'=4], device_ids=([4,4]T(1,0)) {'a'}", ROWS),
    ],
)
def test_groups_in_every_spelling(spelling, groups):
    attributes = f", channel_id=1, replica_groups={spelling}, dimensions={{1}}, x={{{{"
    assert replica_groups(attributes, 16) == groups


def test_joined_axes_keep_the_order_of_their_names():
    groups = replica_groups("replica_groups=mesh['a'=2,'b'=2] {'b','a'}", 4)
    assert groups == ((0, 2, 1, 3),)


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ("channel_id=1", "has no replica_groups"),
        ("replica_groups=V2", "neither a list, an iota nor names"),
        ("replica_groups=mesh['a'=2] {'b'}", "the axis 'b'; the mesh has a"),
    ],
)
def test_groups_that_cannot_be_read_are_refused(attributes, sentence):
    with pytest.raises(ValueError, match=sentence):
        replica_groups(attributes, 4)


def test_pairs():
    pairs = source_target_pairs(", source_target_pairs={{0,1},{1,0}}, a={{2,3}}")
    assert pairs == ((0, 1), (1, 0))
    with pytest.raises(ValueError, match="lists no pairs"):
        source_target_pairs("source_target_pairs={}")


@pytest.mark.parametrize(
    ("mesh", "groups", "span"),
    [
        ("1/fsdp=4,tensor=4", ROWS, Span(("tensor",), 4, 1)),
        ("1/fsdp=4,tensor=4", COLUMNS, Span(("fsdp",), 4, 1)),
        ("1/fsdp=16", ROWS, Span(("fsdp",), 4, 1)),
        ("1/fsdp=4,tensor=4", (tuple(range(16)),), Span(("fsdp", "tensor"), 16, 1)),
        # data is outside fsdp, and its dcn part outside its ici part
        ("data=4/fsdp=4", COLUMNS, Span(("data",), 1, 4)),
        ("data=4/fsdp=4", ROWS, Span(("fsdp",), 4, 1)),
        ("fsdp=4/fsdp=4", (tuple(range(16)),), Span(("fsdp",), 4, 4)),
        ("1/fsdp=16", tuple((each,) for each in range(16)), Span((), 1, 1)),
        # no product: a diagonal, and groups that differ in what they join
        ("1/fsdp=4,tensor=4", ((0, 5), (1, 6)), Span(None, 2, 1)),
        ("1/fsdp=4,tensor=4", ((0, 1), (4, 8)), Span(None, 2, 1)),
        ("data=4/fsdp=4", ((0, 5), (1, 4)), Span(None, 1, 2)),
    ],
)
def test_spans_of_groups(mesh, groups, span):
    assert span_of_groups(groups, MeshSpec.parse(mesh)) == span


@pytest.mark.parametrize(
    ("mesh", "pairs", "span"),
    [
        (
            "1/fsdp=4,tensor=4",
            ((0, 1), (1, 2), (2, 3), (3, 0)),
            Span(("tensor",), 4, 1),
        ),
        ("1/fsdp=4,tensor=4", ((0, 4), (4, 8)), Span(("fsdp",), 3, 1)),
        ("data=4/fsdp=4", ((0, 4), (4, 0)), Span(("data",), 1, 2)),
    ],
)
def test_spans_of_pairs(mesh, pairs, span):
    assert span_of_pairs(pairs, MeshSpec.parse(mesh)) == span


def test_a_device_outside_the_mesh_is_refused():
    with pytest.raises(ValueError, match="device 16, mesh 1/fsdp=16 has 16"):
        span_of_groups(((0, 16),), MeshSpec.parse("1/fsdp=16"))


@st.composite
def meshes_and_parts(draw):
    parts = [(axis, network) for axis in AXES for network in ("dcn", "ici")]
    sizes = {part: draw(st.sampled_from([1, 1, 2, 3, 4])) for part in parts}
    hypothesis.assume(math.prod(sizes.values()) <= 500)
    joined = draw(st.sets(st.sampled_from(parts), min_size=1))
    hypothesis.assume(math.prod(sizes[part] for part in joined) > 1)
    return sizes, joined


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(meshes_and_parts())
def test_groups_along_parts_of_axes_are_found_again(case):
    sizes, joined = case
    mesh = MeshSpec(
        dcn=tuple((axis, sizes[axis, "dcn"]) for axis in AXES),
        ici=tuple((axis, sizes[axis, "ici"]) for axis in AXES),
    )
    # Positions by their digits, in the order in which meshes.build lays them out.
    places = list(itertools.product(*(range(size) for size in sizes.values())))
    groups = {}
    for position, place in enumerate(places):
        digits = zip(sizes, place, strict=True)
        apart = tuple(digit for part, digit in digits if part not in joined)
        groups.setdefault(apart, []).append(position)
    span = span_of_groups(tuple(map(tuple, groups.values())), mesh)
    assert span.axes == tuple(
        axis
        for axis in AXES
        if any((axis, n) in joined and sizes[axis, n] > 1 for n in ("dcn", "ici"))
    )
    for network, size in (("ici", span.ici_size), ("dcn", span.dcn_size)):
        assert size == math.prod(sizes[p] for p in joined if p[1] == network)
