"""Matmul: both forms give one product; only `flat` folds anything."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.matmul import matmul

SHAPES = {
    "wide to narrow": ((2, 6, 8), (8, 5)),
    "to heads": ((2, 6, 8), (8, 3, 4)),
    "from heads": ((2, 6, 3, 4), (3, 4, 8)),
}


def product_and_gradients(x, kernel, form):
    """Returns the product, and both gradients under fixed random cotangents."""
    y, pull_back = jax.vjp(lambda x, k: matmul(x, k, form=form), x, kernel)
    cotangent = np.random.default_rng(2).normal(size=y.shape)
    return y, *pull_back(jnp.asarray(cotangent, y.dtype))


def operands(x_shape, kernel_shape, dtype="float32"):
    random = np.random.default_rng(1)
    return tuple(
        jnp.asarray(random.normal(size=shape), dtype)
        for shape in (x_shape, kernel_shape)
    )


@pytest.mark.parametrize("form", ["plain", "flat"])
@pytest.mark.parametrize(("x_shape", "kernel_shape"), SHAPES.values(), ids=SHAPES)
def test_float32_forms_are_numpys_product(x_shape, kernel_shape, form):
    x, kernel = operands(x_shape, kernel_shape)
    y, dx, dkernel = product_and_gradients(x, kernel, form)
    inputs = len(x_shape) - 2
    expected = np.tensordot(x, kernel, inputs)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    g = np.random.default_rng(2).normal(size=y.shape)
    outputs = len(kernel_shape) - inputs
    expected_dx = np.tensordot(
        g, np.moveaxis(kernel, range(inputs), range(-inputs, 0)), outputs
    )
    np.testing.assert_allclose(dx, expected_dx, rtol=1e-5, atol=1e-5)
    expected_dkernel = np.tensordot(x, g, ((0, 1), (0, 1)))
    np.testing.assert_allclose(dkernel, expected_dkernel, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("x_shape", "kernel_shape"), SHAPES.values(), ids=SHAPES)
def test_bfloat16_flat_is_the_exact_product_rounded_once(x_shape, kernel_shape):
    x, kernel = operands(x_shape, kernel_shape, "bfloat16")
    results = product_and_gradients(x, kernel, "flat")
    wide = product_and_gradients(
        x.astype(jnp.float32), kernel.astype(jnp.float32), "plain"
    )
    # The cotangents are rounded too, so they are drawn as bfloat16 in both.
    for narrow, exact in zip(results[:1], wide[:1], strict=True):
        assert narrow.dtype == jnp.bfloat16
        np.testing.assert_array_equal(narrow, exact.astype(jnp.bfloat16))


@pytest.mark.parametrize("form", ["plain", "flat"])
def test_cotangents_have_the_dtype_of_their_inputs(form):
    for dtype in ("float32", "bfloat16"):
        x, kernel = operands(*SHAPES["to heads"], dtype)
        _, dx, dkernel = product_and_gradients(x, kernel, form)
        assert (dx.dtype, dkernel.dtype) == (x.dtype, kernel.dtype)


def test_bfloat16_gradient_sums_in_float32():
    # 4,096 ones: a bfloat16 sum would stop at 256.
    x = jnp.ones((2, 2_048, 1), jnp.bfloat16)
    kernel = jnp.ones((1, 1), jnp.bfloat16)
    _, pull_back = jax.vjp(lambda k: matmul(x, k, form="flat"), kernel)
    (dkernel,) = pull_back(jnp.ones((2, 2_048, 1), jnp.bfloat16))
    assert dkernel == 4_096


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_plain_reshapes_nothing(dtype):
    assert "reshape" not in lowered_gradient("plain", dtype)


def test_flat_folds_batch_and_sequence_in_float32():
    assert "reshape" in lowered_gradient("flat", "float32")


def test_flat_puts_x_first_in_the_bfloat16_weight_gradient():
    text = lowered_gradient("flat", "bfloat16")
    weight_gradient = "contracting_dims = [0, 1] x [0, 1]"
    line = next(line for line in text.splitlines() if weight_gradient in line)
    assert "tensor<2x6x8xbf16>, tensor<2x6x3x4xbf16>" in line
    assert "-> tensor<8x3x4xbf16>" in line


def lowered_gradient(form, dtype) -> str:
    """Returns StableHLO of the product and both gradients."""
    x, kernel = operands(*SHAPES["to heads"], dtype)

    def run(x, kernel, g):
        y, pull_back = jax.vjp(lambda x, k: matmul(x, k, form=form), x, kernel)
        return y, pull_back(g)

    g = jax.ShapeDtypeStruct((2, 6, 3, 4), dtype)
    return jax.jit(run).lower(x, kernel, g).as_text()
