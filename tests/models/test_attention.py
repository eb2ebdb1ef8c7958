"""Attention: against a loop in numpy, for every way heads can share keys."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from meshes.rules import RULES
from models.attention import Attention
from models.layers import Computation

FLOAT32 = Computation(
    remat="none",
    param_dtype="float32",
    compute_dtype="float32",
    matmul_form="plain",
    attention="xla",
    rules=tuple(RULES.items()),
)


def by_loop(attention: Attention, x: np.ndarray) -> np.ndarray:
    """Returns what attention gives one sequence [T, D], one head and token a time."""
    query, key, value = (
        np.tensordot(x, dense.kernel[...], 1)
        for dense in (attention.query, attention.key, attention.value)
    )
    heads, head_dim = query.shape[1:]
    group = heads // key.shape[1]
    attended = np.zeros_like(query)
    for head in range(heads):
        for token in range(len(x)):
            keys, values = (array[: token + 1, head // group] for array in (key, value))
            weights = np.exp(keys @ query[token, head] / np.sqrt(head_dim))
            attended[token, head] = weights @ values / weights.sum()
    return np.tensordot(attended, attention.output.kernel[...], 2)


@pytest.mark.parametrize("form", ["plain", "flat"])
@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
def test_grouped_queries_share_keys_and_values(shape, num_kv_heads, form):
    attention = Attention(
        shape(num_kv_heads=num_kv_heads, head_dim=6),
        rngs=nnx.Rngs(0),
        computation=dataclasses.replace(FLOAT32, matmul_form=form),
    )
    for dense in (attention.query, attention.key):
        dense.kernel[...] *= 40  # so that the weights are far from uniform
    x = np.random.default_rng(0).normal(size=(2, 7, 32)).astype(np.float32)
    y = attention(jnp.asarray(x), None)
    expected = np.stack([by_loop(attention, sequence) for sequence in x])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)


def test_equal_scores_give_the_mean_of_all_tokens_so_far(shape):
    config = shape(embed_dim=8, num_heads=1, num_kv_heads=1)
    attention = Attention(config, rngs=nnx.Rngs(0), computation=FLOAT32)
    attention.query.kernel[...] = jnp.zeros((8, 1, 8))
    attention.value.kernel[...] = jnp.eye(8)[:, None]
    attention.output.kernel[...] = jnp.eye(8)[None]
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 5, 8)), jnp.float32)
    so_far = np.cumsum(x, axis=1) / np.arange(1, 6)[:, None]
    np.testing.assert_allclose(attention(x, None), so_far, rtol=1e-5, atol=1e-6)
