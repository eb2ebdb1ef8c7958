"""Splash attention: its kernels, interpreted, against attention by XLA operations."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import models.attention
from meshes.build import build_mesh
from meshes.rules import RULES
from meshes.spec import MeshSpec
from models.layers import Computation
from models.splash_attention import attend
from models.xla_attention import attend as attend_by_xla

HEADS, HEAD_DIM = 4, 16
AXES = ("batch", "seq", "heads", "head_dim")
KV_AXES = ("batch", "seq", "kv_heads", "head_dim")
BY_XLA = functools.partial(attend_by_xla, form="plain")
FAST_COMPILE = {"xla_backend_optimization_level": 0}
INTERPRETED = functools.partial(attend, interpret=True)


def arrays(num_kv_heads: int, dtype: str, seq_len: int) -> list[jax.Array]:
    """Returns query, key, value and a cotangent of the result."""
    draw = np.random.default_rng(0).normal
    return [
        jnp.asarray(draw(size=(2, seq_len, count, HEAD_DIM)), dtype)
        for count in (HEADS, num_kv_heads, num_kv_heads, HEADS)
    ]


@functools.partial(jax.jit, static_argnums=0, compiler_options=FAST_COMPILE)
def with_gradients(
    function: Callable[..., jax.Array], inputs: list[jax.Array], g: jax.Array
) -> tuple[jax.Array, ...]:
    """Returns the function's value and the cotangents of its inputs."""
    y, pull = jax.vjp(function, *inputs)
    return (y, *pull(g))


def assert_equal(found, expected, error: float) -> None:
    """Asserts that no element differs by more than `error` of the largest."""
    for ours, theirs in zip(found, expected, strict=True):
        scale = float(jnp.abs(theirs).max())
        np.testing.assert_allclose(
            np.asarray(ours, "float32"), theirs, rtol=0, atol=error * scale
        )


@pytest.mark.parametrize(
    ("seq_len", "num_kv_heads", "dtype", "error"),
    [(256, 4, "bfloat16", 2e-2), (384, 1, "float32", 4e-6)],
)
def test_value_and_gradients_are_those_of_xla(seq_len, num_kv_heads, dtype, error):
    *inputs, g = arrays(num_kv_heads, dtype, seq_len)
    found = with_gradients(INTERPRETED, inputs, g)
    assert {x.dtype for x in found} == {g.dtype}
    exact = [x.astype("float32") for x in (*inputs, g)]
    assert_equal(found, with_gradients(BY_XLA, exact[:3], exact[3]), error)


def test_each_device_of_a_mesh_has_its_sequences_and_heads():
    computation = Computation(
        remat="none",
        param_dtype="float32",
        compute_dtype="float32",
        matmul_form="plain",
        attention="splash",
        rules=tuple(RULES.items()),
    )
    shapes = []

    def on_device(query, key, value):
        shapes.append((query.shape, key.shape))
        return INTERPRETED(query, key, value)

    # Five blocks, of which those above the diagonal are left out.
    *inputs, g = arrays(2, "float32", 640)
    mesh = build_mesh(MeshSpec.parse("1/fsdp=2,tensor=2"), jax.devices()[:4])
    with jax.set_mesh(mesh):
        divided = computation.on_each_device(on_device, (AXES, KV_AXES, KV_AXES), AXES)
        found = with_gradients(divided, inputs, g)
    assert set(shapes) == {((1, 640, 2, HEAD_DIM), (1, 640, 1, HEAD_DIM))}
    assert_equal(found, with_gradients(BY_XLA, inputs, g), 4e-6)


def test_scanned_layers_that_are_run_again_train_alike_by_the_kernels(
    shape, transformer, lowered_step, monkeypatch
):
    monkeypatch.setattr(models.attention, "attend_by_splash", INTERPRETED)
    config = shape(max_seq_len=128)
    tokens = jax.random.randint(jax.random.key(7), (2, 129), 0, config.vocab_size)

    def gradients(attention: str) -> list[jax.Array]:
        model = transformer(config, remat="dots", attention=attention)
        step = lowered_step(model, 2, 128).compile(FAST_COMPILE)
        return jax.tree.leaves(step(nnx.state(model, nnx.Param), tokens)[1])

    mesh = build_mesh(MeshSpec.parse("1/fsdp=2,tensor=2"), jax.devices()[:4])
    with jax.set_mesh(mesh):
        assert_equal(gradients("splash"), gradients("xla"), 1e-5)
