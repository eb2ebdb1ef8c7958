"""ModelConfig: what no transformer can have is refused where it is written."""

import pytest
from pydantic import ValidationError


def test_heads_that_do_not_share_evenly_are_refused(shape):
    with pytest.raises(ValidationError, match=r"num_heads 4 .* num_kv_heads 3"):
        shape(num_kv_heads=3)


def test_an_odd_head_dim_cannot_be_rotated(shape):
    with pytest.raises(ValidationError, match=r"head_dim 9 .* is odd"):
        shape(head_dim=9)
    assert shape(head_dim=9, positions="learned").head_dim == 9


def test_unknown_fields_and_words_are_refused(shape):
    with pytest.raises(ValidationError, match="num_experts"):
        shape(num_experts=8)
    with pytest.raises(ValidationError, match="activation"):
        shape(activation="relu3")


@pytest.mark.parametrize(
    ("activation", "gated"),
    [("swiglu", True), ("geglu", True), ("relu", False), ("relu2", False)],
)
def test_gated_activations_have_a_third_matmul(shape, activation, gated):
    assert shape(activation=activation).gated is gated
