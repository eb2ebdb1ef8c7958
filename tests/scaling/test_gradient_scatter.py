import pytest

from scaling.gradient_scatter import scatter_kind
from scaling.gradient_scatter import tile_padding
from scaling.point import Point

pytestmark = pytest.mark.fast

KEPT, SUMMED = "reduce_scatter", "all_reduce"


def point(chip, shape, model, mesh):
    return Point.model_validate(
        {
            "model": model,
            "chip": chip,
            "slice_shape": shape,
            "mesh": mesh,
            "global_batch_size": 1024,
            "seq_len": 1024,
        }
    )


@pytest.mark.parametrize(
    ("chip", "shape", "model", "mesh", "attention", "rest"),
    [
        # What was read off one program each.
        ("v5e", (16, 16), "maxtext-16b", "1/fsdp=256", SUMMED, SUMMED),
        ("v5e", (16, 16), "maxtext-16b", "data=2/fsdp=256", KEPT, SUMMED),
        ("v5e", (16, 16), "maxtext-64b", "data=2/fsdp=256", SUMMED, KEPT),
        ("v5e", (16, 16), "llama2-7b", "data=2/fsdp=256", KEPT, SUMMED),
        ("v4", (4, 4, 12), "maxtext-52b", "data=2/fsdp=192", KEPT, KEPT),
        ("v4", (4, 4, 4), "maxtext-22b", "data=2/fsdp=64", SUMMED, SUMMED),
        ("v5p", (2, 2, 4), "llama3-8b", "data=2/fsdp=16", SUMMED, SUMMED),
        ("v5p", (8, 8, 16), "llama3-8b", "1/fsdp=256,tensor=4", KEPT, SUMMED),
        ("v5e", (2, 2), "mpt-1b", "data=2/fsdp=4", KEPT, KEPT),
    ],
)
def test_gradients_are_scattered_or_summed_as_the_programs_do(
    chip, shape, model, mesh, attention, rest
):
    this = point(chip, shape, model, mesh)
    assert (scatter_kind(this, "attention"), scatter_kind(this, "rest")) == (
        attention,
        rest,
    )


def test_a_part_that_is_cut_out_of_a_sum_crosses_in_whole_tiles():
    this = point("v5e", (16, 16), "maxtext-16b", "data=2/fsdp=256")
    # 5120 / 256 are 20 rows, in tiles of 8.
    assert tile_padding(this, "rest") == 24 / 20
    assert tile_padding(this, "attention") == 1
