"""MeshSpec: axis sizes of a device mesh, within slices (ici) and across them (dcn).

The question of the toolkit is in this type: growing `ici` scales vertically,
growing `dcn` scales horizontally. The text form is `data=2/fsdp=4,tensor=2`: left
of the slash across slices, right of it within one; axes of size 1 are omitted, and
`1/1` is a single device.
"""

import difflib
import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Literal
from typing import get_args

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import field_validator
from pydantic import model_serializer
from pydantic import model_validator

Axis = Literal["data", "fsdp", "stage", "expert", "context", "tensor"]
AXES: tuple[Axis, ...] = get_args(Axis)
"""Mesh axes, outermost first."""

Network = Literal["ici", "dcn"]
AxisSizes = tuple[tuple[Axis, int], ...]

MAX_SIZE = 10**9
"""Above it a size is a slip of the finger: no mesh axis spans a billion devices."""


class MeshSpec(BaseModel, frozen=True):
    """Sizes of the mesh axes on each network; a value, stored as its text form."""

    model_config = ConfigDict(extra="forbid")

    dcn: AxisSizes = ()
    """Axes across slices, sizes above 1 only, in the order of `AXES`."""
    ici: AxisSizes = ()
    """Axes within one slice, sizes above 1 only, in the order of `AXES`."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return _parse(value) if isinstance(value, str) else value

    @field_validator("dcn", "ici", mode="before")
    @classmethod
    def _canonical(cls, value: Any) -> AxisSizes:
        return _canonical_sizes(_pairs(value))

    @model_serializer
    def _to_text(self) -> str:
        return str(self)

    @classmethod
    def parse(cls, text: str) -> "MeshSpec":
        """Returns the mesh of a text such as `data=2/fsdp=4,tensor=2`.

        Raises ValueError with one sentence: the text, the choices and the rule.
        """
        return cls(**_parse(text))

    def size(self, axis: Axis, network: Network | None = None) -> int:
        """Returns the size of `axis` on one network, or on both together."""
        if axis not in AXES:
            raise ValueError(_unknown_axis(axis))
        across = 1 if network == "ici" else dict(self.dcn).get(axis, 1)
        within = 1 if network == "dcn" else dict(self.ici).get(axis, 1)
        return across * within

    @property
    def num_slices(self) -> int:
        """Number of slices: the product of the dcn sizes."""
        return math.prod(size for _, size in self.dcn)

    @property
    def devices_per_slice(self) -> int:
        """Devices in one slice: the product of the ici sizes."""
        return math.prod(size for _, size in self.ici)

    @property
    def num_devices(self) -> int:
        """Devices over all slices."""
        return self.num_slices * self.devices_per_slice

    def __str__(self) -> str:
        return f"{_sizes_text(self.dcn)}/{_sizes_text(self.ici)}"


def enumerate_meshes(
    *, devices_per_slice: int, num_slices: int = 1, axes: Iterable[Axis] = AXES
) -> Iterator[MeshSpec]:
    """Yields every mesh over the given axes that uses exactly these devices.

    Raises ValueError for an unknown axis or a count below 1.
    """
    wanted = set(axes)
    for axis in wanted.difference(AXES):
        raise ValueError(_unknown_axis(axis))
    if devices_per_slice < 1 or num_slices < 1:
        raise ValueError(
            f"no mesh has {num_slices} slices of {devices_per_slice} devices; both "
            "take a whole number from 1"
        )
    chosen: list[Axis] = [axis for axis in AXES if axis in wanted]
    for dcn in _factorisations(num_slices, len(chosen)):
        for ici in _factorisations(devices_per_slice, len(chosen)):
            yield MeshSpec(
                dcn=tuple(zip(chosen, dcn, strict=True)),
                ici=tuple(zip(chosen, ici, strict=True)),
            )


def _parse(text: str) -> dict[str, AxisSizes]:
    parts = text.strip().split("/")
    if len(parts) != 2:
        raise ValueError(
            f"mesh {text!r} has {len(parts) - 1} slashes; write axes across slices, "
            "one slash, axes within a slice, as in 'data=2/fsdp=4' or '1/1'"
        )
    return {
        network: _canonical_sizes(_parse_sizes(part, text))
        for network, part in zip(("dcn", "ici"), parts, strict=True)
    }


def _parse_sizes(part: str, text: str) -> Iterator[tuple[str, int]]:
    if part.strip() == "1":
        return
    for item in part.split(","):
        axis, equals, size = (piece.strip() for piece in item.partition("="))
        # isascii as well: '²'.isdigit() is true and int('²') is not.
        if not equals or not (size.isascii() and size.isdigit()):
            raise ValueError(
                f"{item.strip()!r} in mesh {text!r} is not AXIS=SIZE with a positive "
                "whole number; write for example 'fsdp=4', or '1' for no axis"
            )
        digits = size.lstrip("0") or "0"
        # Not parsed where it is far too long: int() itself refuses 4,300 digits.
        yield axis, int(digits) if len(digits) <= 20 else MAX_SIZE + 1


def _pairs(value: Any) -> list[tuple[str, int]]:
    items = value.items() if isinstance(value, Mapping) else value
    try:
        return [(axis, size) for axis, size in items]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{value!r} is no list of (axis, size); write for example (('fsdp', 4),)"
        ) from error


def _canonical_sizes(pairs: Iterable[tuple[str, int]]) -> AxisSizes:
    sizes: dict[str, int] = {}
    for axis, size in pairs:
        if axis not in AXES:
            raise ValueError(_unknown_axis(axis))
        if axis in sizes:
            raise ValueError(
                f"mesh axis {axis!r} is given twice on one network; give it once on "
                "each side of the slash"
            )
        if type(size) is not int or not 1 <= size <= MAX_SIZE:
            raise ValueError(
                f"mesh axis {axis!r} has size {_size_text(size)}; it takes a whole "
                f"number from 1 to {MAX_SIZE}"
            )
        sizes[axis] = size
    return tuple((axis, sizes[axis]) for axis in AXES if sizes.get(axis, 1) > 1)


def _unknown_axis(axis: str) -> str:
    near = difflib.get_close_matches(str(axis), AXES, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown mesh axis {axis!r}; choose from {', '.join(AXES)}{hint}"


def _size_text(size: object) -> str:
    too_large = type(size) is int and size > MAX_SIZE
    return f"above {MAX_SIZE}" if too_large else repr(size)


def _sizes_text(sizes: AxisSizes) -> str:
    return ",".join(f"{axis}={size}" for axis, size in sizes) or "1"


def _factorisations(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yields every ordered way to write `number` as a product of `parts` factors."""
    if parts == 0:
        if number == 1:
            yield ()
        return
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    for first in sorted({*small, *(number // d for d in small)}):
        for tail in _factorisations(number // first, parts - 1):
            yield (first, *tail)
