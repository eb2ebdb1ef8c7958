"""Layers: norms, rotary positions, activations and initial values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from meshes.rules import RULES
from models.layers import MLP
from models.layers import Computation
from models.layers import Dense
from models.layers import Norm
from models.layers import residual_stddev
from models.layers import rotary_angles
from models.layers import rotate

FLOAT32 = Computation(
    remat="none",
    param_dtype="float32",
    compute_dtype="float32",
    matmul_form="plain",
    attention="xla",
    rules=tuple(RULES.items()),
)
BFLOAT16 = dataclasses.replace(FLOAT32, compute_dtype="bfloat16")


def normals(*size: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).normal(size=size), jnp.float32)


def test_rms_norm_divides_by_the_root_of_the_mean_square(shape):
    norm = Norm(shape(), computation=FLOAT32)
    norm.scale[...] = jnp.arange(32.0)
    x = 3 + normals(2, 5, 32)
    expected = x / np.sqrt(np.mean(np.square(x), -1, keepdims=True)) * np.arange(32)
    np.testing.assert_allclose(norm(x), expected, rtol=1e-4, atol=1e-5)


def test_layer_norm_takes_off_the_mean_and_adds_its_bias(shape):
    norm = Norm(shape(norm="layer", bias=True), computation=FLOAT32)
    assert norm.bias is not None
    norm.scale[...] = jnp.arange(32.0)
    norm.bias[...] = -jnp.arange(32.0)
    x = 3 + normals(2, 5, 32)
    unit = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    expected = unit * np.arange(32) - np.arange(32)
    np.testing.assert_allclose(norm(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_norm_statistics_are_float32(shape, kind):
    # Sums of 4,096 equal bfloat16 terms would stop growing after a few hundred.
    norm = Norm(shape(norm=kind, embed_dim=4_096), computation=BFLOAT16)
    x = jnp.tile(jnp.array([3.0, 5.0], jnp.bfloat16), (1, 1, 2_048))
    expected = {"rms": np.array([3, 5]) / np.sqrt(17), "layer": np.array([-1, 1])}[kind]
    y = norm(x)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(y[0, 0, :2].astype(np.float32), expected, rtol=1 / 256)


def test_rotation_by_hand():
    angles = rotary_angles(3, head_dim=2, theta=10_000.0)
    np.testing.assert_allclose(angles[:, 0], [0, 1, 2])
    x = jnp.tile(jnp.array([1.0, 0.0]), (1, 3, 1, 1))
    turned = rotate(x, angles)[0, :, 0]
    np.testing.assert_allclose(
        turned, [[np.cos(t), np.sin(t)] for t in range(3)], atol=1e-6
    )


def test_rotary_scores_depend_on_the_distance_alone():
    angles = rotary_angles(12, head_dim=8, theta=100.0)
    query, key = normals(1, 1, 1, 8), normals(2, 1, 1, 8)[1:]
    queries, keys = (
        rotate(jnp.tile(x, (1, 12, 1, 1)), angles)[0, :, 0] for x in (query, key)
    )
    scores = queries @ keys.T
    for distance in range(12):
        along = jnp.diagonal(scores, -distance)
        np.testing.assert_allclose(along, along[0], rtol=1e-4, atol=1e-5)
    assert not np.allclose(scores[5], scores[5, 0])


def test_the_longest_wavelength_is_set_by_theta():
    angles = rotary_angles(2, head_dim=128, theta=500_000.0)
    assert angles.shape == (2, 64)
    assert angles[1, -1] == pytest.approx(500_000.0 ** (-126 / 128), rel=1e-5)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        # Input 2 through kernels that are the identity; a gate multiplies it once more.
        ("relu", 2.0),
        ("relu2", 4.0),
        ("gelu", 1.9545977),
        ("swiglu", 2 * 2 / (1 + np.exp(-2))),
        ("geglu", 2 * 1.9545977),
    ],
)
def test_activations_by_hand(shape, activation, expected):
    config = shape(embed_dim=1, mlp_dim=1, activation=activation)
    mlp = MLP(config, rngs=nnx.Rngs(0), computation=FLOAT32)
    for dense in (mlp.gate, mlp.up, mlp.down):
        if dense is not None:
            dense.kernel[...] = jnp.ones((1, 1))
    y = mlp(jnp.array([[[2.0]]]))
    assert y.item() == pytest.approx(expected, rel=1e-5)


def test_squared_relu_is_zero_below_zero(shape):
    config = shape(embed_dim=1, mlp_dim=1, activation="relu2")
    mlp = MLP(config, rngs=nnx.Rngs(0), computation=FLOAT32)
    mlp.up.kernel[...] = mlp.down.kernel[...] = jnp.ones((1, 1))
    assert mlp(jnp.array([[[-2.0]]])).item() == 0


def test_bias_is_added_after_the_product():
    dense = Dense(
        (("embed", 3),),
        (("mlp", 2),),
        rngs=nnx.Rngs(0),
        computation=FLOAT32,
        bias=True,
    )
    assert dense.bias is not None
    dense.bias[...] = jnp.array([1.0, -1.0])
    np.testing.assert_allclose(dense(jnp.zeros((1, 1, 3)))[0, 0], [1, -1])


def test_initial_deviations_shrink_with_depth_where_they_add_to_the_stream(shape):
    config = shape(num_layers=8, embed_dim=256, mlp_dim=1_024)
    assert residual_stddev(config) == pytest.approx(0.02 / 4)
    mlp = MLP(config, rngs=nnx.Rngs(0), computation=FLOAT32)
    assert mlp.up.kernel[...].std() == pytest.approx(0.02, rel=0.02)
    assert mlp.down.kernel[...].std() == pytest.approx(0.005, rel=0.02)
    assert abs(mlp.up.kernel[...].mean()) < 2e-4
