"""Blocks: the form of attention for CPU, which takes queries in blocks.

A block of queries meets no key after its own last one, which leaves out most of the
square's masked half.
"""

from models.config import MatmulForm

_MAX_BLOCKS = 4
"""Leave 5/8 of the square; more leave hardly less and take longer to compile."""
_MIN_BLOCK = 128
"""Queries; shorter blocks only cost."""


def form_on(platform: str) -> MatmulForm:
    """Returns the form of products and attention on a platform as JAX names it.

    By the chip a program is for, not by what is attached: what is compiled on a CPU
    for an absent TPU must be what the TPU would run.
    """
    return "flat" if platform == "cpu" else "plain"


def query_blocks(seq_len: int) -> tuple[tuple[int, int], ...]:
    """Returns the start and end of each block of a sequence's queries."""
    size = max(_MIN_BLOCK, -(-seq_len // _MAX_BLOCKS))
    return tuple(
        (start, min(start + size, seq_len)) for start in range(0, seq_len, size)
    )


def square_fraction(seq_len: int, form: MatmulForm) -> float:
    """Returns the part of the square of scores that a form of attention computes."""
    if form == "plain":
        return 1.0
    computed = sum((end - start) * end for start, end in query_blocks(seq_len))
    return computed / seq_len**2


def copies_of_keys(seq_len: int, form: MatmulForm) -> float:
    """Returns how often a key is kept for the gradient: in each block it is part of."""
    if form == "plain":
        return 1.0
    return sum(end for _, end in query_blocks(seq_len)) / seq_len
