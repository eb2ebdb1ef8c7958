import math

import pytest

from meshes.hardware import chip
from meshes.spec import MeshSpec
from scaling.candidates import Split
from scaling.candidates import candidates
from scaling.candidates import policies
from scaling.candidates import policy_of
from scaling.candidates import splits
from scaling.point import Point


def base(**changes):
    fields = {
        "model": "tiny",
        "chip": "v5e",
        "mesh": "1/1",
        "global_batch_size": 16,
        "seq_len": 128,
    }
    return Point.model_validate(fields | changes)


def test_devices_split_into_every_slice_that_is_on_offer():
    # v5e comes as 2x4, 2x2 and single chips; there is no slice of two.
    assert splits(chip("v5e"), 8) == (
        Split(1, 8, (2, 4)),
        Split(2, 4, (2, 2)),
        Split(8, 1, (1, 1)),
    )
    # 128 chips of v5p are 4x4x8 alone, 256 come in two shapes of whole cubes.
    assert [s.slice_shape for s in splits(chip("v5p"), 256) if s.num_slices < 3] == [
        (4, 4, 16),
        (4, 8, 8),
        (4, 4, 8),
    ]
    # Two devices a chip: 128 devices are a cube of 64.
    assert Split(1, 128, (4, 4, 4)) in splits(chip("v7x"), 128)
    assert splits(chip("v7x"), 3) == ()


def test_a_slice_that_is_given_is_the_only_one():
    assert splits(chip("v5p"), 256, (4, 4, 8)) == (Split(2, 128, (4, 4, 8)),)
    assert splits(chip("v5p"), 64, (4, 4, 8)) == ()


def test_on_gpus_a_slice_is_part_of_an_nvlink_domain():
    found = splits(chip("h100-sxm"), 32)
    assert found == (
        Split(4, 8, None),
        Split(8, 4, None),
        Split(16, 2, None),
        Split(32, 1, None),
    )
    assert splits(chip("h100-sxm"), 32, (4,))[0] == Split(8, 4, (4,))
    assert splits(chip("a100-80"), 1) == (Split(1, 1, None),)


def test_a_mesh_is_every_factorisation_over_three_axes_and_two_networks():
    # 8 = 2³ over data, fsdp and tensor. With 2^k slices there are C(k+2, 2) meshes
    # across and C(5-k, 2) within: k = 0, 1, 2, 3 give 10 + 3·6 + 6·3 + 10.
    all_splits = [Split(2**k, 8 // 2**k, None) for k in range(4)]
    found = tuple(candidates(base(), all_splits))
    meshes = {str(point.mesh) for point in found}
    assert len(meshes) == 10 + 18 + 18 + 10
    assert {point.mesh.num_devices for point in found} == {8}
    within = {str(p.mesh) for p in candidates(base(), [Split(1, 8, None)])}
    assert within == {
        "1/data=8",
        "1/fsdp=8",
        "1/tensor=8",
        "1/data=4,fsdp=2",
        "1/data=4,tensor=2",
        "1/data=2,fsdp=4",
        "1/data=2,tensor=4",
        "1/fsdp=4,tensor=2",
        "1/fsdp=2,tensor=4",
        "1/data=2,fsdp=2,tensor=2",
    }


def test_every_policy_is_tried_once_and_what_is_fixed_is_kept():
    mesh = MeshSpec.parse("1/data=2,fsdp=2,tensor=2")
    found = list(policies(base(), mesh, frozenset()))
    # 16 sequences over 4 shares leave 4: accumulation 1, 2 or 4.
    assert {each["accumulation"] for each in found} == {1, 2, 4}
    distinct = {tuple(sorted(each.items())) for each in found}
    assert len(distinct) == len(found)
    fields = math.prod(len({each[field] for each in found}) for field in found[0])
    assert fields == len(found)
    kept = list(policies(base(), mesh, frozenset({"remat", "accumulation"})))
    assert all(not {"remat", "accumulation"} & set(each) for each in kept)
    assert len(kept) == len(found) / 3 / len({each["remat"] for each in found})


@pytest.mark.parametrize(("batch", "parts"), [(16, (1, 2)), (12, (1,)), (4, (1,))])
def test_a_batch_that_does_not_divide_is_one_candidate(batch, parts):
    mesh = MeshSpec.parse("1/data=8")
    found = policies(base(global_batch_size=batch), mesh, frozenset())
    assert tuple(sorted({each["accumulation"] for each in found})) == parts


def test_candidates_are_points_as_anybody_would_write_them():
    for point in candidates(base(), splits(chip("v5e"), 8)):
        assert point == Point.model_validate(point.model_dump())
    remat = candidates(base(remat="full"), splits(chip("v5e"), 8), fixed={"remat"})
    assert {point.remat for point in remat} == {"full"}


def test_the_policy_of_a_point_is_what_is_not_default():
    assert policy_of(base()) == {}
    assert policy_of(base(remat="dots", accumulation=2)) == {
        "remat": "dots",
        "accumulation": 2,
    }
