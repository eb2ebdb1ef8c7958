"""Small shapes and models that the tests of this folder build."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from meshes.rules import RULES
from models.config import ModelConfig
from models.transformer import Transformer

_SHAPE = ModelConfig(
    name="test",
    source="these tests",
    num_layers=3,
    embed_dim=32,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    mlp_dim=64,
    vocab_size=96,
    max_seq_len=16,
)


@pytest.fixture
def shape() -> Callable[..., ModelConfig]:
    """Returns a maker of small shapes: grouped queries, rotary, SwiGLU by default."""

    def make(**changes: object) -> ModelConfig:
        return ModelConfig.model_validate(_SHAPE.model_dump() | changes)

    return make


@pytest.fixture
def transformer() -> Callable[..., Transformer]:
    """Returns a maker of models from seed 0, float32 throughout by default."""

    def make(config: ModelConfig, **settings: object) -> Transformer:
        settings = {"compute_dtype": "float32"} | settings
        return Transformer(config, rngs=nnx.Rngs(0), rules=RULES, **settings)  # type: ignore

    return make


@pytest.fixture
def loss_and_gradients() -> Callable[..., tuple[float, nnx.State]]:
    """Returns a function of (model, tokens [B, T + 1]): mean loss and gradients."""

    def evaluate(model: Transformer, tokens: jax.Array) -> tuple[float, nnx.State]:
        graph, params = nnx.split(model, nnx.Param)
        differentiate = jax.value_and_grad(functools.partial(_loss, graph))
        loss, gradients = jax.jit(differentiate)(params, tokens)
        return loss.item(), gradients

    return evaluate


@pytest.fixture
def lowered_step() -> Callable[..., jax.stages.Lowered]:
    """Returns a function of (abstract model, batch, seq_len): loss and gradients."""

    def lower(model: Transformer, batch: int, seq_len: int) -> jax.stages.Lowered:
        graph, params = nnx.split(model, nnx.Param)
        tokens = jax.ShapeDtypeStruct((batch, seq_len + 1), jnp.int32)
        differentiate = jax.value_and_grad(functools.partial(_loss, graph))
        return jax.jit(differentiate).lower(params, tokens)

    return lower


def _loss(graph: nnx.GraphDef, params: nnx.State, tokens: jax.Array) -> jax.Array:
    logits = nnx.merge(graph, params)(tokens[:, :-1]).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)
