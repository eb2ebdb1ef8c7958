"""Attention by XLA operations: both forms against JAX's own, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.xla_attention import attend

BATCH, SEQ, HEADS, HEAD_DIM = 2, 12, 4, 8


def arrays(num_kv_heads: int, dtype: str) -> list[jax.Array]:
    """Returns query, key, value and a cotangent of the result."""
    heads = (HEADS, num_kv_heads, num_kv_heads, HEADS)
    draw = np.random.default_rng(0).normal
    return [
        jnp.asarray(draw(size=(BATCH, SEQ, count, HEAD_DIM)), dtype) for count in heads
    ]


def causal(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


@pytest.mark.parametrize("form", ["plain", "flat"])
@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 2e-6), ("bfloat16", 2e-2)])
def test_value_and_gradients_are_those_of_the_library(form, num_kv_heads, dtype, error):
    *inputs, g = arrays(num_kv_heads, dtype)
    y, pull = jax.vjp(lambda *args: attend(*args, form=form), *inputs)
    exact = [x.astype("float32") for x in inputs]
    expected, pull_expected = jax.vjp(causal, *exact)
    assert y.dtype == g.dtype
    pairs = zip(
        (y, *pull(g)), (expected, *pull_expected(g.astype("float32"))), strict=True
    )
    for ours, theirs in pairs:
        scale = float(jnp.abs(theirs).max())
        np.testing.assert_allclose(
            ours.astype("float32"), theirs, rtol=0, atol=error * scale
        )


def test_the_flat_form_multiplies_no_transposed_square():
    """Its dots are all batches of rows · columns, in XLA's CPU program too."""
    *inputs, g = arrays(2, "float32")

    def both(inputs, g):
        y, pull = jax.vjp(lambda *args: attend(*args, form="flat"), *inputs)
        return y, pull(g)

    text = jax.jit(both).lower(inputs, g).compile().as_text()
    dots = [line for line in text.splitlines() if " dot(" in line]
    assert len(dots) == 6
    for dot in dots:
        assert "lhs_contracting_dims={3}" in dot, dot
