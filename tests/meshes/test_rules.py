"""Rules: shard shapes by hand, and what is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshes.rules import RULES
from meshes.rules import rules
from meshes.rules import shard_shape
from meshes.rules import shard_size
from meshes.rules import spec_entries
from meshes.spec import AXES
from meshes.spec import MeshSpec

pytestmark = pytest.mark.fast


def test_the_table_names_mesh_axes_only() -> None:
    assert {axis for axes in RULES.values() for axis in axes} <= set(AXES)
    parameters = {"layers", "embed", "mlp", "heads", "kv_heads", "head_dim", "vocab"}
    activations = {"batch", "seq", "residual_seq", "whole"}
    assert parameters | {"positions"} | activations == set(RULES)


def test_the_residual_stream_is_sharded_where_it_is_asked_for() -> None:
    assert rules("replicated")["residual_seq"] == ("context",)
    assert rules("seq")["residual_seq"] == ("context", "tensor")


@pytest.mark.parametrize(
    ("logical", "entries"),
    [
        (("layers", "embed", "mlp"), (None, ("fsdp",), ("tensor",))),
        (
            ("layers", "embed", "heads", "head_dim"),
            (None, ("fsdp",), ("tensor",), None),
        ),
        (("batch", "seq", "whole"), (("data", "fsdp"), ("context",), None)),
        (("batch", "seq", "vocab"), (("data", "fsdp"), ("context",), ("tensor",))),
        ((), ()),
    ],
)
def test_entries_by_hand(logical, entries) -> None:
    assert spec_entries(logical) == entries


def test_shards_by_hand() -> None:
    mesh = MeshSpec.parse("data=2/fsdp=4,tensor=2")
    assert shard_shape((3, 128, 512), ("layers", "embed", "mlp"), mesh) == (3, 32, 256)
    assert shard_shape((64, 128), ("batch", "seq"), mesh) == (8, 128)
    # One axis on both networks counts with both of its sizes.
    both = MeshSpec.parse("fsdp=2/fsdp=4")
    assert shard_shape((128,), ("embed",), both) == (16,)


@pytest.mark.parametrize(
    ("mesh", "shape", "logical", "says"),
    [
        (
            "1/tensor=2",
            (50257,),
            ("vocab",),
            ["vocab 50257", "tensor=2", "50256 or 50258"],
        ),
        (
            "1/tensor=4",
            (6,),
            ("heads",),
            ["heads 6", "tensor=4", "heads 4 or 8", "3 or 6"],
        ),
        (
            "1/tensor=4",
            (2,),
            ("kv_heads",),
            ["kv_heads 2", "kv_heads 4 would", "tensor of 2"],
        ),
        (
            "data=2/fsdp=4",
            (12,),
            ("batch",),
            ["batch 12", "data=2 × fsdp=4", "8 or 16"],
        ),
        ("1/context=8", (100,), ("seq",), ["seq 100", "context=8", "96 or 104"]),
    ],
)
def test_what_does_not_divide_names_dim_axis_and_nearest_sizes(
    mesh, shape, logical, says
) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 (text checked below)
        shard_shape(shape, logical, MeshSpec.parse(mesh))
    message = str(error.value)
    for part in says:
        assert part in message


@given(st.integers(1, 10_000), st.integers(2, 512))
def test_the_sizes_it_names_do_work_and_nothing_nearer_does(size, parts) -> None:
    mesh = MeshSpec(ici=(("tensor", parts),))
    try:
        assert shard_size("mlp", size, ("tensor",), mesh) * parts == size
    except ValueError as error:
        dims, axes = str(error).split("; mlp ")[1].split(" would")
        near = [int(word) for word in dims.split(" or ")]
        assert near
        for good in near:
            assert shard_size("mlp", good, ("tensor",), mesh) * parts == good
            assert abs(good - size) < parts
        for good in axes.removeprefix(", or tensor of ").split(" or "):
            assert size % int(good) == 0
    else:
        assert size % parts == 0


@given(st.lists(st.sampled_from(sorted(RULES)), max_size=3, unique=True))
def test_shards_of_all_devices_make_the_whole(logical) -> None:
    mesh = MeshSpec.parse("data=2/data=2,fsdp=2,context=2,tensor=2")
    shape = tuple(16 for _ in logical)
    try:
        entries = spec_entries(logical)
    except ValueError:
        return
    shard = shard_shape(shape, logical, mesh)
    parts = math.prod(mesh.size(axis) for axes in entries for axis in axes or ())
    assert math.prod(shape) == math.prod(shard) * parts


@pytest.mark.parametrize("logical", [("mlp", "heads"), ("batch", "embed")])
def test_one_mesh_axis_twice_in_an_array_is_refused(logical) -> None:
    with pytest.raises(ValueError, match="would shard both") as error:
        spec_entries(logical)
    assert all(repr(name) in str(error.value) for name in logical)


@pytest.mark.parametrize("size", [0, -8])
def test_an_empty_dim_is_no_shard(size) -> None:
    with pytest.raises(
        ValueError, match=f"batch {size} does not divide.*batch 4 would"
    ):
        shard_size("batch", size, ("data",), MeshSpec.parse("1/data=4"))


def test_unknown_names_and_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'head'.*choose from.*did you mean 'heads'"):
        spec_entries(("head",))
    with pytest.raises(ValueError, match=r"\(4, 4\) has 2 dims and 1 logical axes"):
        shard_shape((4, 4), ("embed",), MeshSpec())
