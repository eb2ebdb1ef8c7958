import pytest

from meshes.hardware import chip
from scaling.placement import CUT_OUT
from scaling.placement import Span
from scaling.placement import spans
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
    return spans(point, chip(name))


@pytest.mark.parametrize(
    ("name", "mesh", "shape", "expected"),
    [
        # The whole 16x16 pod: both dims, both rings.
        ("v5e", "1/fsdp=256", (16, 16), {"fsdp": Span(2, closed=True)}),
        # On v5e only a dim of 16 is a ring.
        ("v5e", "1/fsdp=16", (4, 4), {"fsdp": Span(2, closed=False)}),
        ("v5e", "1/fsdp=128", (8, 16), {"fsdp": Span(2, closed=False)}),
        (
            "v5e",
            "1/fsdp=16,tensor=16",
            (16, 16),
            {"tensor": Span(1, closed=True), "fsdp": Span(1, closed=True)},
        ),
        # 64 and 4 are products of dims of no 16x16 slice.
        ("v5e", "1/fsdp=64,tensor=4", (16, 16), {"tensor": CUT_OUT, "fsdp": CUT_OUT}),
        # Whole cubes: rings in every dim. The innermost axis chooses first.
        (
            "v5p",
            "1/fsdp=32,tensor=4",
            (4, 4, 8),
            {"tensor": Span(1, closed=True), "fsdp": Span(2, closed=True)},
        ),
        ("v5p", "1/fsdp=64", (4, 4, 4), {"fsdp": Span(3, closed=True)}),
        # Two devices a chip: the inner axis takes the 64 chips with both devices.
        ("v7x", "1/fsdp=128", (4, 4, 4), {"fsdp": Span(3, closed=True)}),
        # Slices do not concern what lies within one.
        ("v5e", "data=4/fsdp=256", (16, 16), {"fsdp": Span(2, closed=True)}),
        ("v5e", "1/1", (1, 1), {}),
    ],
)
def test_axes_take_whole_dims_from_the_innermost_outwards(name, mesh, shape, expected):
    assert placed(name, mesh, shape) == expected
