"""Blocks of queries: every query once, and the part of the square that is left."""

import pytest

from models.blocks import copies_of_keys
from models.blocks import query_blocks
from models.blocks import square_fraction

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("seq_len", [1, 127, 128, 129, 200, 512, 513, 4_096])
def test_every_query_is_in_one_block(seq_len):
    blocks = query_blocks(seq_len)
    assert [q for start, end in blocks for q in range(start, end)] == [*range(seq_len)]
    assert len(blocks) <= 4


@pytest.mark.parametrize(
    ("seq_len", "fraction", "copies"),
    [
        (128, 1.0, 1.0),
        # 128 queries of 128 keys and 128 of 256: 3/4 of 256².
        (256, 0.75, 1.5),
        # Four blocks: (1 + 2 + 3 + 4) / 16, and keys of 1/4, 2/4, 3/4 and all.
        (512, 0.625, 2.5),
        (4_096, 0.625, 2.5),
    ],
)
def test_the_cpu_form_computes_a_part_of_the_square(seq_len, fraction, copies):
    assert square_fraction(seq_len, "flat") == fraction
    assert copies_of_keys(seq_len, "flat") == copies
    assert square_fraction(seq_len, "plain") == copies_of_keys(seq_len, "plain") == 1.0
