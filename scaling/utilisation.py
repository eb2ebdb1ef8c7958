"""Utilisation: the useful share of the vendor's peak (MFU), and what cannot be true.

Model FLOPs count no recomputation and causal attention once (PaLM, arXiv:2204.02311,
appendix B, with the masked half left out). Executed FLOPs are never fewer, so a
timing that implies more than the peak from model FLOPs alone is wrong.
"""

import functools

from meshes.hardware import CHIPS
from models.config import DType
from models.counts import training_flops_per_token
from models.presets import MODELS
from scaling.point import Point


def mfu(point: Point, step_time_s: float) -> float | None:
    """Returns model FLOPs over peak; None where it is not known or cannot be true."""
    implied = implied_mfu(point, step_time_s)
    return implied if implied is not None and implied <= 1 else None


def implied_mfu(point: Point, step_time_s: float) -> float | None:
    """Returns model FLOPs over peak; above 1 where the timing cannot be true.

    Only for saying that it cannot: what people read as measured is `mfu`. None where
    no vendor peak exists: on CPU, and for a dtype, chip or model that is not known.
    """
    peak = _peak_flops_per_s(point.chip, point.compute_dtype)
    flops_per_token = _flops_per_token(point.model, point.seq_len)
    if peak is None or flops_per_token is None:
        return None
    tokens_per_device = point.tokens_per_step / point.mesh.num_devices
    return flops_per_token * tokens_per_device / (step_time_s * peak)


def _peak_flops_per_s(chip: str, dtype: DType) -> float | None:
    """Returns the dense vendor peak of one device."""
    known = CHIPS.get(chip)
    if known is None or known.platform == "cpu":
        return None
    return known.peak_flops_per_s_per_device(dtype)


@functools.cache
def _flops_per_token(model: str, seq_len: int) -> float | None:
    config = MODELS.get(model)
    return config and training_flops_per_token(config, seq_len, causal=True)
