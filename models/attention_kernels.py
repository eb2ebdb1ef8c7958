"""Attention kernels: what they compute, in closed form.

A compiler shows a kernel as a call and knows nothing of its work. A product is one of
the matrix products between queries or their gradients and keys or values: 2·S·H·h FLOPs
a token where all S keys of its sequence take part, for H heads of width h.
"""

from collections.abc import Mapping

from models.blocks import square_fraction
from models.config import AttentionKernel
from models.config import MatmulForm

SERVED_ON: Mapping[AttentionKernel, str] = {"splash": "tpu", "cudnn": "gpu"}
"""Where a kernel runs, as JAX names it; plain operations run everywhere."""

PRODUCTS: Mapping[AttentionKernel, Mapping[str, int]] = {
    "xla": {"forward": 2, "backward": 4},
    "splash": {"fwd": 2, "dq": 3, "dkv": 4},
    "cudnn": {"forward": 2, "backward": 5},
}
"""Products of each pass, the forward pass first.

Backward there are four gradients. A kernel that keeps no square multiplies queries and
keys once more (Dao et al., arXiv 2205.14135, algorithm 4); splash does so in the
kernel of queries and in that of keys and values, which both need the gradient of the
weights as well.
"""

_LANES = 128
_MAX_BLOCK = 512
"""As in MaxText's defaults (`sa_block_q` and its like)."""


def splash_block(seq_len: int) -> int:
    """Returns the queries, and keys, that splash takes at once.

    Raises ValueError naming the nearest lengths that work.
    """
    if seq_len % _LANES:
        below = seq_len // _LANES * _LANES
        sizes = (below, below + _LANES) if below else (_LANES,)
        raise ValueError(
            f"seq_len {seq_len} is not a multiple of {_LANES}, which splash attention "
            f"needs; nearest seq_len: {' or '.join(map(str, sizes))}"
        )
    return max(
        block for block in range(_LANES, _MAX_BLOCK + 1, _LANES) if seq_len % block == 0
    )


def products(kernel: AttentionKernel) -> tuple[int, int]:
    """Returns the products of the forward and of the backward pass."""
    forward, *backward = PRODUCTS[kernel].values()
    return forward, sum(backward)


def computed_fraction(seq_len: int, kernel: AttentionKernel, form: MatmulForm) -> float:
    """Returns the part of the square of scores that is computed.

    Splash leaves out the blocks above the diagonal. NVIDIA does not say what blocks
    cuDNN takes: the exact causal half is the least.
    """
    if kernel == "xla":
        return square_fraction(seq_len, form)
    block = splash_block(seq_len) if kernel == "splash" else 1
    return (1 + block / seq_len) / 2
