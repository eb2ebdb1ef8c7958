"""Small shapes and models that the tests of this folder build."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from meshes.rules import RULES
from models.config import ModelConfig
from models.transformer import Transformer

# These programs run once: compiling them fast matters more than running them fast.
_FAST_COMPILE: dict[str, Any] = {"xla_backend_optimization_level": 0}
_SHAPE = ModelConfig(
    name="test",
    source="these tests",
    num_layers=2,
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
def abstract_transformer() -> Callable[..., Transformer]:
    """Returns a maker of models without values, float32 throughout by default."""
    return _abstract


@pytest.fixture
def transformer() -> Callable[..., Transformer]:
    """Returns a maker of models from seed 0, float32 throughout by default."""

    def make(config: ModelConfig, **settings: Any) -> Transformer:
        graph = nnx.graphdef(_abstract(config, **settings))
        made_of = {
            name: settings[name]
            for name in ("layers", "param_dtype")
            if name in settings
        }
        # Variables are changed in place by some tests, so each model has its own.
        params = jax.tree.map(jnp.copy, _initial_params(config, **made_of))
        return nnx.merge(graph, params)

    return make


@pytest.fixture
def loss_and_gradients() -> Callable[..., tuple[float, nnx.State]]:
    """Returns a function of (config, **settings): of fixed tokens, from seed 0."""
    return _loss_and_gradients


@pytest.fixture
def lowered_step() -> Callable[..., jax.stages.Lowered]:
    """Returns a function of (model, batch, seq_len): loss and gradients, lowered."""
    return _lowered_step


@functools.cache
def _initial_params(config: ModelConfig, **settings: Any) -> nnx.State:
    def make() -> nnx.State:
        return nnx.state(_make(config, **settings), nnx.Param)

    return jax.jit(make, compiler_options=_FAST_COMPILE)()


@functools.cache
def _loss_and_gradients(
    config: ModelConfig, **settings: Any
) -> tuple[float, nnx.State]:
    tokens = jax.random.randint(jax.random.key(7), (2, 13), 0, config.vocab_size)
    layers = settings.get("layers", "scanned")
    step = _lowered_step(_abstract(config, **settings), 2, 12).compile(_FAST_COMPILE)
    loss, gradients = step(_initial_params(config, layers=layers), tokens)
    return loss.item(), gradients


def _lowered_step(model: Transformer, batch: int, seq_len: int) -> jax.stages.Lowered:
    graph, params = nnx.split(model, nnx.Param)

    def loss(params: nnx.State, tokens: jax.Array) -> jax.Array:
        logits = nnx.merge(graph, params)(tokens[:, :-1]).astype(jnp.float32)
        picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    tokens = jax.ShapeDtypeStruct((batch, seq_len + 1), jnp.int32)
    return jax.jit(jax.value_and_grad(loss)).lower(params, tokens)


def _abstract(config: ModelConfig, **settings: Any) -> Transformer:
    return nnx.eval_shape(lambda: _make(config, **settings))


def _make(config: ModelConfig, **settings: Any) -> Transformer:
    settings = {"compute_dtype": "float32"} | settings
    return Transformer(config, rngs=nnx.Rngs(0), rules=RULES, **settings)
