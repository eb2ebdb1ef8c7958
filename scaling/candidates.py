"""Candidates: every way to lay a model over so many devices, and every policy of each.

A candidate is a point: a split of the devices into slices of one shape, a mesh over
them, and a policy: what is recomputed, accumulated, scanned.
"""

import itertools
import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import get_args

from meshes import hardware
from meshes import topology
from meshes.chip import Chip
from meshes.divisors import divisors
from meshes.spec import MeshSpec
from meshes.spec import enumerate_meshes
from models.attention_kernels import SERVED_ON
from models.config import AttentionKernel
from models.config import Layers
from models.config import Remat
from models.config import Residual
from scaling.feasibility import AXES_AT_WORK
from scaling.point import Point

CHOICES: Mapping[str, tuple[Any, ...]] = {
    "attention": get_args(AttentionKernel),
    "remat": get_args(Remat),
    "residual": get_args(Residual),
    "layers": get_args(Layers),
}
"""Fields of a policy and their values, the plainest first: equals rank in this order.
Accumulation is one as well; its values depend on the batch."""


class Split(NamedTuple):
    """Devices as slices of one shape."""

    num_slices: int
    devices_per_slice: int
    slice_shape: tuple[int, ...] | None
    """In chips; None where the chip has no torus."""


def splits(
    chip: Chip, num_devices: int, slice_shape: tuple[int, ...] | None = None
) -> tuple[Split, ...]:
    """Returns every way to make so many devices of equal slices of `chip`.

    With a `slice_shape` of that one alone; on GPU it is the NVLink domain.
    """
    return tuple(
        Split(num_slices, num_devices // num_slices, shape)
        for num_slices in divisors(num_devices)
        for shape in _shapes(chip, num_devices // num_slices, slice_shape)
    )


def _shapes(
    chip: Chip, devices: int, wanted: tuple[int, ...] | None
) -> tuple[tuple[int, ...] | None, ...]:
    """Returns the slice shapes of so many devices, None standing for no torus."""
    if chip.platform == "cpu":
        return (None,)
    if chip.torus_dims is None:
        largest = chip.nvlink_domain or 1
        domain = math.prod(wanted or (largest,))
        return (wanted,) if devices <= domain <= largest else ()
    chips, rest = divmod(devices, chip.devices_per_chip)
    named = wanted is not None
    found = () if rest else topology.slices_of(chip, chips, named=named)
    return found if wanted is None else tuple(each for each in found if each == wanted)


def candidates(
    base: Point, splits: Iterable[Split], *, fixed: Iterable[str] = ()
) -> Iterator[Point]:
    """Yields `base` on every mesh of every split, under every policy.

    Fields of a policy among `fixed` keep the value that `base` has.
    """
    kept = frozenset(fixed)
    for split in splits:
        for mesh in enumerate_meshes(
            devices_per_slice=split.devices_per_slice,
            num_slices=split.num_slices,
            axes=AXES_AT_WORK,
        ):
            laid = {"mesh": mesh, "slice_shape": split.slice_shape}
            for policy in policies(base, mesh, kept):
                yield base.model_copy(update=laid | policy)


def policies(
    base: Point, mesh: MeshSpec, fixed: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """Yields fields to values: all policies that mean something on the mesh."""
    shares = mesh.size("data") * mesh.size("fsdp")
    micro_batches, rest = divmod(base.global_batch_size, shares)
    # A batch that does not divide is refused once, not in every number of parts.
    accumulation = (1,) if rest or not micro_batches else divisors(micro_batches)
    choices = {**CHOICES, "accumulation": accumulation}
    platform = hardware.chip(base.chip).platform
    choices["attention"] = tuple(
        kernel
        for kernel in choices["attention"]
        if SERVED_ON.get(kernel, platform) == platform
    )
    if mesh.size("tensor") == 1:
        # All of them mean the same.
        choices["residual"] = choices["residual"][:1]
    free = {field: values for field, values in choices.items() if field not in fixed}
    for values in itertools.product(*free.values()):
        yield dict(zip(free, values, strict=True))


def policy_of(point: Point) -> dict[str, Any]:
    """Returns field to value of a point's policy where it is not the default."""
    values = {field: getattr(point, field) for field in (*CHOICES, "accumulation")}
    return {
        field: value
        for field, value in values.items()
        if value != Point.model_fields[field].default
    }
