"""Chip: the figures of one accelerator, each with its source.

All figures are per *chip*, the thing that is sold; a JAX device is a whole chip or,
on TPU v2, v3 and v7x, one of its two cores. Rates are the vendor's dense peaks. None
means that no trustworthy figure is known; it is never 0.
"""

from typing import Literal
from typing import get_args

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import PositiveFloat
from pydantic import PositiveInt

Platform = Literal["tpu", "gpu", "cpu"]
PeakDType = Literal["bfloat16", "float32", "fp8", "int8"]


class Chip(BaseModel):
    """One kind of accelerator (on `cpu`: one core's share of the host)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    platform: Platform
    device_kinds: tuple[str, ...]
    """What `jax.Device.device_kind` says, in full; matched exactly."""
    devices_per_chip: PositiveInt = 1
    """JAX devices on one chip."""
    peak_flops_per_s: dict[PeakDType, PositiveFloat] = {}
    """Dense peak by the dtype of the matmul inputs; a missing dtype is unknown."""
    matmul_flops_per_s: dict[PeakDType, PositiveFloat] = {}
    """Matmul rate measured by `scaling calibrate`; never a vendor's figure."""
    hbm_bytes: PositiveInt | None = None
    available_hbm_bytes_per_device: PositiveInt | None = None
    """What the compiler (TPU) or the driver (GPU) leaves to programs."""
    hbm_bytes_per_s: PositiveFloat | None = None
    ici_link_bytes_per_s: PositiveFloat | None = None
    """One link, one way: an ICI link of a TPU, an NVLink of a GPU."""
    ici_links: PositiveInt | None = None
    torus_dims: PositiveInt | None = None
    """Dims of the ICI torus; None where there is none (a switch, or shared memory)."""
    slice_shapes: tuple[tuple[PositiveInt, ...], ...] = ()
    """Slices on offer, in chips; on a 3-D torus those below a cube of 4x4x4."""
    max_slice_chips: PositiveInt | None = None
    """Of the largest slice that can be had."""
    pod_chips: PositiveInt | None = None
    """Of all that one torus joins, where that is more than any slice."""
    chips_per_host: PositiveInt | None = None
    nvlink_domain: PositiveInt | None = None
    """GPUs that NVLink joins: the largest slice of a GPU."""
    dcn_bytes_per_s: PositiveFloat | None = None
    """What one chip can send to other slices."""
    hop_latency_s: PositiveFloat | None = None
    """One step of a collective within a slice."""
    dcn_latency_s: PositiveFloat | None = None
    """One step of a collective between slices."""
    sources: dict[str, str] = {}
    """Field name (peaks: `peak_flops_per_s.DTYPE`) to where its figure comes from."""

    def peak_flops_per_s_per_device(self, dtype: PeakDType) -> float | None:
        """Returns the dense peak of one JAX device, or None where it is unknown."""
        return self._per_device(self.peak_flops_per_s.get(_known_dtype(dtype)))

    def matmul_flops_per_s_per_device(self, dtype: PeakDType) -> float | None:
        """Returns the measured matmul rate of one device, or None: not calibrated."""
        return self._per_device(self.matmul_flops_per_s.get(_known_dtype(dtype)))

    @property
    def hbm_bytes_per_s_per_device(self) -> float | None:
        """Memory bandwidth of one JAX device, or None where it is unknown."""
        return self._per_device(self.hbm_bytes_per_s)

    def _per_device(self, per_chip: float | None) -> float | None:
        return None if per_chip is None else per_chip / self.devices_per_chip


def _known_dtype(dtype: PeakDType) -> PeakDType:
    # A misspelt dtype must not read as "unknown peak" and turn an MFU into null.
    if dtype not in get_args(PeakDType):
        names = ", ".join(get_args(PeakDType))
        raise ValueError(f"unknown dtype {dtype!r}; choose from {names}")
    return dtype
