"""ModelConfig: the shape of a decoder-only transformer.

Nothing here imports JAX: the planner, the counts and the command line read shapes
without touching a device.
"""

from typing import Literal

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import PositiveInt
from pydantic import model_validator

Norm = Literal["rms", "layer"]
Positions = Literal["rotary", "learned"]
Activation = Literal["swiglu", "geglu", "gelu", "relu", "relu2"]

Remat = Literal["none", "dots", "full"]
"""What the backward pass recomputes: nothing, all but matmul outputs, whole blocks."""
Layers = Literal["scanned", "unrolled"]
Residual = Literal["replicated", "seq"]
"""What `tensor` shards of the residual stream between the halves of a block."""
DType = Literal["float32", "bfloat16"]
AttentionKernel = Literal["xla", "splash", "cudnn"]
"""What computes attention: plain operations, or the kernels of a TPU or a GPU."""
MatmulForm = Literal["plain", "flat"]
"""`flat` folds batch and sequence into one dim around each dense matmul, or does as
much for its gradient: the same numbers, in the form XLA's CPU backend runs well."""


class ModelConfig(BaseModel, frozen=True):
    """Shape of a transformer: everything that determines its parameters."""

    model_config = ConfigDict(extra="forbid")

    name: str
    source: str
    """Where the shape comes from, and the parameter count it is held to."""
    num_layers: PositiveInt
    embed_dim: PositiveInt
    num_heads: PositiveInt
    num_kv_heads: PositiveInt
    """Key and value heads; `num_heads` for multi-head attention, 1 for multi-query."""
    head_dim: PositiveInt
    """Its own field: `num_heads * head_dim` need not be `embed_dim` (gemma-7b)."""
    mlp_dim: PositiveInt
    vocab_size: PositiveInt
    max_seq_len: PositiveInt
    """Training context; the size of the table where positions are learned."""
    norm: Norm = "rms"
    positions: Positions = "rotary"
    rope_theta: float = 10_000.0
    activation: Activation = "swiglu"
    bias: bool = False
    """Bias vectors on every dense projection but the head, and on layer norms."""
    tied_head: bool = False
    """Whether the output projection is the transposed embedding table."""

    @model_validator(mode="after")
    def _heads_fit(self) -> "ModelConfig":
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} of model {self.name!r} is not a multiple "
                f"of num_kv_heads {self.num_kv_heads}"
            )
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(
                f"head_dim {self.head_dim} of model {self.name!r} is odd; rotary "
                "positions turn pairs"
            )
        return self

    @property
    def gated(self) -> bool:
        """Whether the MLP has a gate projection: three matmuls instead of two."""
        return self.activation in ("swiglu", "geglu")
