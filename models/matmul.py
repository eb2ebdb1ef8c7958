"""Matmul: one product of activations and a kernel, in the form a backend runs well."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from models.config import MatmulForm


def matmul(
    x: jax.Array, kernel: jax.Array, *, num_inputs: int, form: MatmulForm
) -> jax.Array:
    """Returns [B, T, *outputs] from [B, T, *inputs] and [*inputs, *outputs].

    `plain` is one dot over the arrays as they are, what TPU and GPU compilers expect.
    `flat` folds B and T into one dim first: XLA's CPU backend then writes the weight
    gradient as a dot it runs fast, from the same products in the same order.
    """
    if form == "plain":
        return _dot(x, kernel, num_inputs)
    rows = math.prod(x.shape[:2])
    inputs = math.prod(kernel.shape[:num_inputs])
    y = x.reshape(rows, inputs) @ kernel.reshape(inputs, -1)
    return y.reshape(*x.shape[:2], *kernel.shape[num_inputs:])


def _dot(x: jax.Array, kernel: jax.Array, num_inputs: int) -> jax.Array:
    last = tuple(range(x.ndim - num_inputs, x.ndim))
    first = tuple(range(num_inputs))
    return lax.dot_general(x, kernel, ((last, first), ((), ())))
