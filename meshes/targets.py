"""Targets: what the TPU and GPU compilers call hardware that need not be present.

`jax.experimental.topologies.get_topology_desc` takes a platform, a name and options,
and gives devices for which a program can be compiled but on which nothing can run.
"""

from dataclasses import dataclass

from meshes import topology
from meshes.chip import Chip
from meshes.topology import Shape

_TPU_NAMES = {"v7x": "tpu7x"}
_TPU_OPTIONS: dict[str, dict[str, str | int]] = {
    # Else libtpu takes each of the two cores of a chip for a device.
    "v4": {"chip_config_name": "megacore"}
}


@dataclass(frozen=True, kw_only=True)
class Target:
    """Arguments of `get_topology_desc`."""

    platform: str
    topology_name: str
    options: dict[str, str | int]


def target(chip: Chip, slice_shape: Shape, num_slices: int) -> Target:
    """Returns what the compiler of the chip's platform calls so many such slices.

    Raises ValueError, with the valid choices, where there is no such slice, and for a
    chip that no compiler here knows.
    """
    if chip.platform == "cpu":
        raise ValueError(
            f"chip {chip.name!r} is here wherever this runs, so `scaling run` measures "
            "it; compile takes a TPU or a GPU"
        )
    topology.check_slice(chip, slice_shape)
    make = _tpu if chip.platform == "tpu" else _gpu
    return make(chip, slice_shape, num_slices)


def _tpu(chip: Chip, slice_shape: Shape, num_slices: int) -> Target:
    name = _TPU_NAMES.get(chip.name, chip.name)
    options = dict(_TPU_OPTIONS.get(chip.name, {}))
    if num_slices > 1:
        options["num_slices"] = num_slices
    return Target(
        platform="tpu",
        topology_name=f"{name}:{'x'.join(map(str, slice_shape))}",
        options=options,
    )


def _gpu(chip: Chip, slice_shape: Shape, num_slices: int) -> Target:
    """Returns a target of slices of one host each: what NVLink joins."""
    found = next((gpu for gpu in GPU_TARGETS if gpu.chip == chip.name), None)
    if found is None:
        known = ", ".join(gpu.chip for gpu in GPU_TARGETS)
        raise ValueError(f"XLA describes no {chip.name!r}; it does {known}")
    return Target(
        platform="cuda",
        topology_name="",
        options={
            "topology": f"{num_slices}x1x{slice_shape[0]}",
            "target_config": found.config(),
        },
    )


@dataclass(frozen=True, kw_only=True)
class GpuTarget:
    """What XLA's GPU compiler asks about a GPU; SI units but for the clock."""

    chip: str
    core_count: int
    fpus_per_core: int
    clock_rate_ghz: float
    memory_bandwidth: int
    device_memory_size: int
    l2_cache_size: int
    shared_memory_per_core: int
    shared_memory_per_block_optin: int
    compute_capability: tuple[int, int]
    name: str

    def config(self) -> str:
        """Returns the text of XLA's GpuTargetConfigProto."""
        major, minor = self.compute_capability
        fields = {
            "threads_per_block_limit": 1024,
            "threads_per_warp": 32,
            "shared_memory_per_block": 49152,
            "shared_memory_per_core": self.shared_memory_per_core,
            "threads_per_core_limit": 2048,
            "core_count": self.core_count,
            "fpus_per_core": self.fpus_per_core,
            "block_dim_limit_x": 2147483647,
            "block_dim_limit_y": 65535,
            "block_dim_limit_z": 65535,
            "memory_bandwidth": self.memory_bandwidth,
            "l2_cache_size": self.l2_cache_size,
            "clock_rate_ghz": self.clock_rate_ghz,
            "device_memory_size": self.device_memory_size,
            "shared_memory_per_block_optin": self.shared_memory_per_block_optin,
            "registers_per_core_limit": 65536,
            "registers_per_block_limit": 65536,
        }
        info = " ".join(f"{name}: {value}" for name, value in fields.items())
        capability = f"cuda_compute_capability {{ major: {major} minor: {minor} }}"
        return (
            f"gpu_device_info {{ {info} {capability} }} "
            'platform_name: "CUDA" '
            "dnn_version_info { major: 9 minor: 10 patch: 0 } "
            f'device_description_str: "{self.name}"'
        )


GPU_TARGETS = (
    GpuTarget(
        chip="a100-40",
        core_count=108,
        fpus_per_core=64,
        clock_rate_ghz=1.41,
        memory_bandwidth=1_555_200_000_000,
        device_memory_size=42_331_013_120,
        l2_cache_size=41_943_040,
        shared_memory_per_core=167_936,
        shared_memory_per_block_optin=166_912,
        compute_capability=(8, 0),
        name="NVIDIA A100-SXM4-40GB",
    ),
    GpuTarget(
        chip="a100-80",
        core_count=108,
        fpus_per_core=64,
        clock_rate_ghz=1.41,
        memory_bandwidth=2_039_040_000_000,
        device_memory_size=85_100_068_864,
        l2_cache_size=41_943_040,
        shared_memory_per_core=167_936,
        shared_memory_per_block_optin=166_912,
        compute_capability=(8, 0),
        name="NVIDIA A100-SXM4-80GB",
    ),
    GpuTarget(
        chip="h100-sxm",
        core_count=132,
        fpus_per_core=128,
        clock_rate_ghz=1.98,
        memory_bandwidth=3_352_320_000_000,
        device_memory_size=84_942_979_072,
        l2_cache_size=52_428_800,
        shared_memory_per_core=233_472,
        shared_memory_per_block_optin=232_448,
        compute_capability=(9, 0),
        name="NVIDIA H100 80GB HBM3",
    ),
    GpuTarget(
        chip="h200",
        core_count=132,
        fpus_per_core=128,
        clock_rate_ghz=1.98,
        memory_bandwidth=4_800_000_000_000,
        device_memory_size=151_397_597_184,
        l2_cache_size=52_428_800,
        shared_memory_per_core=233_472,
        shared_memory_per_block_optin=232_448,
        compute_capability=(9, 0),
        name="NVIDIA H200 141GB HBM3e",
    ),
    GpuTarget(
        chip="b200",
        core_count=148,
        fpus_per_core=128,
        clock_rate_ghz=1.965,
        memory_bandwidth=7_672_320_000_000,
        device_memory_size=191_514_411_008,
        l2_cache_size=132_644_864,
        shared_memory_per_core=233_472,
        shared_memory_per_block_optin=232_448,
        compute_capability=(10, 0),
        name="NVIDIA B200",
    ),
)
"""Source: openxla/xla xla/backends/gpu/target_config/specs, one file a GPU."""
