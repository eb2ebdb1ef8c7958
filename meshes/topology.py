"""Topology: the slices one can have of a chip, and their wrap-around links.

A slice shape is in chips along each torus dim. TPU v2, v3, v5e and v6e are 2-D and come
in a short list of shapes. v4, v5p and v7x are 3-D: a few shapes below a cube of 4x4x4
chips, and from there every shape made of whole cubes, dims ascending. A pod may be
larger than the largest slice that can be had: a shape up to it is valid where it is
named, and never chosen. Where there is no torus (NVLink, or the cores of a host) the
shape has one dim. Sources: Google Cloud TPU pages and AI-Hypercomputer/maxtext
accelerator_to_spec_map.py.
"""

import math
from itertools import pairwise

from meshes.chip import Chip

Shape = tuple[int, ...]

_CUBE = 4


def num_chips(chip: Chip, num_devices: int) -> int:
    """Returns how many chips hold so many JAX devices.

    Raises ValueError where that is not a whole number.
    """
    per_chip = chip.devices_per_chip
    if num_devices < 1 or num_devices % per_chip:
        below = num_devices // per_chip * per_chip
        near = " or ".join(str(n) for n in (below, below + per_chip) if n > 0)
        raise ValueError(
            f"{num_devices} devices are no whole number of {chip.name} chips, which "
            f"hold {per_chip} each; take {near}"
        )
    return num_devices // per_chip


def squarest_slice(chip: Chip, num_chips: int) -> Shape:
    """Returns the valid slice shape of so many chips that is nearest to a cube.

    Without a torus that is `(num_chips,)`. Raises ValueError with the nearest valid
    numbers of chips.
    """
    if chip.torus_dims is None:
        _check_without_torus(chip, num_chips)
        return (num_chips,)
    shapes = slices_of(chip, num_chips)
    if not shapes:
        raise ValueError(
            f"no {chip.name} slice has {num_chips} chips; {_near(chip, num_chips)}"
        )
    return min(shapes, key=lambda shape: (sum(shape), shape))


def slices_of(chip: Chip, chips: int, *, named: bool = False) -> tuple[Shape, ...]:
    """Returns every slice shape of so many chips of a torus, or none.

    Of slices that can be had; where a shape is `named`, up to a whole pod.
    """
    largest = (_pod_chips(chip) if named else chip.max_slice_chips) or 0
    listed = tuple(shape for shape in chip.slice_shapes if math.prod(shape) == chips)
    cubes, rest = divmod(chips, _CUBE**3)
    if chip.torus_dims != 3 or rest or not _CUBE**3 <= chips <= largest:
        return listed
    return tuple(
        (a * _CUBE, b * _CUBE, cubes // (a * b) * _CUBE)
        for a in range(1, cubes + 1)
        for b in range(a, cubes // a + 1)
        if cubes % (a * b) == 0 and cubes // (a * b) >= b
    )


def not_offered(chip: Chip, shape: Shape) -> str | None:
    """Returns what to say of a valid shape that cannot be had as one slice, or None."""
    largest = chip.max_slice_chips
    if chip.torus_dims is None or largest is None or math.prod(shape) <= largest:
        return None
    return (
        f"{chip.name}:{_text(shape)} is {math.prod(shape):,} chips, and the largest "
        f"slice that can be had has {largest:,}"
    )


def check_slice(chip: Chip, shape: Shape) -> None:
    """Raises ValueError, with the nearest valid choices, if no slice has this shape."""
    dims = chip.torus_dims or 1
    if len(shape) != dims or min(shape, default=0) < 1:
        raise ValueError(
            f"slice {_text(shape)} of {chip.name} needs {dims} positive "
            f"{'dim' if dims == 1 else 'dims'}, as {_text(_example(chip))}"
        )
    chips = math.prod(shape)
    if chip.torus_dims is None:
        _check_without_torus(chip, chips)
        return
    valid = slices_of(chip, chips, named=True)
    if shape not in valid:
        same = " or ".join(_text(s) for s in valid)
        cure = f"{chips} chips come as {same}" if same else _near_shapes(chip, chips)
        raise ValueError(f"{chip.name} has no slice {_text(shape)}; {cure}")


def wraps(chip: Chip, shape: Shape) -> tuple[bool, ...]:
    """Returns for each dim of the slice whether its ends are joined to a ring.

    2-D: a dim as long as the whole pod's (16 on v5e and v6e). 3-D: every dim if the
    slice is made of whole cubes, none otherwise. Without a torus: none. Source:
    maxtext accelerator_to_spec_map.py; v2 and v3 by the same rule.
    """
    if chip.torus_dims is None:
        return (False,) * len(shape)
    if chip.torus_dims == 2:
        side = math.isqrt(chip.max_slice_chips or 0)
        return tuple(size == side for size in shape)
    return (all(size % _CUBE == 0 for size in shape),) * len(shape)


def _check_without_torus(chip: Chip, num_chips: int) -> None:
    largest = chip.nvlink_domain
    if largest is not None and num_chips > largest:
        raise ValueError(
            f"no {chip.name} slice has {num_chips} chips: NVLink joins {largest}; put "
            "the rest left of the slash of the mesh"
        )
    if num_chips < 1:
        raise ValueError(f"no {chip.name} slice has {num_chips} chips; take 1 or more")


def _sizes(chip: Chip) -> tuple[int, ...]:
    """Returns every valid number of chips of a torus, ascending."""
    listed = tuple(math.prod(shape) for shape in chip.slice_shapes)
    if chip.torus_dims != 3:
        return listed
    cubes = (chip.max_slice_chips or 0) // _CUBE**3
    return listed + tuple(n * _CUBE**3 for n in range(1, cubes + 1))


def _pod_chips(chip: Chip) -> int | None:
    return chip.pod_chips or chip.max_slice_chips


def _near(chip: Chip, chips: int) -> str:
    if not (near := _near_sizes(chip, chips)):
        pod = (
            f" (a pod has {chip.pod_chips:,}: name its shape)" if chip.pod_chips else ""
        )
        return (
            f"the largest slice has {_sizes(chip)[-1]}{pod}; put more slices left of "
            "the slash of the mesh"
        )
    return f"the nearest have {' or '.join(map(str, near))}"


def _near_shapes(chip: Chip, chips: int) -> str:
    """Returns the nearest numbers of chips with every shape in which they come."""
    near = _near_sizes(chip, chips)
    shapes = [_text(shape) for size in near for shape in slices_of(chip, size)]
    listed = f": {' or '.join(shapes)}" if shapes else ""
    return f"{_near(chip, chips)}{listed}"


def _near_sizes(chip: Chip, chips: int) -> tuple[int, ...]:
    """Returns the numbers of chips on both sides of `chips`; none beyond the last."""
    sizes = _sizes(chip)
    if chips > sizes[-1]:
        return ()
    between = (pair for pair in pairwise(sizes) if pair[0] < chips < pair[1])
    return next(between, sizes[:1])


def _example(chip: Chip) -> Shape:
    if chip.torus_dims is None:
        return (chip.nvlink_domain or 2,)
    return chip.slice_shapes[-1]


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "''"
