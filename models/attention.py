"""Attention: the block's module of causal grouped-query attention.

Letters: B batch, T sequence, D embed, H head dim.
"""

import functools
from collections.abc import Callable

import jax
from flax import nnx

from models.config import ModelConfig
from models.cudnn_attention import attend as attend_by_cudnn
from models.layers import Computation
from models.layers import Dense
from models.layers import residual_stddev
from models.layers import rotate
from models.splash_attention import attend as attend_by_splash
from models.xla_attention import attend as attend_by_xla

_AXES = ("batch", "seq", "heads", "head_dim")
_KV_AXES = ("batch", "seq", "kv_heads", "head_dim")


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
        attended = self._attend()(
            constrain(query, _AXES),
            constrain(key, _KV_AXES),
            constrain(value, _KV_AXES),
        )
        return self.output(constrain(attended, _AXES))

    def _attend(self) -> Callable[..., jax.Array]:
        if self.computation.attention == "xla":
            return functools.partial(attend_by_xla, form=self.computation.matmul_form)
        kernels = {"splash": attend_by_splash, "cudnn": attend_by_cudnn}
        kernel = kernels[self.computation.attention]
        return self.computation.on_each_device(
            kernel, (_AXES, _KV_AXES, _KV_AXES), _AXES
        )
