"""Feasibility: why a well-formed point cannot run, before anything compiles.

A dim that does not divide over its mesh axes would be padded or replicated silently
by a compiler; here it is a reason, with the nearest sizes that work.
"""

import functools
import math
from collections.abc import Callable
from typing import Literal
from typing import NamedTuple

from meshes import hardware
from meshes import topology
from meshes.chip import Chip
from meshes.divisors import divisors
from meshes.rules import rules
from meshes.rules import shard_shape
from meshes.rules import shard_size
from meshes.spec import Axis
from meshes.spec import AxisSizes
from meshes.spec import MeshSpec
from meshes.targets import target
from models.attention_kernels import SERVED_ON
from models.attention_kernels import splash_block
from models.config import ModelConfig
from models.counts import parameter_shapes
from models.presets import MODELS
from scaling.analytic import cost
from scaling.point import Point

AXES_AT_WORK: tuple[Axis, ...] = ("data", "fsdp", "tensor")
CUDNN_MAX_HEAD_DIM = 128
"""On all GPUs; JAX takes 256 where a Hopper GPU or a later one is attached."""


Obstacle = Literal["axis", "slice", "dim", "batch", "sequence", "kernel"]
"""What of a point is in the way."""


class Refusal(NamedTuple):
    """Why a point cannot run."""

    obstacle: Obstacle
    reason: str
    """One sentence with the dim, the axis and the nearest sizes that work."""


def refusal(point: Point) -> Refusal | None:
    """Returns the first obstacle to `point`, or None where it can run.

    The point's model and chip are known ones.
    """
    checks: tuple[tuple[Obstacle, Callable[[Point], str | None]], ...] = (
        ("axis", _axis_not_at_work),
        ("slice", _slice_that_does_not_fit),
        ("dim", _dim_that_does_not_divide),
        ("batch", _batch_that_does_not_divide),
        ("dim", _residual_that_does_not_divide),
        ("sequence", _sequence_beyond_positions),
        ("kernel", _kernel_that_is_not_served),
    )
    return next(
        (Refusal(name, reason) for name, check in checks if (reason := check(point))),
        None,
    )


def why_infeasible(point: Point) -> str | None:
    """Returns the reason of the first obstacle to `point`, or None."""
    found = refusal(point)
    return None if found is None else found.reason


def compiled_slice(point: Point) -> tuple[int, ...]:
    """Returns the slice that a feasible point is compiled for, in chips.

    On GPU those of an NVLink domain that the mesh uses. Raises ValueError where no TPU
    slice has the mesh's devices.
    """
    chip = hardware.chip(point.chip)
    devices = point.mesh.devices_per_slice
    if chip.platform == "gpu":
        return (devices,)
    if point.slice_shape is not None:
        return point.slice_shape
    return topology.squarest_slice(chip, topology.num_chips(chip, devices))


def why_no_target(point: Point) -> str | None:
    """Returns why no compiler takes a feasible point's hardware, or None."""
    chip = hardware.chip(point.chip)
    try:
        target(chip, compiled_slice(point), point.mesh.num_slices)
    except ValueError as error:
        return str(error)
    return None


def host_bytes_needed(point: Point) -> int:
    """Returns the memory of one host that runs every device of `point` itself.

    On CPU all devices, replicas too, live in the same memory: the least of one device
    times their number. Without what the processes themselves need.
    """
    return math.ceil(cost(point).least_hbm_bytes * point.mesh.num_devices)


def _axis_not_at_work(point: Point) -> str | None:
    for axis, _ in (*point.mesh.dcn, *point.mesh.ici):
        if axis not in AXES_AT_WORK:
            choices = " or ".join((", ".join(AXES_AT_WORK[:-1]), AXES_AT_WORK[-1]))
            return f"axis {axis!r} is not at work yet; use {choices}"
    return None


def _slice_that_does_not_fit(point: Point) -> str | None:
    chip = hardware.chip(point.chip)
    if chip.platform == "tpu":
        return _tpu_slice(point, chip)
    if chip.platform == "gpu":
        return _nvlink_domain(point, chip)
    if point.slice_shape is not None:
        return f"chip {chip.name} has no slices, and the point gives one"
    return None


def _tpu_slice(point: Point, chip: Chip) -> str | None:
    devices = point.mesh.devices_per_slice
    if point.slice_shape is None:
        return _complaint(
            lambda: topology.squarest_slice(chip, topology.num_chips(chip, devices))
        )
    shape = point.slice_shape
    if complaint := _no_such_slice(chip.name, shape):
        return complaint
    available = math.prod(shape) * chip.devices_per_chip
    if available == devices:
        return None
    return slice_mismatch(point, available)


@functools.lru_cache(maxsize=256)
def _no_such_slice(name: str, shape: tuple[int, ...]) -> str | None:
    return _complaint(lambda: topology.check_slice(hardware.chip(name), shape))


def slice_mismatch(point: Point, available: int) -> str:
    """Returns what to say where slice and mesh differ in devices: both numbers."""
    shape = "x".join(map(str, point.slice_shape or ()))
    return (
        f"slice {point.chip}:{shape} has {available} devices and the part of mesh "
        f"'{point.mesh}' within a slice {point.mesh.devices_per_slice}"
    )


def _nvlink_domain(point: Point, chip: Chip) -> str | None:
    largest = chip.nvlink_domain or 1
    domain = math.prod(point.slice_shape or (largest,))
    if domain > largest:
        return (
            f"an NVLink domain of {chip.name} has {largest} GPUs, and the point asks "
            f"for {domain}; write {chip.name}:{largest}"
        )
    devices = point.mesh.devices_per_slice
    if devices <= domain:
        return None
    return (
        f"mesh '{point.mesh}' puts {devices} GPUs within one NVLink domain and "
        f"{chip.name} has {domain}; write '{across_slices(point.mesh, domain)}'"
    )


def across_slices(mesh: MeshSpec, most: int) -> MeshSpec:
    """Returns `mesh` with as little moved to dcn as leaves `most` devices a slice.

    The outermost axes move first: they send the least often.
    """
    devices = mesh.devices_per_slice
    kept = max(size for size in divisors(devices) if size <= most)
    excess = devices // kept
    dcn, ici = dict(mesh.dcn), dict(mesh.ici)
    for axis, size in mesh.ici:
        moved = math.gcd(size, excess)
        excess //= moved
        ici[axis] = size // moved
        dcn[axis] = dcn.get(axis, 1) * moved
    return MeshSpec(dcn=_sizes(dcn), ici=_sizes(ici))


def _dim_that_does_not_divide(point: Point) -> str | None:
    return _indivisible_parameter(MODELS[point.model], point.mesh)


# A search asks for a mesh under many policies.
@functools.lru_cache(maxsize=256)
def _indivisible_parameter(config: ModelConfig, mesh: MeshSpec) -> str | None:
    for array in parameter_shapes(config):
        shard = functools.partial(shard_shape, array.shape, array.logical_axes, mesh)
        if complaint := _complaint(shard):
            return f"{complaint} ({array.name} of {config.name})"
    return None


def _batch_that_does_not_divide(point: Point) -> str | None:
    data, fsdp = point.mesh.size("data"), point.mesh.size("fsdp")
    shares = data * fsdp * point.accumulation
    if point.global_batch_size % shares == 0:
        return None
    return (
        f"batch {point.global_batch_size} does not divide by data={data} × fsdp={fsdp} "
        f"× accumulation={point.accumulation} = {shares}; nearest batch: "
        f"{_listed(_multiples_near(point.global_batch_size, shares))}"
    )


def _residual_that_does_not_divide(point: Point) -> str | None:
    axes = rules(point.residual)["residual_seq"]
    shard = functools.partial(shard_size, "seq", point.seq_len, axes, point.mesh)
    complaint = _complaint(shard)
    return complaint and f"{complaint} (residual={point.residual})"


def _sequence_beyond_positions(point: Point) -> str | None:
    config = MODELS[point.model]
    if config.positions != "learned" or point.seq_len <= config.max_seq_len:
        return None
    return (
        f"seq_len {point.seq_len} is beyond the {config.max_seq_len} learned positions "
        f"of {point.model}; use at most {config.max_seq_len}"
    )


def _kernel_that_is_not_served(point: Point) -> str | None:
    if point.attention == "xla":
        return None
    platform = hardware.chip(point.chip).platform
    if platform != SERVED_ON[point.attention]:
        serving = [kernel for kernel in SERVED_ON if SERVED_ON[kernel] == platform]
        return (
            f"attention {point.attention!r} runs on {SERVED_ON[point.attention]} only "
            f"and the chip is {point.chip}; use {' or '.join(['xla', *serving])}"
        )
    if point.attention == "splash":
        return _complaint(lambda: splash_block(point.seq_len))
    return _cudnn(point)


def _cudnn(point: Point) -> str | None:
    if point.compute_dtype != "bfloat16":
        return (
            f"cuDNN attention computes in bfloat16 and compute_dtype is "
            f"{point.compute_dtype}; use compute_dtype bfloat16 or attention xla"
        )
    head_dim = MODELS[point.model].head_dim
    if head_dim % 8 or head_dim > CUDNN_MAX_HEAD_DIM:
        return (
            f"cuDNN attention takes a head_dim that is a multiple of 8 up to "
            f"{CUDNN_MAX_HEAD_DIM}, and that of {point.model} is {head_dim}; use "
            "attention xla"
        )
    return None


def _complaint(check: Callable[[], object]) -> str | None:
    try:
        check()
    except ValueError as error:
        return str(error)
    return None


def _multiples_near(number: int, size: int) -> tuple[int, ...]:
    """Returns the positive multiples of `size` on both sides of `number`."""
    below = number // size * size
    return (below, below + size) if below else (size,)


def _listed(sizes: tuple[int, ...]) -> str:
    return " or ".join(map(str, sizes))


def _sizes(sizes: dict[Axis, int]) -> AxisSizes:
    return tuple(sizes.items())
