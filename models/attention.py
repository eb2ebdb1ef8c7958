"""Attention: the block's module of causal grouped-query attention.

Letters: B batch, T sequence, D embed, H head dim.
"""

import functools

import jax
from flax import nnx

from models.config import ModelConfig
from models.layers import Computation
from models.layers import Dense
from models.layers import residual_stddev
from models.layers import rotate
from models.xla_attention import attend


class Attention(nnx.Module):
    """Every token looks at itself and all earlier ones of its sequence.

    N query heads share K key-value heads evenly, which are never repeated in memory.
    """

    def __init__(
        self, config: ModelConfig, *, rngs: nnx.Rngs, computation: Computation
    ):
        embed = (("embed", config.embed_dim),)
        head_dim = (("head_dim", config.head_dim),)
        heads = (("heads", config.num_heads), *head_dim)
        kv_heads = (("kv_heads", config.num_kv_heads), *head_dim)
        dense = functools.partial(
            Dense, rngs=rngs, computation=computation, bias=config.bias
        )
        self.query = dense(embed, heads)
        self.key = dense(embed, kv_heads)
        self.value = dense(embed, kv_heads)
        self.output = dense(heads, embed, stddev=residual_stddev(config))
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
            constrain(query, axes),
            constrain(key, kv_axes),
            constrain(value, kv_axes),
            form=self.computation.matmul_form,
        )
        return self.output(constrain(attended, axes))
