"""TPUS: the figures of Google's TPUs, v2 to v7x.

Where sources disagree the comment names the value not taken. Cloud pages write GB for
GiB: what the compiler hands out on v5e, v5p and v6e exceeds the decimal figure.
"""

from meshes.chip import Chip

_GIB = 2**30
_CLOUD = "Google Cloud TPU {} page"
_TPU_INFO = "jax 0.12.0.1 jax/_src/tpu_info.py"
_BOOK = "jax-ml/scaling-book tpus.md"
_LIBTPU = "measured: libtpu 0.0.52 compiling without a device"
_MAXTEXT = "AI-Hypercomputer/maxtext accelerator_to_spec_map.py"
_ASTRA = "astra-sim/astra-sim TPU v3 network, fitted in its validation"
_LINK_90 = f"{_BOOK}; Google's 200e9 both ways per link is 100e9, of which 90 % is used"
# XLA multiplies float32 in one bfloat16 pass unless a precision is asked for, so that
# is the rate, and an MFU over it cannot exceed 1.
_FLOAT32 = "jax.lax.Precision.DEFAULT: float32 in one bfloat16 pass on TPU"
_DCN_GUESS = "assumption of this project (100 µs an all-reduce); nothing is published"

_SMALL_2D = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
_SMALL_3D = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))


def _sources(**of: str) -> dict[str, str]:
    """Returns field to source; the peaks are given as `bfloat16`, `fp8`, `int8`."""
    peaks = ("bfloat16", "fp8", "int8")
    named = {f"peak_flops_per_s.{k}" if k in peaks else k: v for k, v in of.items()}
    return named | {
        "peak_flops_per_s.float32": _FLOAT32,
        "device_kinds": _TPU_INFO,
        "devices_per_chip": _TPU_INFO,
    }


TPUS = (
    Chip(
        name="v2",
        platform="tpu",
        device_kinds=("TPU v2",),
        devices_per_chip=2,
        peak_flops_per_s={"bfloat16": 46e12, "float32": 46e12},
        hbm_bytes=16_000_000_000,
        hbm_bytes_per_s=716e9,
        ici_links=4,
        torus_dims=2,
        slice_shapes=((2, 2), (4, 4), (8, 8), (8, 16), (16, 16)),
        max_slice_chips=256,
        chips_per_host=4,
        sources=_sources(
            bfloat16=_TPU_INFO,
            hbm_bytes=_TPU_INFO,
            hbm_bytes_per_s=_TPU_INFO,
            ici_links="2-D torus",
            torus_dims=_MAXTEXT,
            slice_shapes="Google Cloud accelerator types v2-8 to v2-512 (cores)",
            max_slice_chips="Google Cloud accelerator type v2-512 (cores)",
            chips_per_host="Google Cloud accelerator type v2-8 (cores)",
        ),
    ),
    Chip(
        name="v3",
        platform="tpu",
        device_kinds=("TPU v3",),
        devices_per_chip=2,
        # tpu_info and scaling-book: 140e12
        peak_flops_per_s={"bfloat16": 123e12, "float32": 123e12},
        hbm_bytes=32 * _GIB,
        hbm_bytes_per_s=900e9,  # tpu_info: 825e9
        ici_link_bytes_per_s=80e9,  # scaling-book: 100e9
        ici_links=4,
        torus_dims=2,
        slice_shapes=(
            (2, 2),
            (4, 4),
            (4, 8),
            (8, 8),
            (8, 16),
            (16, 16),
            (16, 32),
            (32, 32),
        ),
        max_slice_chips=1024,
        chips_per_host=4,  # scaling-book counts the 4x2 host as 8
        hop_latency_s=1e-6,
        sources=_sources(
            bfloat16=_CLOUD.format("v3"),
            hbm_bytes=_CLOUD.format("v3"),
            hbm_bytes_per_s=f"{_CLOUD.format('v3')}; {_BOOK}",
            ici_link_bytes_per_s=_ASTRA,
            ici_links=_CLOUD.format("v3"),
            torus_dims=_CLOUD.format("v3"),
            slice_shapes="Google Kubernetes Engine machine types ct3 and ct3p",
            max_slice_chips=_CLOUD.format("v3"),
            chips_per_host="Google Cloud accelerator type v3-8 (cores)",
            hop_latency_s=_ASTRA,
        ),
    ),
    Chip(
        name="v4",
        platform="tpu",
        device_kinds=("TPU v4",),
        devices_per_chip=1,  # megacore; two only where the compiler is told so
        # tpu_info gives no int8
        peak_flops_per_s={"bfloat16": 275e12, "float32": 275e12, "int8": 275e12},
        hbm_bytes=32 * _GIB,
        available_hbm_bytes_per_device=int(30.5 * _GIB),
        hbm_bytes_per_s=1228e9,
        ici_link_bytes_per_s=45e9,
        ici_links=6,
        torus_dims=3,
        slice_shapes=_SMALL_3D,
        max_slice_chips=4096,
        chips_per_host=4,
        dcn_bytes_per_s=6.25e9,
        hop_latency_s=1e-6,
        dcn_latency_s=50e-6,
        sources=_sources(
            bfloat16=f"{_CLOUD.format('v4')}; {_TPU_INFO}",
            int8=_CLOUD.format("v4"),
            hbm_bytes=_CLOUD.format("v4"),
            available_hbm_bytes_per_device=f"{_LIBTPU}: 15.25 GiB a core, two cores",
            hbm_bytes_per_s=f"between 1200e9 ({_CLOUD.format('v4')}) and 1230e9 "
            f"({_TPU_INFO}), both rounded",
            ici_link_bytes_per_s=_BOOK,
            ici_links=_CLOUD.format("v4"),
            torus_dims=_CLOUD.format("v4"),
            slice_shapes=_MAXTEXT,
            max_slice_chips=_CLOUD.format("v4"),
            chips_per_host=f"{_BOOK}; {_MAXTEXT}",
            dcn_bytes_per_s=_BOOK,
            hop_latency_s=_BOOK,
            dcn_latency_s=_DCN_GUESS,
        ),
    ),
    Chip(
        name="v5e",
        platform="tpu",
        device_kinds=("TPU v5 lite", "TPU v5e"),
        # int8: 394e12 in tpu_info and scaling-book; no fp8 unit, so fp8 at bf16 rate
        peak_flops_per_s={
            "bfloat16": 197e12,
            "float32": 197e12,
            "fp8": 197e12,
            "int8": 393e12,
        },
        hbm_bytes=16 * _GIB,
        available_hbm_bytes_per_device=int(15.75 * _GIB),
        hbm_bytes_per_s=819e9,  # newer page 859e9, tpu_info 820e9, scaling-book 810e9
        ici_link_bytes_per_s=45e9,  # Google: 400e9 both ways per chip, 50e9 a link
        ici_links=4,
        torus_dims=2,
        slice_shapes=_SMALL_2D,
        max_slice_chips=256,
        chips_per_host=8,  # also sold as 4 or 1
        dcn_bytes_per_s=3.125e9,
        hop_latency_s=1e-6,
        dcn_latency_s=50e-6,
        sources=_sources(
            bfloat16=f"{_CLOUD.format('v5e')}; {_TPU_INFO}; {_BOOK}",
            fp8=_LIBTPU,
            int8=_CLOUD.format("v5e"),
            hbm_bytes=f"{_CLOUD.format('v5e')} (16 GB); {_TPU_INFO}",
            available_hbm_bytes_per_device=_LIBTPU,
            hbm_bytes_per_s=_CLOUD.format("v5e"),
            ici_link_bytes_per_s=_BOOK,
            ici_links=_CLOUD.format("v5e"),
            torus_dims=_CLOUD.format("v5e"),
            slice_shapes=f"{_CLOUD.format('v5e')}; {_MAXTEXT}",
            max_slice_chips=_CLOUD.format("v5e"),
            chips_per_host=f"{_CLOUD.format('v5e')}; {_BOOK}",
            dcn_bytes_per_s=f"{_CLOUD.format('v5e')} (2 x 100 Gb/s a host); {_BOOK}",
            hop_latency_s=_BOOK,
            dcn_latency_s=_DCN_GUESS,
        ),
    ),
    Chip(
        name="v5p",
        platform="tpu",
        device_kinds=("TPU v5", "TPU v5p"),
        peak_flops_per_s={
            "bfloat16": 459e12,
            "float32": 459e12,
            "fp8": 459e12,
            "int8": 918e12,
        },
        hbm_bytes=96 * _GIB,  # the page says 95, the compiler hands out 95.73
        available_hbm_bytes_per_device=int(95.73 * _GIB),
        hbm_bytes_per_s=2765e9,  # tpu_info: 2460e9, scaling-book: 2800e9
        ici_link_bytes_per_s=90e9,
        ici_links=6,
        torus_dims=3,
        slice_shapes=_SMALL_3D,
        max_slice_chips=6144,
        pod_chips=8960,
        chips_per_host=4,
        dcn_bytes_per_s=6.25e9,
        hop_latency_s=1e-6,
        dcn_latency_s=50e-6,
        sources=_sources(
            bfloat16=f"{_CLOUD.format('v5p')}; {_TPU_INFO}; {_BOOK}",
            fp8=_CLOUD.format("v5p"),
            int8=f"{_TPU_INFO}; {_BOOK}",
            hbm_bytes=_TPU_INFO,
            available_hbm_bytes_per_device=_LIBTPU,
            hbm_bytes_per_s=_CLOUD.format("v5p"),
            ici_link_bytes_per_s=_LINK_90,
            ici_links=_CLOUD.format("v5p"),
            torus_dims=_CLOUD.format("v5p"),
            slice_shapes=f"{_CLOUD.format('v5p')}; {_MAXTEXT}",
            max_slice_chips=f"{_CLOUD.format('v5p')}: the largest single job",
            pod_chips=_CLOUD.format("v5p"),
            chips_per_host=f"{_BOOK}; {_MAXTEXT}",
            dcn_bytes_per_s=f"{_CLOUD.format('v5p')}; {_BOOK}",
            hop_latency_s=_BOOK,
            dcn_latency_s=_DCN_GUESS,
        ),
    ),
    Chip(
        name="v6e",
        platform="tpu",
        device_kinds=("TPU v6 lite", "TPU v6e"),
        peak_flops_per_s={
            "bfloat16": 918e12,  # tpu_info and scaling-book: 920e12
            "float32": 918e12,
            "fp8": 918e12,
            "int8": 1836e12,
        },
        hbm_bytes=32 * _GIB,
        available_hbm_bytes_per_device=int(31.24 * _GIB),
        hbm_bytes_per_s=1638e9,  # tpu_info: 1640e9, scaling-book: 1600e9
        ici_link_bytes_per_s=90e9,
        ici_links=4,
        torus_dims=2,
        slice_shapes=_SMALL_2D,
        max_slice_chips=256,
        chips_per_host=8,
        dcn_bytes_per_s=12.5e9,
        hop_latency_s=1e-6,
        dcn_latency_s=50e-6,
        sources=_sources(
            bfloat16=_CLOUD.format("v6e"),
            fp8=f"{_CLOUD.format('TPU7x')}; {_TPU_INFO}",
            int8=_CLOUD.format("v6e"),
            hbm_bytes=f"{_CLOUD.format('v6e')} (32 GB); {_TPU_INFO}",
            available_hbm_bytes_per_device=_LIBTPU,
            hbm_bytes_per_s=_CLOUD.format("v6e"),
            ici_link_bytes_per_s=_LINK_90,
            ici_links=_CLOUD.format("v6e"),
            torus_dims=_CLOUD.format("v6e"),
            slice_shapes=_MAXTEXT,
            max_slice_chips=_CLOUD.format("v6e"),
            chips_per_host=_CLOUD.format("v6e"),
            dcn_bytes_per_s=f"{_CLOUD.format('TPU7x')}; {_BOOK}",
            hop_latency_s=_BOOK,
            dcn_latency_s=_DCN_GUESS,
        ),
    ),
    Chip(
        name="v7x",
        platform="tpu",
        device_kinds=("TPU7x",),
        devices_per_chip=2,
        # no int8 unit; tpu_info rounds to 2310e12 and 4600e12
        peak_flops_per_s={"bfloat16": 2307e12, "float32": 2307e12, "fp8": 4614e12},
        hbm_bytes=192 * _GIB,
        available_hbm_bytes_per_device=int(94.74 * _GIB),
        hbm_bytes_per_s=7380e9,  # tpu_info: 7400e9
        ici_link_bytes_per_s=90e9,
        ici_links=6,
        torus_dims=3,
        slice_shapes=((1, 1, 1), *_SMALL_3D),
        max_slice_chips=9216,
        chips_per_host=4,
        dcn_bytes_per_s=12.5e9,
        hop_latency_s=1e-6,
        dcn_latency_s=50e-6,
        sources=_sources(
            bfloat16=f"{_CLOUD.format('TPU7x')}; {_TPU_INFO}",
            fp8=_CLOUD.format("TPU7x"),
            hbm_bytes=_CLOUD.format("TPU7x"),
            available_hbm_bytes_per_device=_LIBTPU,
            hbm_bytes_per_s=_CLOUD.format("TPU7x"),
            ici_link_bytes_per_s=f"{_CLOUD.format('TPU7x')} (1200e9 both ways per "
            "chip, as v5p); 90 % of it, as scaling-book takes on v5p",
            ici_links=_CLOUD.format("TPU7x"),
            torus_dims=_CLOUD.format("TPU7x"),
            slice_shapes=_MAXTEXT,
            max_slice_chips=f"{_CLOUD.format('TPU7x')}; {_MAXTEXT}",
            chips_per_host=_MAXTEXT,
            dcn_bytes_per_s=_CLOUD.format("TPU7x"),
            hop_latency_s="jax-ml/scaling-book tpus.md, of earlier chips",
            dcn_latency_s=_DCN_GUESS,
        ),
    ),
)
