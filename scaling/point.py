"""Point: everything that determines one training step, and its content hash."""

import hashlib
import json
from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import NonNegativeInt
from pydantic import PositiveInt

from meshes.spec import MeshSpec
from models.config import AttentionKernel
from models.config import DType
from models.config import Layers
from models.config import Remat
from models.config import Residual

Regime = Literal["strong", "weak"]


class Point(BaseModel):
    """One training step: model, hardware, mesh, batch and every software choice.

    A default never changes and a new field's default is the old behaviour, so the
    ids of stored results stay valid.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    """A name in `models.presets.MODELS`."""
    chip: str
    """A name in `meshes.hardware.CHIPS`."""
    mesh: MeshSpec
    global_batch_size: PositiveInt
    """Sequences per optimizer step over the whole mesh, accumulation included."""
    seq_len: PositiveInt
    """Tokens per sequence that enter the model."""
    regime: Regime = "strong"
    """Whether the sweep holds the global batch (strong) or the batch per device."""
    slice_shape: tuple[PositiveInt, ...] | None = None
    """Chips of one slice along each torus dim, as (4, 4, 8); None without a torus."""
    accumulation: PositiveInt = 1
    """Micro-batches whose gradients are summed before one optimizer step."""
    remat: Remat = "none"
    attention: AttentionKernel = "xla"
    """`splash` is served on TPU alone and `cudnn` on GPU."""
    layers: Layers = "scanned"
    residual: Residual = "replicated"
    """How the residual stream lies over `tensor`: whole on each of its devices, or
    sharded along the sequence (Megatron's sequence parallelism)."""
    param_dtype: DType = "float32"
    compute_dtype: DType = "bfloat16"
    data: str = "text"
    """`text` (packed bytes of the default corpus), `synthetic`, or a TFDS name."""
    seed: NonNegativeInt = 0
    checkpoint_every: NonNegativeInt = 0
    """Steps between checkpoints; 0 saves none."""

    @property
    def id(self) -> str:
        """First 16 hex digits of the SHA-256 of the fields that are not default."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def tokens_per_step(self) -> int:
        """Tokens over the whole mesh in one optimizer step."""
        return self.global_batch_size * self.seq_len
