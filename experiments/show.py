"""Show: what is known about models, chips, sweeps and published curves.

`known` returns what `--json` prints; `print_known` writes the same for people.
"""

from typing import Any
from typing import Literal

from experiments.given import unknown
from experiments.sweep import Sweep
from experiments.sweep import chip_text
from experiments.sweep import load_sweep
from experiments.sweep import sweep_docstring
from experiments.sweep import sweep_names
from meshes import hardware
from models import counts
from models.config import ModelConfig
from models.presets import MODELS
from models.presets import model as model_named
from scaling.published import PUBLISHED
from scaling.published import PublishedCurve

Topic = Literal["models", "chips", "sweeps", "curves"]

Row = dict[str, Any]
"""A JSON object."""

FLOPS_CONVENTION = (
    "matmuls only, a multiply-add is 2 FLOPs; causal half of attention; the head "
    "counts once, the embedding look-up 0; training is 3 forward passes, nothing "
    "recomputed"
)


def known(
    topic: Topic, name: str | None, *, seq_len: int | None = None
) -> Row | list[Row]:
    """Returns what is known of one name, or of every name of the topic.

    `seq_len` is that of a model's FLOPs; its own context if None. Raises ValueError
    for an unknown name, with the nearest, and for a `seq_len` of what is no model.
    """
    if seq_len is not None and topic != "models":
        raise ValueError(f"--seq_len {seq_len} is for models; {topic} have none")
    match topic:
        case "models":
            if name is not None:
                return _model(model_named(name), seq_len)
            return [
                {"name": preset.name} | _model(preset, seq_len)
                for preset in MODELS.values()
            ]
        case "chips":
            if name is not None:
                return hardware.chip(name).model_dump(mode="json")
            return [chip.model_dump(mode="json") for chip in hardware.CHIPS.values()]
        case "sweeps":
            if name is not None:
                return _sweep(load_sweep(name)) | {"about": sweep_docstring(name)}
            return [_sweep_line(load_sweep(each)) for each in sweep_names()]
        case "curves":
            if name is None:
                return [_curve(curve) for curve in PUBLISHED.values()]
            if name not in PUBLISHED:
                raise ValueError(unknown("published curve", name, PUBLISHED))
            return _curve(PUBLISHED[name])


def _model(config: ModelConfig, seq_len: int | None) -> Row:
    tokens = seq_len or config.max_seq_len
    return {
        "num_parameters": counts.num_parameters(config),
        "num_non_embedding_parameters": counts.num_non_embedding_parameters(config),
        "num_active_parameters": counts.num_active_parameters(config),
        "forward_flops_per_token": counts.forward_flops_per_token(
            config, tokens, causal=True
        ),
        "training_flops_per_token": counts.training_flops_per_token(
            config, tokens, causal=True
        ),
        "seq_len": tokens,
        "flops_convention": FLOPS_CONVENTION,
        "source": config.source,
    }


def _sweep_line(sweep: Sweep) -> Row:
    return {
        "name": sweep.name,
        "question": sweep.question,
        "num_points": len(sweep.points),
        "repeats": sweep.repeats,
    }


def _sweep(sweep: Sweep) -> Row:
    points = [
        {
            "id": point.id,
            "model": point.model,
            "chip": chip_text(point),
            "mesh": str(point.mesh),
            "regime": point.regime,
            "global_batch_size": point.global_batch_size,
            "seq_len": point.seq_len,
        }
        for point in sweep.points
    ]
    return _sweep_line(sweep) | {"points": points}


def _curve(curve: PublishedCurve) -> Row:
    row = curve.model_dump(mode="json")
    for point, efficiency in zip(row["points"], curve.efficiencies, strict=True):
        point["efficiency"] = efficiency
    return row
