"""Topology: the slices on offer, the squarest of a size, wrap-around links, hosts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshes.hardware import CHIPS
from meshes.hardware import chip
from meshes.topology import check_slice
from meshes.topology import not_offered
from meshes.topology import num_chips
from meshes.topology import slices_of
from meshes.topology import squarest_slice
from meshes.topology import wraps

pytestmark = pytest.mark.fast

# The default topology of a number of cores in AI-Hypercomputer/maxtext
# accelerator_to_spec_map.py, v5p and tpu7x, as chips along x, y, z.
CLOUD = """
2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x8x8 4x4x20 4x8x12 4x4x28 8x8x8 4x12x12
8x8x12 4x12x20 8x8x16 8x12x12 12x12x12 4x28x28 8x16x16 12x12x24 12x16x16 8x20x28
12x12x36 16x16x16 12x20x24 4x12x124 16x16x24
"""

TORUS = sorted(entry.name for entry in CHIPS.values() if entry.torus_dims)


@pytest.mark.parametrize(
    ("name", "chips", "shape"),
    [
        ("v2", 16, (4, 4)),
        ("v3", 512, (16, 32)),
        ("v3", 1024, (32, 32)),
        *[("v5e", math.prod(s), s) for s in [(1, 1), (2, 2), (2, 4), (4, 4), (4, 8)]],
        *[("v6e", math.prod(s), s) for s in [(8, 8), (8, 16), (16, 16)]],
        ("v4", 4, (2, 2, 1)),
        ("v4", 4096, (16, 16, 16)),
        ("v7x", 1, (1, 1, 1)),
        ("h100-sxm", 8, (8,)),
        ("h100-pcie", 2, (2,)),
        ("cpu", 7, (7,)),
    ],
)
def test_squarest_slices(name, chips, shape) -> None:
    assert squarest_slice(chip(name), chips) == shape


def test_the_squarest_cube_slice_is_the_one_that_the_cloud_gives() -> None:
    for text in CLOUD.split():
        shape = tuple(map(int, text.split("x")))
        assert squarest_slice(chip("v5p"), math.prod(shape)) == shape
        assert squarest_slice(chip("v7x"), math.prod(shape)) == shape


@pytest.mark.parametrize("name", TORUS)
@given(chips=st.integers(1, 10_000))
def test_a_slice_is_valid_or_its_neighbours_are_named(name, chips) -> None:
    entry = chip(name)
    shape, complaint = _try(lambda: squarest_slice(entry, chips))
    if shape is None:
        assert f"{name} slice has {chips} chips" in complaint
        for near in _numbers_after(complaint, "the nearest have", "largest slice has"):
            check_slice(entry, squarest_slice(entry, near))
    else:
        assert math.prod(shape) == chips
        check_slice(entry, shape)
        assert entry.max_slice_chips is not None
        assert chips <= entry.max_slice_chips


def _try(make):
    try:
        return make(), ""
    except ValueError as error:
        return None, str(error)


def _numbers_after(message: str, *marks: str) -> list[int]:
    tail = next(message.split(mark)[1] for mark in marks if mark in message)
    found = [int(word) for word in tail.split(";")[0].split() if word.isdigit()]
    assert found
    return found


@pytest.mark.parametrize(
    ("name", "chips", "says"),
    [
        ("v5e", 3, "nearest have 1 or 4"),
        ("v5e", 12, "nearest have 8 or 16"),
        ("v5e", 257, "largest slice has 256; put more slices left of the slash"),
        ("v5e", 0, "nearest have 1"),
        ("v5p", 1, "nearest have 4"),
        ("v5p", 48, "nearest have 32 or 64"),
        ("v5p", 100, "nearest have 64 or 128"),
        ("v5p", 8960, "largest slice has 6144"),
        ("h100-sxm", 16, "NVLink joins 8; put the rest left of the slash"),
        ("h100-sxm", 0, "take 1 or more"),
    ],
)
def test_unknown_sizes_name_the_nearest(name, chips, says) -> None:
    with pytest.raises(ValueError, match=f"{name} slice has {chips} chips.*{says}"):
        squarest_slice(chip(name), chips)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("v5e", (8, 16)),
        ("v3", (4, 8)),
        ("v5p", (4, 4, 116)),
        ("v5p", (8, 8, 12)),
        ("v7x", (1, 1, 1)),
        ("v4", (2, 2, 1)),
        ("b200", (5,)),
        ("cpu", (3,)),
    ],
)
def test_slices_that_exist(name, shape) -> None:
    check_slice(chip(name), shape)


def test_a_whole_pod_is_valid_where_named_and_never_chosen() -> None:
    v5p, pod = chip("v5p"), (16, 20, 28)
    check_slice(v5p, pod)
    assert wraps(v5p, pod) == (True, True, True)
    assert pod in slices_of(v5p, 8960, named=True)
    assert slices_of(v5p, 8960) == ()
    assert not_offered(v5p, pod) == (
        "v5p:16x20x28 is 8,960 chips, and the largest slice that can be had has 6,144"
    )
    assert not_offered(v5p, (16, 16, 24)) is None
    assert not_offered(chip("h200"), (8,)) is None


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("v5e", (4, 2), "no slice 4x2; 8 chips come as 2x4"),
        ("v5e", (3, 3), "no slice 3x3; the nearest have 8 or 16: 2x4 or 4x4"),
        ("v5p", (3, 5, 7), "the nearest have 64 or 128: 4x4x4 or 4x4x8"),
        ("v5e", (4, 16), "no slice 4x16; 64 chips come as 8x8"),
        ("v5e", (4, 4, 4), "slice 4x4x4 of v5e needs 2 positive dims, as 16x16"),
        ("v5p", (4, 4), "needs 3 positive dims"),
        ("v5p", (8, 4, 4), "128 chips come as 4x4x8"),
        ("v5p", (4, 8, 4), "128 chips come as 4x4x8"),
        ("v5p", (2, 2, 32), "128 chips come as 4x4x8"),
        ("v5p", (1, 1, 1), "the nearest have 4"),
        ("v5p", (16, 20, 32), r"largest slice has 6144 \(a pod has 8,960"),
        ("v5e", (-4, -4), "positive"),
        ("v5e", (), "needs 2 positive dims"),
        ("h200", (16,), "NVLink joins 8"),
        ("h200", (2, 4), "needs 1 positive dim"),
    ],
)
def test_slices_that_do_not_exist(name, shape, says) -> None:
    with pytest.raises(ValueError, match=says):
        check_slice(chip(name), shape)


@pytest.mark.parametrize(
    ("name", "shape", "closed"),
    [
        ("v5e", (4, 4), (False, False)),
        ("v5e", (8, 8), (False, False)),
        ("v5e", (8, 16), (False, True)),
        ("v6e", (16, 16), (True, True)),
        ("v3", (16, 16), (False, False)),
        ("v3", (16, 32), (False, True)),
        ("v5p", (2, 4, 4), (False, False, False)),
        ("v5p", (4, 4, 4), (True, True, True)),
        ("v4", (4, 4, 12), (True, True, True)),
        ("v7x", (2, 2, 1), (False, False, False)),
        ("h100-sxm", (8,), (False,)),
    ],
)
def test_wrap_around_links(name, shape, closed) -> None:
    assert wraps(chip(name), shape) == closed


def test_chips_of_devices() -> None:
    assert num_chips(chip("v5e"), 8) == 8
    assert num_chips(chip("v7x"), 8) == 4
    with pytest.raises(ValueError, match=r"3 devices.*v7x.*2 each; take 2 or 4"):
        num_chips(chip("v7x"), 3)
    with pytest.raises(ValueError, match=r"0 devices.*take 2"):
        num_chips(chip("v3"), 0)
