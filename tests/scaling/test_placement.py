import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshes.hardware import chip
from meshes.subtorus import Dim
from meshes.subtorus import SubTorus
from scaling.placement import places
from scaling.point import Point


def placed(name, mesh, shape):
    point = Point.model_validate(
        {
            "model": "llama2-7b",
            "chip": name,
            "mesh": mesh,
            "slice_shape": shape,
            "global_batch_size": 4096,
            "seq_len": 4096,
        }
    )
    return places(point, chip(name))


def rings(*dims):
    return SubTorus(tuple(Dim(dim, members, 1, True) for dim, members in dims))


def lines(*dims):
    return SubTorus(tuple(Dim(dim, members, 1, False) for dim, members in dims))


@pytest.mark.parametrize(
    ("name", "mesh", "shape", "expected"),
    [
        # The whole 16x16 pod: both dims, both rings.
        ("v5e", "1/fsdp=256", (16, 16), {"fsdp": rings((0, 16), (1, 16))}),
        # On v5e only a dim of 16 is a ring.
        ("v5e", "1/fsdp=16", (4, 4), {"fsdp": lines((0, 4), (1, 4))}),
        (
            "v5e",
            "1/fsdp=128",
            (8, 16),
            {"fsdp": SubTorus((Dim(0, 8, 1, False), Dim(1, 16, 1, True)))},
        ),
        (
            "v5e",
            "1/fsdp=16,tensor=16",
            (16, 16),
            {"fsdp": rings((1, 16)), "tensor": rings((0, 16))},
        ),
        # Whole cubes: rings in every dim. The innermost axis chooses first.
        (
            "v5p",
            "1/fsdp=32,tensor=4",
            (4, 4, 8),
            {"fsdp": rings((1, 4), (2, 8)), "tensor": rings((0, 4))},
        ),
        ("v5p", "1/fsdp=64", (4, 4, 4), {"fsdp": rings((0, 4), (1, 4), (2, 4))}),
        # Two devices a chip, which are the innermost neighbours.
        ("v7x", "1/fsdp=128", (4, 4, 4), {"fsdp": rings((0, 4), (1, 4), (2, 4))}),
        ("v7x", "1/fsdp=4,tensor=2", (2, 2, 1), {"fsdp": lines((0, 2), (1, 2))}),
        # Slices do not concern what lies within one.
        ("v5e", "data=4/fsdp=256", (16, 16), {"fsdp": rings((0, 16), (1, 16))}),
        ("v5e", "1/1", (1, 1), {}),
        ("h100-sxm", "1/fsdp=8", None, {}),
    ],
)
def test_axes_take_whole_dims_from_the_innermost_outwards(name, mesh, shape, expected):
    found = placed(name, mesh, shape)
    assert {axis: place for axis, place in found.items() if place.dims} == expected


def test_an_axis_that_fits_no_whole_dims_takes_parts():
    # 16 of 8x8x8: one ring and a quarter of another dim, whose chips are neighbours;
    # fsdp has the third ring and every second chip of what is left, which closes.
    found = placed("v5p", "1/fsdp=32,tensor=16", (8, 8, 8))
    assert found["tensor"] == SubTorus((Dim(0, 8, 1, True), Dim(1, 2, 1, False)))
    assert found["fsdp"] == SubTorus((Dim(1, 4, 2, True), Dim(2, 8, 1, True)))


class Device:
    device_kind = "TPU v5"


SHAPES = ((4, 4), (4, 8), (16, 16), (2, 2, 4), (4, 4, 4), (4, 4, 12), (8, 8, 8))


@given(st.sampled_from(SHAPES), st.data())
def test_parts_are_those_of_the_mesh_that_jax_makes(shape, data):
    left, sizes = math.prod(shape), []
    for _ in range(data.draw(st.integers(0, 2))):
        size = data.draw(
            st.sampled_from([d for d in range(1, left + 1) if not left % d])
        )
        sizes.append(size)
        left //= size
    sizes.append(left)
    names = ("data", "fsdp", "tensor")[: len(sizes)]
    mesh = "1/" + ",".join(f"{n}={s}" for n, s in zip(names, sizes, strict=True))
    found = placed("v5p" if len(shape) == 3 else "v5e", mesh, shape)
    # Each device is its coordinates, so where they differ along an axis is its place.
    coordinates = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        coordinates[index] = Device()
        coordinates[index].coords = index
    jax_mesh = _jax_mesh(coordinates, sizes)
    for number, (name, size) in enumerate(zip(names, sizes, strict=True)):
        along = np.moveaxis(jax_mesh, number, 0).reshape(size, -1)[:, 0]
        seen = [len({each.coords[dim] for each in along}) for dim in range(len(shape))]
        ours = {each.dim: each.members for each in found[name].dims} if size > 1 else {}
        assert seen == [ours.get(dim, 1) for dim in range(len(shape))]


def _jax_mesh(devices, sizes):
    from jax._src.mesh_utils import _create_device_mesh_for_nd_torus

    return _create_device_mesh_for_nd_torus(
        devices, sizes, allow_split_physical_axes=True
    )[0]
