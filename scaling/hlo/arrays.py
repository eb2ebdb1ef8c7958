"""Array: element type, shape and memory of the arrays that HLO results consist of."""

import dataclasses
import math
import re
from collections.abc import Iterator

ELEMENT_BYTES: dict[str, float] = {
    **dict.fromkeys(("s1", "u1"), 1 / 8),
    **dict.fromkeys(("s2", "u2"), 1 / 4),
    **dict.fromkeys(("s4", "u4", "f4e2m1fn"), 1 / 2),
    **dict.fromkeys(("pred", "s8", "u8", "f8e8m0fnu"), 1),
    **dict.fromkeys(("f8e4m3", "f8e5m2", "f8e4m3fn", "f8e3m4"), 1),
    **dict.fromkeys(("f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz"), 1),
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
    "c128": 16,
    "token": 0,
    "opaque": 0,
}
"""Bytes of one element; tokens only order instructions."""

_ARRAY = re.compile(r"\b([a-z][a-z0-9]*)\[([0-9,<= ]*)\](?:\{([^{}]*)\})?")
_MEMORY_SPACE = re.compile(r"S\((\d+)\)")
_COMMENT = re.compile(r"/\*.*?\*/")


@dataclasses.dataclass(frozen=True, slots=True)
class Array:
    """One array of a result, padding and tiling left out."""

    dtype: str
    shape: tuple[int, ...]
    memory_space: int
    """0 is device memory; on TPU 1 is on-chip vector memory, others are scalars."""

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> float:
        """Bytes of the elements; raises ValueError for an unknown element type."""
        if self.dtype not in ELEMENT_BYTES:
            known = ", ".join(ELEMENT_BYTES)
            raise ValueError(f"element type {self.dtype!r} is not one of {known}")
        return self.size * ELEMENT_BYTES[self.dtype]


def arrays_of(shape: str) -> Iterator[Array]:
    """Yields the arrays of a shape as it is printed, nested tuples laid flat."""
    for dtype, dims, layout in _ARRAY.findall(_COMMENT.sub("", shape)):
        space = _MEMORY_SPACE.search(layout)
        yield Array(
            dtype=dtype,
            shape=tuple(int(dim.strip("<= ")) for dim in dims.split(",") if dim),
            memory_space=int(space[1]) if space else 0,
        )
