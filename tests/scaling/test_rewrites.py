import pytest

from scaling.analytic import cost
from scaling.point import Point

pytestmark = pytest.mark.fast

# Llama 3 8B: all its parameters, those of its blocks, and one of its two tables.
N, BLOCKS, TABLE = 8_030_261_248, 6_979_584_000, 128_256 * 4096


def sent(chip, shape, mesh):
    """Returns by network and kind what an fsdp axis sends, and of how much."""
    point = Point.model_validate(
        {
            "model": "llama3-8b",
            "chip": chip,
            "slice_shape": shape,
            "mesh": mesh,
            "global_batch_size": 128,
            "seq_len": 2048,
            "remat": "full",
        }
    )
    return {
        (each.network, each.kind): (each.bytes, each.payload_bytes)
        for each in cost(point).collectives
        if each.axes == ("fsdp",)
    }


SCATTERED = {"all_gather", "reduce_scatter", "all_reduce"}


@pytest.mark.parametrize(
    ("chip", "shape", "mesh", "kinds"),
    [
        ("v5e", (4, 4), "1/fsdp=16", {"all_gather", "all_reduce"}),
        ("v5e", (16, 16), "1/fsdp=256", {"all_gather", "all_reduce"}),
        ("v6e", (16, 16), "1/fsdp=256", {"all_gather", "all_reduce"}),
        ("v4", (4, 4, 4), "1/fsdp=64", {"all_reduce"}),
        ("v5p", (4, 4, 4), "1/fsdp=64", {"all_reduce"}),
        ("v7x", (4, 4, 4), "1/fsdp=128", {"all_reduce", "reduce_scatter"}),
        # In a slice with shorter dims gathers stay, and so where groups interleave.
        ("v5p", (2, 2, 4), "1/fsdp=16", {"all_gather", "all_reduce"}),
        # Of groups that interleave those of attention are scattered all the same.
        (
            "v5p",
            (8, 8, 8),
            "1/fsdp=256,tensor=2",
            SCATTERED,
        ),
        # A part of a slice, a single dim, or four chips are a ring or a line. The
        # gradient of the table that is looked up in is summed everywhere.
        ("v5e", (4, 4), "1/fsdp=4,tensor=4", SCATTERED),
        ("v5p", (4, 4, 4), "1/fsdp=16,tensor=4", SCATTERED),
        ("v5e", (2, 2), "1/fsdp=4", SCATTERED),
        ("v4", (2, 2, 1), "1/fsdp=4", SCATTERED),
        # Not by a v7x's SparseCores.
        ("v7x", (2, 2, 2), "1/fsdp=16", {"all_gather", "reduce_scatter"}),
        ("h100-sxm", None, "1/fsdp=8", {"all_gather", "reduce_scatter"}),
    ],
)
def test_a_whole_torus_sums_where_it_was_asked_to_gather_or_scatter(
    chip, shape, mesh, kinds
):
    assert {kind for _, kind in sent(chip, shape, mesh)} == kinds


def test_what_becomes_an_all_reduce_sends_twice_as_much():
    found = sent("v5e", (4, 4), "1/fsdp=16")
    # All gradients in bfloat16, each once: 2 · 15/16 of them.
    payload = 2 * 8_030_261_248
    assert found["ici", "all_reduce"] == (2 * 15 / 16 * payload, payload)


def test_gradients_of_fsdp_across_slices_are_put_together_again():
    found = sent("v5e", (4, 4), "fsdp=2/fsdp=16")
    payload = 2 * N
    assert found["ici", "reduce_scatter"] == (15 / 16 * payload, payload)
    assert found["dcn", "all_reduce"] == (payload / 16, payload / 16)
    # Besides the weights, the blocks of them twice.
    gathered = 2 * (N + BLOCKS) + payload
    assert found["ici", "all_gather"] == (15 / 16 * gathered, gathered)
    assert found["dcn", "all_gather"][1] == 2 * (N + BLOCKS) / 16


def test_a_table_whose_gather_is_summed_crosses_as_it_is_kept():
    found = sent("v5p", (4, 4, 4), "1/fsdp=64")
    # Two gathers of the blocks and the gradients in bfloat16, the tables in float32.
    payload = 2 * 2 * BLOCKS + 4 * (N - BLOCKS) + 2 * N
    assert found == {("ici", "all_reduce"): (2 * 63 / 64 * payload, payload)}
    # Gathered in two halves by a v7x's SparseCores, they are cast before.
    cast = sent("v7x", (4, 4, 4), "1/fsdp=128")
    gathered = 2 * 2 * BLOCKS + 2 * (N - BLOCKS)
    assert cast["ici", "all_reduce"][1] == gathered
    assert cast["ici", "reduce_scatter"][1] == 2 * N


def test_weights_go_round_a_v7x_in_windows():
    found = sent("v7x", (2, 2, 2), "1/fsdp=16")
    # The blocks twice, each part of 16 to all and home; the tables by SparseCores.
    blocks, tables = 2 * 2 * BLOCKS, 2 * (N - BLOCKS)
    sends = 17 / 16 * blocks + 15 / 16 * tables
    assert found["ici", "all_gather"] == (sends, blocks + tables)


def test_where_groups_interleave_gradients_of_attention_are_scattered():
    found = sent("v5p", (8, 8, 8), "1/fsdp=256,tensor=2")
    # Half of the heads: query and output of 16, key and value of 4, each of 128.
    attention = 2 * 32 * 4096 * 128 * (16 + 16 + 4 + 4)
    assert found["ici", "reduce_scatter"] == (255 / 256 * attention, attention)
    local = (N - 65 * 4096) // 2 + 65 * 4096
    assert found["ici", "all_reduce"][1] == 2 * local - attention
