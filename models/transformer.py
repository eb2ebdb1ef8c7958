"""Transformer: a decoder-only language model in Flax NNX, of any ModelConfig."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from models.attention import Attention
from models.config import AttentionKernel
from models.config import DType
from models.config import Layers
from models.config import MatmulForm
from models.config import ModelConfig
from models.config import Remat
from models.layers import INIT_STDDEV
from models.layers import MLP
from models.layers import Computation
from models.layers import Dense
from models.layers import Norm
from models.layers import normal
from models.layers import project
from models.layers import rotary_angles

RESIDUAL = ("batch", "residual_seq", "whole")
"""Logical axes of the residual stream."""

_POLICIES = {
    # Of a kernel it keeps nothing, as MaxText's `minimal`: to run the forward kernel
    # again costs 2/9 of attention, and its output is as large as what a layer keeps
    # of queries.
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "full": jax.checkpoint_policies.nothing_saveable,
}


class Block(nnx.Module):
    """One layer: attention and MLP, each on a normed copy and added to the stream."""

    def __init__(
        self, config: ModelConfig, *, rngs: nnx.Rngs, computation: Computation
    ):
        self.attention_norm = Norm(config, computation=computation)
        self.attention = Attention(config, rngs=rngs, computation=computation)
        self.mlp_norm = Norm(config, computation=computation)
        self.mlp = MLP(config, rngs=rngs, computation=computation)
        self.computation = computation

    def __call__(self, x: jax.Array, angles: jax.Array | None) -> jax.Array:
        """Maps the residual stream [batch, seq, embed] to the next layer's."""
        x = self._sharded(
            x + self.attention(self._whole(self.attention_norm(x)), angles)
        )
        return self._sharded(x + self.mlp(self._whole(self.mlp_norm(x))))

    def _sharded(self, x: jax.Array) -> jax.Array:
        return self.computation.constrain(x, RESIDUAL)

    def _whole(self, x: jax.Array) -> jax.Array:
        # Said, because the partitioner may otherwise gather the kernels instead.
        return _whole_stream(self.computation, x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _whole_stream(computation: Computation, x: jax.Array) -> jax.Array:
    """Returns the residual stream whole over `tensor`; its gradient is scattered.

    A constraint alone holds for the gradient too, which would be summed whole.
    """
    return computation.constrain(x, ("batch", "seq", "whole"))


def _whole_stream_forward(
    computation: Computation, x: jax.Array
) -> tuple[jax.Array, None]:
    return _whole_stream(computation, x), None


def _whole_stream_backward(
    computation: Computation, _: None, gradient: jax.Array
) -> tuple[jax.Array]:
    # Whole first: summed over its three uses in attention before it crosses, once.
    whole = computation.constrain(gradient, ("batch", "seq", "whole"))
    return (computation.constrain(whole, RESIDUAL),)


_whole_stream.defvjp(_whole_stream_forward, _whole_stream_backward)


class Transformer(nnx.Module):
    """Tokens to logits. Scanned or unrolled, on any mesh: the same parameters.

    Parameters are kept in `param_dtype`; activations and logits are `compute_dtype`;
    norm statistics, rotary angles and the softmax of attention are float32. The loss
    is the caller's, who casts logits to float32.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        rngs: nnx.Rngs,
        rules: Mapping[str, tuple[str, ...]],
        layers: Layers = "scanned",
        remat: Remat = "none",
        param_dtype: DType = "float32",
        compute_dtype: DType = "bfloat16",
        matmul_form: MatmulForm = "plain",
        attention: AttentionKernel = "xla",
    ):
        computation = Computation(
            remat="none",
            param_dtype=param_dtype,
            compute_dtype=compute_dtype,
            matmul_form=matmul_form,
            attention=attention,
            rules=tuple((name, tuple(axes)) for name, axes in rules.items()),
        )
        embed = (("embed", config.embed_dim),)
        vocab = (("vocab", config.vocab_size),)
        positions = (("positions", config.max_seq_len), *embed)
        self.token_embedding = normal(
            rngs.params(), vocab + embed, computation, stddev=INIT_STDDEV
        )
        self.position_embedding = (
            normal(rngs.params(), positions, computation, stddev=INIT_STDDEV)
            if config.positions == "learned"
            else None
        )
        in_block = dataclasses.replace(computation, remat=remat)
        self.blocks = _blocks(rngs.params(), config, in_block, layers)
        self.final_norm = Norm(config, computation=computation)
        self.head = (
            None
            if config.tied_head
            else Dense(embed, vocab, rngs=rngs, computation=computation)
        )
        self.config = config
        self.layers = layers
        self.remat: Remat = remat
        self.computation = computation

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Returns logits [batch, seq, vocab] of the next token for tokens [batch, seq].

        Raises ValueError where positions are learned for fewer tokens than `seq`.
        """
        x = self.final_norm(self._run_blocks(self._embed(tokens)))
        if self.head is None:
            kernel = self.token_embedding[...].T
            logits = project(x, kernel, ("embed", "vocab"), self.computation)
        else:
            logits = self.head(x)
        return self.computation.constrain(logits, ("batch", "seq", "vocab"))

    def _embed(self, tokens: jax.Array) -> jax.Array:
        table = self.computation.gathered(self.token_embedding[...], ("vocab", "embed"))
        x = table[tokens]
        seq_len = tokens.shape[1]
        if self.position_embedding is not None:
            positions = self.computation.gathered(
                self.position_embedding[...], ("positions", "embed")
            )
            if seq_len > len(positions):
                raise ValueError(
                    f"sequence of {seq_len} tokens for model {self.config.name!r}, "
                    f"which has {len(positions)} learned positions"
                )
            x = x + positions[:seq_len]
        return self.computation.constrain(x, RESIDUAL)

    def _run_blocks(self, x: jax.Array) -> jax.Array:
        angles = (
            rotary_angles(
                x.shape[1],
                head_dim=self.config.head_dim,
                theta=self.config.rope_theta,
            )
            if self.config.positions == "rotary"
            else None
        )
        if self.layers == "unrolled":
            for block in self.blocks:
                x = self._run_block(*nnx.split(block), x, angles)
            return x
        graphdef, stacked = nnx.split(self.blocks)
        return jax.lax.scan(
            lambda x, state: (self._run_block(graphdef, state, x, angles), None),
            x,
            stacked,
        )[0]

    def _run_block(
        self, graphdef: Any, state: Any, x: jax.Array, angles: jax.Array | None
    ) -> jax.Array:
        def run(state: Any, x: jax.Array, angles: jax.Array | None) -> jax.Array:
            return nnx.merge(graphdef, state)(x, angles)

        if self.remat in _POLICIES:
            run = jax.checkpoint(
                run,
                policy=_POLICIES[self.remat],
                # Within a scan nothing could be merged, and the barrier costs.
                prevent_cse=self.layers == "unrolled",
            )
        return run(state, x, angles)


def logical_axes(state: Any) -> Any:
    """Returns `nnx.state(model, nnx.Param)` with each array's logical axes instead.

    Takes a model or such a state, abstract or real. The names lie where the arrays
    do, so `jax.tree.map(f, axes, is_leaf=lambda leaf: isinstance(leaf, tuple))` has
    the structure of the state.
    """
    state = nnx.state(state, nnx.Param) if isinstance(state, nnx.Module) else state
    structure = jax.tree.structure(state)
    params = jax.tree.leaves(state, is_leaf=lambda leaf: isinstance(leaf, nnx.Param))
    return jax.tree.unflatten(structure, [param.logical_axes for param in params])


def _blocks(
    key: jax.Array, config: ModelConfig, computation: Computation, layers: Layers
) -> Any:
    """Returns the layers: a list, or one block whose arrays have a leading layer dim.

    Each is drawn from the key folded with its index, so both hold the same values.
    """

    def block(index: jax.Array | int) -> Block:
        rngs = nnx.Rngs(params=jax.random.fold_in(key, index))
        return Block(config, rngs=rngs, computation=computation)

    if layers == "unrolled":
        return nnx.List([block(index) for index in range(config.num_layers)])
    stacked = nnx.vmap(block)(jnp.arange(config.num_layers))
    for param in jax.tree.leaves(
        nnx.state(stacked), is_leaf=lambda leaf: isinstance(leaf, nnx.Param)
    ):
        param.set_metadata(logical_axes=("layers", *param.logical_axes))
    return stacked
