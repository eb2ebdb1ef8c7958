"""Published steps: what MaxText measured on real TPU slices, shape by shape.

The rows of its tables that state mesh, batch and remat policy, in bfloat16, dense,
remat full or minimal, with nothing offloaded to the host. What `scaling compile`
predicts of the same shapes is held against them in docs/compile.md.

Each row prints TFLOP/s a chip by MaxText's own count of its time, which counts no
recomputation: 6·N·T + 12·L·H·h·S·T FLOPs with N parameters and T tokens, attention in
full until 2023-10 and halved (causal) from 2023-12 on.
"""

import math
from typing import NamedTuple

from meshes.spec import MeshSpec
from models.config import AttentionKernel
from models.config import Remat
from models.config import Residual
from models.counts import num_parameters
from models.presets import MODELS
from scaling.point import Point


class PublishedStep(NamedTuple):
    """One measured training step."""

    id: str
    source: str
    point: Point
    """The same shapes with this project's step: its AdamW, its blocks."""
    step_time_s: float


class _Table(NamedTuple):
    """What the rows of one of MaxText's tables have in common."""

    prefix: str
    source: str
    chip: str
    seq_len: int
    remat: Remat
    attention: AttentionKernel
    causal: bool


_V4 = _Table(
    prefix="maxtext-v4",
    source="AI-Hypercomputer/maxtext README.md at f70c643b0 (2023-08)",
    chip="v4",
    seq_len=1024,
    remat="full",
    # Its scripts ask for no kernel, and there was none yet by default.
    attention="xla",
    causal=False,
)
_V5E = _Table(
    prefix="maxtext-v5e",
    source="AI-Hypercomputer/maxtext README.md at d47cede25 (2023-10)",
    chip="v5e",
    seq_len=2048,
    remat="full",
    attention="splash",
    causal=False,
)
_V5P = _Table(
    prefix="maxtext-v5p",
    source="AI-Hypercomputer/maxtext configs/tpu/v5p/README.md (2023-12)",
    chip="v5p",
    seq_len=2048,
    remat="dots",
    attention="splash",
    causal=True,
)


def _rows(
    table: _Table,
    size: str,
    slice_shape: tuple[int, ...],
    within: str,
    batch_per_slice: int,
    rates: dict[int, float],
    *,
    remat: Remat | None = None,
) -> tuple[PublishedStep, ...]:
    """Returns one row for each number of slices in `rates`, TFLOP/s a chip."""
    # MaxText shards the residual stream over its tensor axis, along embed: what is kept
    # and sent is the same.
    residual: Residual = "seq" if "tensor" in within else "replicated"
    chips = math.prod(slice_shape)

    def row(slices: int, rate: float) -> PublishedStep:
        across = f"data={slices}" if slices > 1 else "1"
        point = Point(
            model=f"maxtext-{size}",
            chip=table.chip,
            slice_shape=slice_shape,
            mesh=MeshSpec.parse(f"{across}/{within}"),
            global_batch_size=batch_per_slice * slices,
            seq_len=table.seq_len,
            regime="weak",
            remat=remat or table.remat,
            attention=table.attention,
            residual=residual,
        )
        return PublishedStep(
            id=f"{table.prefix}-{size}-{slices}x{chips}",
            source=table.source,
            point=point,
            step_time_s=_flops(point, causal=table.causal)
            / (slices * chips * rate * 1e12),
        )

    return tuple(row(slices, rate) for slices, rate in rates.items())


def _flops(point: Point, *, causal: bool) -> float:
    """Returns the FLOPs of a step as MaxText counts them."""
    config = MODELS[point.model]
    width = config.num_heads * config.head_dim
    square = 12 * config.num_layers * width * point.seq_len
    per_token = 6 * num_parameters(config) + square / (2 if causal else 1)
    return per_token * point.tokens_per_step


_GPT3 = PublishedStep(
    id="tpu-recipes-v6e-gpt3-175b-1x256",
    source="AI-Hypercomputer/tpu-recipes training/trillium/GPT3-175B-MaxText (2024)",
    point=Point(
        model="gpt3-175b",
        chip="v6e",
        slice_shape=(16, 16),
        mesh=MeshSpec.parse("1/fsdp=256"),
        global_batch_size=768,
        seq_len=2048,
        regime="weak",
        remat="full",
        attention="splash",
    ),
    step_time_s=17.182,
)

PUBLISHED_STEPS: tuple[PublishedStep, ...] = (
    *_rows(_V4, "22b", (4, 4, 4), "fsdp=64", 1024, {1: 156, 2: 152, 4: 149}),
    *_rows(_V4, "52b", (4, 4, 12), "fsdp=192", 1920, {1: 154, 2: 162}),
    *_rows(_V5E, "16b", (16, 16), "fsdp=256", 1536, {1: 120, 2: 117, 4: 117, 8: 115}),
    *_rows(_V5E, "64b", (16, 16), "fsdp=256", 512, {1: 118, 2: 112, 4: 110, 8: 108}),
    *_rows(
        _V5E,
        "128b",
        (16, 16),
        "fsdp=16,tensor=16",
        256,
        {1: 110, 2: 110, 4: 108, 8: 104},
    ),
    *_rows(_V5P, "32b", (4, 4, 4), "fsdp=16,tensor=4", 512, {1: 328, 2: 319}),
    *_rows(_V5P, "128b", (4, 4, 8), "fsdp=16,tensor=8", 256, {1: 315, 2: 305}),
    *_rows(_V5P, "128b", (4, 8, 8), "fsdp=32,tensor=8", 512, {1: 316, 2: 274}),
    *_rows(_V5P, "256b", (8, 8, 8), "fsdp=64,tensor=8", 1024, {1: 308, 2: 289}),
    *_rows(
        _V5P,
        "512b",
        (8, 8, 8),
        "fsdp=32,tensor=16",
        1024,
        {1: 294, 2: 282},
        remat="full",
    ),
    _GPT3,
)
"""28 rows, without what MaxText measured again with other software."""
