"""Attention by XLA operations: both forms against JAX's own, and their gradients."""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.xla_attention import attend

BATCH, HEADS, HEAD_DIM = 2, 4, 8


def arrays(num_kv_heads: int, dtype: str, seq: int = 12) -> list[jax.Array]:
    """Returns query, key, value and a cotangent of the result."""
    heads = (HEADS, num_kv_heads, num_kv_heads, HEADS)
    draw = np.random.default_rng(0).normal
    return [
        jnp.asarray(draw(size=(BATCH, seq, count, HEAD_DIM)), dtype) for count in heads
    ]


@functools.partial(jax.jit, static_argnums=0)
def with_gradients(
    function: Callable[..., jax.Array], inputs: list[jax.Array], g: jax.Array
) -> tuple[jax.Array, ...]:
    """Returns the function's value and the cotangents of its inputs."""
    y, pull = jax.vjp(function, *inputs)
    return (y, *pull(g))


def causal(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


@pytest.mark.parametrize(
    ("form", "seq", "num_kv_heads"),
    [
        *itertools.product(["plain", "flat"], [12], [4, 2, 1]),
        # Blocks of queries: two of unequal size, four of more than the smallest.
        ("flat", 200, 2),
        ("flat", 520, 2),
    ],
)
@pytest.mark.parametrize(("dtype", "error"), [("float32", 4e-6), ("bfloat16", 2e-2)])
def test_value_and_gradients_are_those_of_the_library(
    form, seq, num_kv_heads, dtype, error
):
    *inputs, g = arrays(num_kv_heads, dtype, seq)
    found = with_gradients(functools.partial(attend, form=form), inputs, g)
    assert {x.dtype for x in found} == {g.dtype}
    exact = [x.astype("float32") for x in (*inputs, g)]
    expected = with_gradients(causal, exact[:3], exact[3])
    for ours, theirs in zip(found, expected, strict=True):
        scale = float(jnp.abs(theirs).max())
        np.testing.assert_allclose(
            ours.astype("float32"), theirs, rtol=0, atol=error * scale
        )


def test_the_flat_form_multiplies_no_transposed_square():
    """Its dots are all batches of rows · columns, in XLA's CPU program too."""
    *inputs, g = arrays(2, "float32")

    flat = functools.partial(attend, form="flat")
    text = with_gradients.lower(flat, inputs, g).compile().as_text()
    dots = [line for line in text.splitlines() if " dot(" in line]
    assert len(dots) == 6
    for dot in dots:
        assert "lhs_contracting_dims={3}" in dot, dot
