"""GPUS: the figures of NVIDIA's data-centre GPUs, A100 to B200.

Peaks are dense; NVIDIA's sheets print twice as much, with sparsity. A link's rate is
what NCCL plans with, not the nominal one (25e9 to Hopper, 50e9 on Blackwell): measured
rings reach it. NVIDIA writes GB for GiB: drivers report more than the decimal figure.
"""

from meshes.chip import Chip

_GIB = 2**30
_MLE = "stas00/ml-engineering compute/accelerator/README.md (2026-08)"
_MLE_NET = "stas00/ml-engineering network/README.md (2026-08)"
_LEVANTER = "stanford-crfm/levanter flop_utils.py"
_BOOK = "jax-ml/scaling-book gpus.md"
_XLA = "openxla/xla xla/backends/gpu/target_config/specs"
_NCCL = "NVIDIA/nccl src/graph/topo.h"
_NCCL_STEP = "NVIDIA/nccl src/graph/tuning.cc: one ring step, Simple protocol"
_KIND = f"{_XLA}: device_description"
# XLA multiplies float32 as TensorFloat-32 unless a precision is asked for.
_TF32 = f"{_LEVANTER}: TensorFloat-32, as jax.lax.Precision.DEFAULT takes on GPU"


def _sources(**of: str) -> dict[str, str]:
    """Returns field to source; the peaks are given as `bfloat16`, `float32`, …"""
    peaks = ("bfloat16", "float32", "fp8", "int8")
    return {f"peak_flops_per_s.{k}" if k in peaks else k: v for k, v in of.items()}


GPUS = (
    Chip(
        name="a100-40",
        platform="gpu",
        device_kinds=("NVIDIA A100-SXM4-40GB",),
        peak_flops_per_s={"bfloat16": 312e12, "float32": 156e12, "int8": 624e12},
        hbm_bytes=40 * _GIB,
        available_hbm_bytes_per_device=42_331_013_120,
        hbm_bytes_per_s=1555.2e9,
        ici_link_bytes_per_s=20e9,
        ici_links=12,
        nvlink_domain=8,
        chips_per_host=8,
        dcn_bytes_per_s=25e9,
        hop_latency_s=3.4e-6,
        dcn_latency_s=14e-6,
        sources=_sources(
            device_kinds=_KIND,
            bfloat16=f"{_LEVANTER}; {_MLE}; {_BOOK}",
            float32=_TF32,
            int8=_MLE,
            hbm_bytes=_MLE,
            available_hbm_bytes_per_device=f"{_XLA}/a100_sxm_40.txtpb",
            hbm_bytes_per_s=f"{_XLA}/a100_sxm_40.txtpb",
            ici_link_bytes_per_s=_NCCL,
            ici_links=_BOOK,
            nvlink_domain=_BOOK,
            chips_per_host=_BOOK,
            dcn_bytes_per_s="calculon-ai/calculon a100_80g: 200 Gb/s HDR a GPU",
            hop_latency_s=_NCCL_STEP,
            dcn_latency_s=_NCCL_STEP,
        ),
    ),
    Chip(
        name="a100-80",
        platform="gpu",
        device_kinds=("NVIDIA A100-SXM4-80GB",),
        peak_flops_per_s={"bfloat16": 312e12, "float32": 156e12, "int8": 624e12},
        hbm_bytes=80 * _GIB,
        available_hbm_bytes_per_device=85_100_068_864,
        hbm_bytes_per_s=2000e9,  # XLA's target: 2039e9, calculon: 2048e9
        ici_link_bytes_per_s=20e9,
        ici_links=12,
        nvlink_domain=8,
        chips_per_host=8,
        dcn_bytes_per_s=25e9,
        hop_latency_s=3.4e-6,
        dcn_latency_s=14e-6,
        sources=_sources(
            device_kinds=_KIND,
            bfloat16=f"{_LEVANTER}; {_MLE}; {_BOOK}",
            float32=_TF32,
            int8=_MLE,
            hbm_bytes=f"{_MLE}; {_BOOK}",
            available_hbm_bytes_per_device=f"{_XLA}/a100_sxm_80.txtpb",
            hbm_bytes_per_s=_MLE,
            ici_link_bytes_per_s=_NCCL,
            ici_links=_BOOK,
            nvlink_domain=_BOOK,
            chips_per_host=_BOOK,
            dcn_bytes_per_s="calculon-ai/calculon a100_80g: 200 Gb/s HDR a GPU",
            hop_latency_s=_NCCL_STEP,
            dcn_latency_s=_NCCL_STEP,
        ),
    ),
    Chip(
        name="h100-sxm",
        platform="gpu",
        device_kinds=("NVIDIA H100 80GB HBM3",),
        peak_flops_per_s={
            "bfloat16": 989e12,
            "float32": 494.5e12,
            "fp8": 1979e12,
            "int8": 1979e12,
        },
        hbm_bytes=80 * _GIB,
        available_hbm_bytes_per_device=84_942_979_072,
        hbm_bytes_per_s=3350e9,  # calculon: 3072e9, scaling-book: 3400e9
        ici_link_bytes_per_s=20.6e9,
        ici_links=18,
        nvlink_domain=8,
        chips_per_host=8,
        dcn_bytes_per_s=50e9,  # 74 % of it measured
        hop_latency_s=3.4e-6,
        dcn_latency_s=14e-6,
        sources=_sources(
            device_kinds=_KIND,
            bfloat16=f"{_LEVANTER}; {_MLE}",
            float32=_TF32,
            fp8=f"{_LEVANTER}; {_MLE}",
            int8=f"{_LEVANTER}; {_MLE}",
            hbm_bytes=_MLE,
            available_hbm_bytes_per_device=f"{_XLA}/h100_sxm.txtpb",
            hbm_bytes_per_s=_MLE,
            ici_link_bytes_per_s=_NCCL,
            ici_links=f"{_BOOK}; {_NCCL}",
            nvlink_domain=_BOOK,
            chips_per_host=_BOOK,
            dcn_bytes_per_s=_BOOK,
            hop_latency_s=_NCCL_STEP,
            dcn_latency_s=_NCCL_STEP,
        ),
    ),
    Chip(
        name="h100-pcie",
        platform="gpu",
        device_kinds=("NVIDIA H100 PCIe",),
        peak_flops_per_s={
            "bfloat16": 756e12,
            "float32": 378e12,
            "fp8": 1513e12,
            "int8": 1513e12,
        },
        hbm_bytes=80 * _GIB,
        hbm_bytes_per_s=2000e9,
        # A bridge joins a pair; its rate, hosts and network are the buyer's choice.
        nvlink_domain=2,
        sources=_sources(
            device_kinds="karpathy/nanoGPT, rasbt/LLMs-from-scratch (issue threads)",
            bfloat16=f"{_LEVANTER}; {_MLE}",
            float32=_TF32,
            fp8=f"{_LEVANTER}; {_MLE}",
            int8=f"{_LEVANTER}; {_MLE}",
            hbm_bytes=_MLE,
            hbm_bytes_per_s=f"{_MLE}; NVIDIA product brief PB-11133-001",
            nvlink_domain=_MLE_NET,
        ),
    ),
    Chip(
        name="h200",
        platform="gpu",
        device_kinds=("NVIDIA H200", "NVIDIA H200 141GB HBM3e"),
        peak_flops_per_s={
            "bfloat16": 989e12,
            "float32": 494.5e12,
            "fp8": 1979e12,
            "int8": 1979e12,
        },
        hbm_bytes=141 * _GIB,
        available_hbm_bytes_per_device=151_397_597_184,
        hbm_bytes_per_s=4800e9,
        ici_link_bytes_per_s=20.6e9,
        ici_links=18,
        nvlink_domain=8,
        chips_per_host=8,
        dcn_bytes_per_s=50e9,
        hop_latency_s=3.4e-6,
        dcn_latency_s=14e-6,
        sources=_sources(
            device_kinds=f"CUDA device name; {_KIND}",
            bfloat16=f"{_MLE}; {_BOOK}",
            float32=f"{_TF32}; the die of the H100 SXM",
            fp8=f"{_MLE}; {_BOOK}",
            int8=f"{_MLE}; {_BOOK}",
            hbm_bytes=f"{_MLE}; {_BOOK}",
            available_hbm_bytes_per_device=f"{_XLA}/h200.txtpb",
            hbm_bytes_per_s=f"{_MLE}; {_BOOK}",
            ici_link_bytes_per_s=f"{_NCCL}; 367.6e9 over 8 GPUs measured, {_MLE_NET}",
            ici_links=_NCCL,
            nvlink_domain=_MLE_NET,
            chips_per_host=_MLE_NET,
            dcn_bytes_per_s=_MLE_NET,
            hop_latency_s=_NCCL_STEP,
            dcn_latency_s=_NCCL_STEP,
        ),
    ),
    Chip(
        name="b200",
        platform="gpu",
        device_kinds=("NVIDIA B200",),
        # TensorFloat-32 is left out: no source
        peak_flops_per_s={"bfloat16": 2250e12, "fp8": 4500e12, "int8": 4500e12},
        hbm_bytes=180 * _GIB,  # 192 in scaling-book and older tables
        available_hbm_bytes_per_device=191_514_411_008,
        hbm_bytes_per_s=8000e9,  # XLA's target: 7672e9
        ici_link_bytes_per_s=40.1e9,
        ici_links=18,
        nvlink_domain=8,
        chips_per_host=8,
        dcn_bytes_per_s=50e9,
        hop_latency_s=3.4e-6,
        dcn_latency_s=14e-6,
        sources=_sources(
            device_kinds=_KIND,
            bfloat16=_MLE,
            fp8=f"{_MLE}; {_BOOK}",
            int8=_MLE,
            hbm_bytes=f"{_MLE}; mlcommons/inference_results_v6.0",
            available_hbm_bytes_per_device=f"{_XLA}/b200.txtpb",
            hbm_bytes_per_s=f"{_MLE}; {_BOOK}",
            ici_link_bytes_per_s=_NCCL,
            ici_links=f"{_BOOK}; {_NCCL}",
            nvlink_domain=_BOOK,
            chips_per_host=_BOOK,
            dcn_bytes_per_s=_BOOK,
            hop_latency_s=_NCCL_STEP,
            dcn_latency_s=_NCCL_STEP,
        ),
    ),
)
