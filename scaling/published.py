"""Published curves: what others measured at scale, as their sources print it.

Each figure is a rate per chip, so its ratio to the first is the curve's efficiency
whatever convention of counting FLOPs the source has.
"""

from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import PositiveFloat
from pydantic import PositiveInt

from scaling.curve import Direction
from scaling.point import Regime


class PublishedPoint(BaseModel):
    """One number of chips of a published curve."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_chips: PositiveInt
    global_batch_size: PositiveInt
    rate_per_chip: PositiveFloat
    """In the unit of the curve."""


class PublishedCurve(BaseModel):
    """One model on growing numbers of one chip, as one source reports it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    source: str
    year: PositiveInt
    model: str
    chip: str
    """A name in `meshes.hardware.CHIPS`."""
    direction: Direction
    """Horizontal where slices or nodes are added, each unchanged."""
    regime: Regime
    seq_len: PositiveInt
    quantity: Literal["tokens_per_s", "flops_per_s"]
    """What `rate_per_chip` counts; FLOPs as the source counts them."""
    points: tuple[PublishedPoint, ...]

    @property
    def efficiencies(self) -> tuple[float, ...]:
        """Rate per chip over that of the smallest number of chips, point by point."""
        first = self.points[0].rate_per_chip
        return tuple(point.rate_per_chip / first for point in self.points)


def _points(*rows: tuple[int, int, float]) -> tuple[PublishedPoint, ...]:
    return tuple(
        PublishedPoint(num_chips=chips, global_batch_size=batch, rate_per_chip=rate)
        for chips, batch, rate in rows
    )


_CURVES = (
    PublishedCurve(
        name="maxtext-16b-v5e",
        source="AI-Hypercomputer/maxtext README.md at d47cede25",
        year=2023,
        model="maxtext-16b",
        chip="v5e",
        direction="horizontal",
        regime="weak",
        seq_len=2048,
        quantity="flops_per_s",
        points=_points(
            (256, 1536, 120e12),
            (512, 3072, 117e12),
            (1024, 6144, 117e12),
            (2048, 12288, 115e12),
        ),
    ),
    PublishedCurve(
        name="maxtext-128b-v5e",
        source="AI-Hypercomputer/maxtext README.md at d47cede25",
        year=2023,
        model="maxtext-128b",
        chip="v5e",
        direction="horizontal",
        regime="weak",
        seq_len=2048,
        quantity="flops_per_s",
        points=_points(
            (256, 256, 110e12),
            (512, 512, 110e12),
            (1024, 1024, 108e12),
            (2048, 2048, 104e12),
        ),
    ),
    PublishedCurve(
        name="llama2-7b-h100",
        source="AI-Hypercomputer/maxtext src/maxtext/configs/gpu/a3/llama_2_7b",
        year=2024,
        model="llama2-7b",
        chip="h100-sxm",
        direction="horizontal",
        regime="weak",
        seq_len=4096,
        quantity="flops_per_s",
        points=_points(
            (8, 32, 492e12), (16, 64, 422e12), (32, 128, 407e12), (64, 256, 409e12)
        ),
    ),
    PublishedCurve(
        name="internlm-7b-a100",
        source="InternLM/InternLM doc/en/train_performance.md, ZeRO over 8 GPUs",
        year=2023,
        model="internlm-7b",
        chip="a100-80",
        direction="horizontal",
        regime="weak",
        seq_len=2048,
        quantity="tokens_per_s",
        points=_points(
            (8, 64, 4078),
            (16, 128, 3939),
            (32, 256, 3919),
            (64, 512, 3944),
            (128, 1024, 3928),
            (256, 2048, 3920),
        ),
    ),
    PublishedCurve(
        name="mpt-30b-h100",
        source="mosaicml/llm-foundry scripts/train/benchmarking/README.md, large scale",
        year=2023,
        model="mpt-30b",
        chip="h100-sxm",
        direction="horizontal",
        regime="weak",
        seq_len=2048,
        quantity="tokens_per_s",
        points=_points((128, 1024, 2199), (256, 2048, 2148), (512, 4096, 2115)),
    ),
    PublishedCurve(
        name="megatron-177b-h100",
        source="NVIDIA/Megatron-LM README.md, read off images/strong_scaling.png",
        year=2024,
        model="gpt-177b",
        chip="h100-sxm",
        direction="horizontal",
        regime="strong",
        seq_len=4096,
        quantity="flops_per_s",
        points=_points(
            (96, 1152, 462.6e12),
            (144, 1152, 461.9e12),
            (288, 1152, 459.0e12),
            (576, 1152, 456.0e12),
            (1152, 1152, 448.5e12),
            (2304, 1152, 435.0e12),
        ),
    ),
)

PUBLISHED: dict[str, PublishedCurve] = {curve.name: curve for curve in _CURVES}
"""Published curves by name."""
