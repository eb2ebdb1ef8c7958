"""XLA attention: causal, grouped queries, by plain operations a backend runs well.

Letters: B batch, T query and S key positions, K key-value heads of G query heads each,
R = G · T rows of queries that share their keys, H head dim.
"""

import jax
import jax.numpy as jnp

from models.blocks import query_blocks
from models.config import MatmulForm


def attend(
    query: jax.Array, key: jax.Array, value: jax.Array, *, form: MatmulForm
) -> jax.Array:
    """Returns [B, T, K·G, H]: values [B, S, K, H] averaged by softmax(q·k / √H).

    Each token sees itself and all earlier ones; scores and softmax are float32.
    `plain` computes and masks the whole T × T square and leaves the layout to the
    compiler. `flat` is for XLA's CPU backend: heads come before positions, by
    transposing what is small, so that each product is a batch of plain matrix
    products, which that backend runs twice as fast as others; and queries go in
    blocks, each up to its last key, which leaves out most of what is masked. The
    numbers are the same to rounding.
    """
    grouped = query.reshape(*query.shape[:2], key.shape[2], -1, query.shape[3])
    if form == "plain":
        weights = _weights(grouped, key)
        y = jnp.einsum("BKGTS,BSKH->BTKGH", weights, value)
        return y.reshape(query.shape)
    heads_first = grouped.transpose(0, 2, 3, 1, 4)
    y = _attend_in_blocks(heads_first, key.swapaxes(1, 2), value.swapaxes(1, 2))
    return y.transpose(0, 3, 1, 2, 4).reshape(query.shape)


@jax.custom_vjp
def _weights(query: jax.Array, key: jax.Array) -> jax.Array:
    return _weights_fwd(query, key)[0]


def _weights_fwd(
    query: jax.Array, key: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    """Returns attention weights [B, K, G, T, S] of [B, T, K, G, H] and [B, S, K, H]."""
    scores = jnp.einsum(
        "BTKGH,BSKH->BKGTS", query, key, preferred_element_type=jnp.float32
    )
    weights = _causal_softmax(scores, query)
    return weights, (query, key, weights)


def _weights_bwd(
    saved: tuple[jax.Array, jax.Array, jax.Array], g: jax.Array
) -> tuple[jax.Array, jax.Array]:
    query, key, weights = saved
    scores = _causal_softmax_gradient(weights, g, query)
    return (
        jnp.einsum("BKGTS,BSKH->BTKGH", scores, key),
        jnp.einsum("BKGTS,BTKGH->BSKH", scores, query),
    )


_weights.defvjp(_weights_fwd, _weights_bwd)


def _attend_in_blocks(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Returns [B, K, G, T, H] from queries of that shape, keys, values [B, K, S, H]."""
    blocks = []
    for start, end in query_blocks(query.shape[3]):
        part = query[:, :, :, start:end]
        blocks.append(_attend_block(part, key[:, :, :end], value[:, :, :end]))
    return jnp.concatenate(blocks, axis=3)


@jax.custom_vjp
def _attend_block(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Returns [B, K, G, T, H] from queries of that shape, keys, values [B, K, S, H].

    The queries are the last T of the S positions.
    """
    return _attend_block_fwd(query, key, value)[0]


def _attend_block_fwd(
    query: jax.Array, key: jax.Array, value: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    scores = jnp.einsum(
        "BKRH,BKSH->BKRS", _rows(query), key, preferred_element_type=jnp.float32
    )
    by_head = scores.reshape(*query.shape[:4], key.shape[2])
    weights = _causal_softmax(by_head, query).reshape(scores.shape)
    return (weights @ value).reshape(query.shape), (query, key, value, weights)


def _attend_block_bwd(
    saved: tuple[jax.Array, ...], g: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    query, key, value, weights = saved
    g_rows = _rows(g)
    g_weights = jnp.einsum("BKRH,BKSH->BKRS", g_rows, value)
    scores = _causal_softmax_gradient(weights, g_weights, query)
    return (
        (scores @ key).reshape(query.shape),
        _transposed_product(scores, _rows(query)),
        _transposed_product(weights, g_rows),
    )


_attend_block.defvjp(_attend_block_fwd, _attend_block_bwd)


def _rows(x: jax.Array) -> jax.Array:
    """Returns [B, K, R, H] of [B, K, G, T, H]."""
    return x.reshape(*x.shape[:2], -1, x.shape[4])


def _transposed_product(square: jax.Array, rows: jax.Array) -> jax.Array:
    """Returns squareᵀ · rows [B, K, S, H] as (rowsᵀ · square)ᵀ.

    Both transpose what is small. Without the barrier XLA would fold the first of them
    into the product, which is then a slow one.
    """
    columns = jax.lax.optimization_barrier(rows.swapaxes(2, 3))
    return (columns @ square).swapaxes(2, 3)


def _causal_softmax(scores: jax.Array, query: jax.Array) -> jax.Array:
    """Returns weights [..., T, S] of float32 scores, in the dtype of the queries.

    The T queries are the last of the S positions. The narrow dtype is what is kept for
    the gradient: a third of the memory that JAX's own derivative keeps in bfloat16.
    """
    position = jnp.arange(scores.shape[-1])
    earlier = position[-scores.shape[-2] :, None] >= position
    # Added, where a selection would keep a mask of the size of the scores.
    masked = scores * query.shape[-1] ** -0.5 + jnp.where(earlier, 0.0, -jnp.inf)
    return jax.nn.softmax(masked, axis=-1).astype(query.dtype)


def _causal_softmax_gradient(
    weights: jax.Array, g: jax.Array, query: jax.Array
) -> jax.Array:
    """Returns the cotangent of the scores, narrow as the queries, from the weights'."""
    p, g = weights.astype(jnp.float32), g.astype(jnp.float32)
    scores = p * (g - (p * g).sum(-1, keepdims=True)) * query.shape[-1] ** -0.5
    return scores.astype(query.dtype)
