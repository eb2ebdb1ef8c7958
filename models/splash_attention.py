"""Splash attention: JAX's kernels for TPU, which never write the square of scores.

Letters: B batch, T sequence, K key-value heads of G query heads each, H head dim.
"""

from typing import Any

import jax

from models.attention_kernels import splash_block


def attend(
    query: jax.Array, key: jax.Array, value: jax.Array, *, interpret: bool = False
) -> jax.Array:
    """Returns [B, T, K·G, H]: values [B, T, K, H] averaged by softmax(q·k / √H).

    As `xla_attention.attend`, of one device's sequences and heads. The backward pass
    needs what comes in and out and one float32 a query and head. `interpret` runs the
    kernels as plain operations anywhere, slowly. Raises ValueError where T is not a
    multiple of 128.
    """
    batch, seq_len, heads, head_dim = query.shape
    kv_heads = key.shape[2]
    group = heads // kv_heads
    scaled = query * head_dim**-0.5  # the kernels do not
    grouped = scaled.reshape(batch, seq_len, kv_heads, group, head_dim)
    kernel = jax.vmap(jax.vmap(_kernel(seq_len, group, interpret=interpret)))
    y = kernel(
        grouped.transpose(0, 2, 3, 1, 4), key.swapaxes(1, 2), value.swapaxes(1, 2)
    )
    return y.transpose(0, 3, 1, 2, 4).reshape(query.shape)


def _kernel(seq_len: int, group: int, *, interpret: bool) -> Any:
    """Returns the map of [G, T, H], [T, H] and [T, H] to [G, T, H]."""
    # Loading Pallas takes half a second, which runs without the kernel need not wait.
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    block = splash_block(seq_len)
    mask = splash.CausalMask((seq_len, seq_len))
    return splash.make_splash_mqa(
        splash.MultiHeadMask([mask] * group),
        block_sizes=splash.BlockSizes(
            block_q=block,
            block_kv=block,
            block_q_dkv=block,
            block_kv_dkv=block,
            block_q_dq=block,
            block_kv_dq=block,
        ),
        head_shards=1,
        q_seq_shards=1,
        interpret=interpret,
    )
