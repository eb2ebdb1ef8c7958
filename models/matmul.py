"""Matmul: the product of activations and a kernel, in the form a backend runs well."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from models.config import MatmulForm


def matmul(x: jax.Array, kernel: jax.Array, *, form: MatmulForm) -> jax.Array:
    """Returns [B, T, *outputs] from [B, T, *inputs] and [*inputs, *outputs].

    `plain` is one dot of the arrays as they are, what TPU and GPU compilers expect.
    `flat` is for XLA's CPU backend, which runs the weight gradient of a plain dot at
    a fraction of its speed. In float32 it folds B and T into one dim, and JAX derives
    a fast form from that. In bfloat16 the gradient is written out instead, with x
    first, which is faster still.
    """
    if form == "plain":
        return _dot(x, kernel, (_last(x), _first(x)))
    if x.dtype == jnp.bfloat16:
        return _dot_x_first(x, kernel)
    rows = math.prod(x.shape[:2])
    columns = math.prod(x.shape[2:])
    y = x.reshape(rows, columns) @ kernel.reshape(columns, -1)
    return y.reshape(*x.shape[:2], *kernel.shape[x.ndim - 2 :])


@jax.custom_vjp
def _dot_x_first(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return _dot_x_first_fwd(x, kernel)[0]


def _dot_x_first_fwd(
    x: jax.Array, kernel: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    # Not by calling the function above: remat policies must see a dot, to keep it.
    return _dot(x, kernel, (_last(x), _first(x))), (x, kernel)


def _dot_x_first_bwd(
    saved: tuple[jax.Array, jax.Array], g: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns both cotangents; the kernel's is x times g over [B, T], x first.

    JAX would write g times x and transpose the result, which keeps XLA's CPU backend
    (JAX 0.12) from its bfloat16 kernels: ten times slower.
    """
    x, kernel = saved
    num_inputs = x.ndim - 2
    outputs = tuple(range(num_inputs, kernel.ndim))
    return _dot(g, kernel, (_last(g), outputs)), _dot(x, g, ((0, 1), (0, 1)))


_dot_x_first.defvjp(_dot_x_first_fwd, _dot_x_first_bwd)


def _dot(
    a: jax.Array,
    b: jax.Array,
    contracting: tuple[tuple[int, ...], tuple[int, ...]],
) -> jax.Array:
    return lax.dot_general(a, b, (contracting, ((), ())))


def _last(x: jax.Array) -> tuple[int, ...]:
    """Returns the dims of `x` after [B, T]."""
    return tuple(range(2, x.ndim))


def _first(x: jax.Array) -> tuple[int, ...]:
    """Returns the dims of a kernel that match those of `x` after [B, T]."""
    return tuple(range(x.ndim - 2))
