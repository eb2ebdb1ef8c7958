"""cuDNN attention: NVIDIA's kernels for GPU, which never write the square of scores."""

import jax


def attend(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Returns [B, T, N, H]: values [B, T, K, H] averaged by softmax(q·k / √H).

    As `xla_attention.attend`, of one device's sequences and heads, in bfloat16. Raises
    RuntimeError where JAX's plugin for CUDA is not installed.
    """
    return jax.nn.dot_product_attention(
        query, key, value, is_causal=True, implementation="cudnn"
    )
