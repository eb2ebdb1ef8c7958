"""Attention: causal grouped-query attention, computed by plain XLA operations.

Letters: B batch, T query and S key positions, N query heads in K groups of G, one for
each key-value head, H head dim.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from models.config import ModelConfig
from models.layers import INIT_STDDEV
from models.layers import Computation
from models.layers import Dense
from models.layers import NamedSizes
from models.layers import residual_stddev
from models.layers import rotate


class Attention(nnx.Module):
    """Every token looks at itself and all earlier ones of its sequence.

    N query heads share K key-value heads evenly, which are never repeated in memory.
    The whole T x T square is computed and masked; the softmax is float32.
    """

    def __init__(
        self, config: ModelConfig, *, rngs: nnx.Rngs, computation: Computation
    ):
        embed = (("embed", config.embed_dim),)
        head_dim = (("head_dim", config.head_dim),)
        heads = (("heads", config.num_heads), *head_dim)
        kv_heads = (("kv_heads", config.num_kv_heads), *head_dim)

        def dense(inputs: NamedSizes, outputs: NamedSizes, stddev: float) -> Dense:
            return Dense(
                inputs,
                outputs,
                rngs=rngs,
                computation=computation,
                bias=config.bias,
                stddev=stddev,
            )

        self.query = dense(embed, heads, INIT_STDDEV)
        self.key = dense(embed, kv_heads, INIT_STDDEV)
        self.value = dense(embed, kv_heads, INIT_STDDEV)
        self.output = dense(heads, embed, residual_stddev(config))
        self.computation = computation

    def __call__(self, x: jax.Array, angles: jax.Array | None) -> jax.Array:
        """Maps [B, T, D] to [B, T, D]; `angles` [T, H/2] where positions are rotary."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        if angles is not None:
            turned = self.computation.keeping_inputs(rotate)
            query, key = turned(query, angles), turned(key, angles)
        constrain = self.computation.constrain
        kv_axes = ("batch", "seq", "kv_heads", "head_dim")
        axes = ("batch", "seq", "heads", "head_dim")
        attended = attend(
            constrain(query, axes), constrain(key, kv_axes), constrain(value, kv_axes)
        )
        return self.output(constrain(attended, axes))


def attend(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Returns [B, T, N, H]: values [B, S, K, H] averaged by softmax(q·k / √H)."""
    grouped = query.reshape(*query.shape[:2], key.shape[2], -1, query.shape[3])
    weights = _weights(grouped, key)
    return jnp.einsum("BKGTS,BSKH->BTKGH", weights, value).reshape(query.shape)


@jax.custom_vjp
def _weights(query: jax.Array, key: jax.Array) -> jax.Array:
    return _weights_fwd(query, key)[0]


def _weights_fwd(
    query: jax.Array, key: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    """Returns attention weights [B, K, G, T, S] of [B, T, K, G, H] and [B, S, K, H].

    Scores and softmax are float32; what is returned and kept for the gradient is the
    dtype of the inputs, a third of the memory that JAX's own derivative keeps in
    bfloat16.
    """
    scores = jnp.einsum(
        "BTKGH,BSKH->BKGTS", query, key, preferred_element_type=jnp.float32
    )
    position = jnp.arange(key.shape[1])
    earlier = position[:, None] >= position
    # Added, where a selection would keep a mask of the size of the scores.
    masked = scores * query.shape[-1] ** -0.5 + jnp.where(earlier, 0.0, -jnp.inf)
    weights = jax.nn.softmax(masked, axis=-1).astype(query.dtype)
    return weights, (query, key, weights)


def _weights_bwd(
    saved: tuple[jax.Array, jax.Array, jax.Array], g: jax.Array
) -> tuple[jax.Array, jax.Array]:
    query, key, weights = saved
    p, g = weights.astype(jnp.float32), g.astype(jnp.float32)
    scores = p * (g - (p * g).sum(-1, keepdims=True)) * query.shape[-1] ** -0.5
    narrow = scores.astype(query.dtype)
    return (
        jnp.einsum("BKGTS,BSKH->BTKGH", narrow, key),
        jnp.einsum("BKGTS,BTKGH->BSKH", narrow, query),
    )


_weights.defvjp(_weights_fwd, _weights_bwd)
