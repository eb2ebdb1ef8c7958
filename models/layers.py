"""Layers: dense maps, norms, rotary positions and the MLP of a transformer block.

Letters: B batch, T sequence, D embed, F mlp, N query heads, K kv heads, H head dim,
V vocabulary.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from models.config import Activation
from models.config import AttentionKernel
from models.config import MatmulForm
from models.config import ModelConfig
from models.config import Remat
from models.matmul import matmul

NamedSizes = tuple[tuple[str, int], ...]
"""Dims of an array as (logical axis, size)."""
Rules = tuple[tuple[str, tuple[str, ...]], ...]
"""Mesh axes of each logical axis; pairs, because a module's attributes are hashed."""

INIT_STDDEV = 0.02
NORM_EPSILON = 1e-5
_ACTIVATIONS: dict[Activation, Callable[[jax.Array], jax.Array]] = {
    "swiglu": jax.nn.silu,
    "geglu": jax.nn.gelu,
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "relu2": lambda x: jnp.square(jax.nn.relu(x)),
}
"""`jax.nn.gelu` is the tanh approximation unless told otherwise."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Computation:
    """What every layer of one model shares: dtypes, forms, sharding rules."""

    remat: Remat
    """What recomputes the layer as a part of its block; `none` outside of blocks."""
    param_dtype: str
    compute_dtype: str
    matmul_form: MatmulForm
    attention: AttentionKernel
    rules: Rules

    def constrain(self, x: jax.Array, logical_axes: Sequence[str]) -> jax.Array:
        """Returns `x` laid over the current mesh by the rules; as it is without one."""
        if jax.sharding.get_abstract_mesh().empty:
            return x
        return jax.lax.with_sharding_constraint(x, self._spec(logical_axes))

    def on_each_device(
        self,
        function: Callable[..., jax.Array],
        axes_in: Sequence[Sequence[str]],
        axes_out: Sequence[str],
    ) -> Callable[..., jax.Array]:
        """Returns `function`, which each device of the current mesh runs on its parts.

        For kernels, which no compiler can divide. Takes and returns arrays with these
        logical axes; without a mesh it is `function` itself.
        """
        if jax.sharding.get_abstract_mesh().empty:
            return function
        return jax.shard_map(
            function,
            in_specs=tuple(map(self._spec, axes_in)),
            out_specs=self._spec(axes_out),
            # A kernel does not say over which axes its results vary.
            check_vma=False,
        )

    def keeping_inputs(self, function: Callable[..., jax.Array]) -> Callable[..., Any]:
        """Returns `function`, whose inputs are all that the backward pass keeps of it.

        For what is cheap to do again: element-wise work, casting and gathering a
        kernel. Scanned layers would otherwise each keep a gathered kernel, together
        the whole model on every device; where layers are unrolled XLA may still merge
        both computations. Other remat policies keep none of it anyhow.
        """
        if self.remat != "none":
            return function
        return jax.checkpoint(function, prevent_cse=False)

    def _spec(self, logical_axes: Sequence[str]) -> jax.P:
        rules = dict(self.rules)
        return jax.P(*(rules[axis] for axis in logical_axes))

    def gathered(self, param: jax.Array, logical_axes: Sequence[str]) -> jax.Array:
        """Returns a parameter in the compute dtype and whole along `embed`.

        Cast before it is gathered, so that bfloat16 is what crosses the network.
        """
        whole = ["whole" if axis == "embed" else axis for axis in logical_axes]
        return self.constrain(param.astype(self.compute_dtype), whole)


def normal(
    key: jax.Array, dims: NamedSizes, computation: Computation, *, stddev: float
) -> nnx.Param:
    """Returns a parameter drawn in float32 from N(0, stddev²), then cast."""
    shape = tuple(size for _, size in dims)
    value = stddev * jax.random.normal(key, shape, jnp.float32)
    return _parameter(value, dims, computation)


def constant(value: float, dims: NamedSizes, computation: Computation) -> nnx.Param:
    """Returns a parameter that starts as `value` everywhere."""
    shape = tuple(size for _, size in dims)
    return _parameter(jnp.full(shape, value), dims, computation)


class Dense(nnx.Module):
    """Linear map of the trailing dims `inputs` to the trailing dims `outputs`."""

    def __init__(
        self,
        inputs: NamedSizes,
        outputs: NamedSizes,
        *,
        rngs: nnx.Rngs,
        computation: Computation,
        bias: bool = False,
        stddev: float = INIT_STDDEV,
    ):
        dims = inputs + outputs
        self.kernel = normal(rngs.params(), dims, computation, stddev=stddev)
        self.bias = constant(0.0, outputs, computation) if bias else None
        self.kernel_axes = tuple(axis for axis, _ in dims)
        self.bias_axes = tuple(axis for axis, _ in outputs)
        self.computation = computation

    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps [B, T, *inputs] to [B, T, *outputs] in the compute dtype."""
        y = project(x, self.kernel[...], self.kernel_axes, self.computation)
        if self.bias is None:
            return y
        return y + self.computation.gathered(self.bias[...], self.bias_axes)


def project(
    x: jax.Array,
    kernel: jax.Array,
    logical_axes: Sequence[str],
    computation: Computation,
) -> jax.Array:
    """Returns [B, T, *outputs] from [B, T, *inputs] and [*inputs, *outputs]."""

    def gather_and_multiply(x: jax.Array, kernel: jax.Array) -> jax.Array:
        gathered = computation.gathered(kernel, logical_axes)
        return matmul(x, gathered, form=computation.matmul_form)

    return computation.keeping_inputs(gather_and_multiply)(x, kernel)


class Norm(nnx.Module):
    """RMSNorm or LayerNorm over D; statistics and scaling in float32."""

    def __init__(self, config: ModelConfig, *, computation: Computation):
        dims = (("embed", config.embed_dim),)
        self.scale = constant(1.0, dims, computation)
        with_bias = config.norm == "layer" and config.bias
        self.bias = constant(0.0, dims, computation) if with_bias else None
        self.centred = config.norm == "layer"
        self.computation = computation

    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns [B, T, D] of unit mean square, or variance, times the scale."""
        bias = None if self.bias is None else self.bias[...]
        return self.computation.keeping_inputs(self._normalise)(
            x, self.scale[...], bias
        )

    def _normalise(
        self, x: jax.Array, scale: jax.Array, bias: jax.Array | None
    ) -> jax.Array:
        y = x.astype(jnp.float32)
        if self.centred:
            y -= y.mean(-1, keepdims=True)
        y *= jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + NORM_EPSILON)
        y *= self._whole(scale)
        if bias is not None:
            y += self._whole(bias)
        return y.astype(self.computation.compute_dtype)

    def _whole(self, vector: jax.Array) -> jax.Array:
        return self.computation.constrain(vector.astype(jnp.float32), ("whole",))


class MLP(nnx.Module):
    """Two matmuls around an activation; three where a gate multiplies the first."""

    def __init__(
        self, config: ModelConfig, *, rngs: nnx.Rngs, computation: Computation
    ):
        embed = (("embed", config.embed_dim),)
        mlp = (("mlp", config.mlp_dim),)
        dense = functools.partial(
            Dense, rngs=rngs, computation=computation, bias=config.bias
        )
        self.gate = dense(embed, mlp) if config.gated else None
        self.up = dense(embed, mlp)
        self.down = dense(mlp, embed, stddev=residual_stddev(config))
        self.activation: Activation = config.activation
        self.computation = computation

    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps [B, T, D] to [B, T, D]."""
        axes = ("batch", "seq", "mlp")
        up = self.computation.constrain(self.up(x), axes)
        activate = self.computation.keeping_inputs(self._activate)
        if self.gate is None:
            return self.down(activate(up))
        gate = self.computation.constrain(self.gate(x), axes)
        return self.down(activate(gate, up))

    def _activate(self, x: jax.Array, factor: jax.Array | None = None) -> jax.Array:
        # In float32: on most backends bfloat16 is converted for each step anyway.
        y = _ACTIVATIONS[self.activation](x.astype(jnp.float32))
        if factor is not None:
            y *= factor.astype(jnp.float32)
        return y.astype(self.computation.compute_dtype)


def residual_stddev(config: ModelConfig) -> float:
    """Returns the deviation of projections that add to the residual stream.

    Divided by the root of their number, two a layer, so that the stream's variance
    does not grow with depth (GPT-2).
    """
    return INIT_STDDEV / math.sqrt(2 * config.num_layers)


def rotary_angles(seq_len: int, *, head_dim: int, theta: float) -> jax.Array:
    """Returns float32 [T, H/2]: position times theta^(-2i/H) (arXiv 2104.09864)."""
    frequencies = theta ** (-jnp.arange(0, head_dim, 2, jnp.float32) / head_dim)
    return jnp.arange(seq_len, dtype=jnp.float32)[:, None] * frequencies


def rotate(x: jax.Array, angles: jax.Array) -> jax.Array:
    """Returns [B, T, heads, H] with its half pairs (i, i + H/2) turned by `angles`."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    turned = (first * cos - second * sin, second * cos + first * sin)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _parameter(
    value: jax.Array, dims: NamedSizes, computation: Computation
) -> nnx.Param:
    axes = tuple(axis for axis, _ in dims)
    return nnx.Param(value.astype(computation.param_dtype), logical_axes=axes)
