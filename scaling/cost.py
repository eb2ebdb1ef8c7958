"""Cost: what must happen per device and optimizer step, per resource.

Written by `analytic.py` from shapes, read by `predict.py`, and held against what
`hlo.accounting` reads of a compiled program. Amounts, not times: a Chip turns them into
seconds.
"""

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import NonNegativeFloat
from pydantic import NonNegativeInt

from meshes.collectives import CollectiveKind
from meshes.spec import Axis
from meshes.spec import Network


class Collective(BaseModel):
    """One kind of collective over some mesh axes, per device and step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CollectiveKind
    axes: tuple[Axis, ...]
    network: Network
    group_size: NonNegativeInt
    """Participants on this network."""
    count: NonNegativeInt
    """Executions per step."""
    payload_bytes: NonNegativeFloat
    """The full logical array, summed over executions."""
    bytes: NonNegativeFloat
    """What one device sends, summed over executions."""

    def plus(self, more: "Collective") -> "Collective":
        """Returns both together, which are of one kind, axes and network."""
        return self.model_copy(
            update={
                "count": self.count + more.count,
                "payload_bytes": self.payload_bytes + more.payload_bytes,
                "bytes": self.bytes + more.bytes,
            }
        )


class Cost(BaseModel):
    """Work of one device in one optimizer step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_flops: NonNegativeFloat
    """Without recomputation, attention causal-halved (the MFU numerator)."""
    model_flops_full_attention: NonNegativeFloat
    executed_flops: NonNegativeFloat
    """With recomputation, and what is computed of attention's masked half."""
    hbm_bytes: NonNegativeFloat
    """Traffic to and from device memory, a lower bound."""
    arguments_bytes: NonNegativeFloat
    """Parameters, optimizer state and batch, from the exact shard shapes."""
    activation_bytes: NonNegativeFloat
    """Alive at the end of the forward pass under the remat policy, with the copies of
    weights that wait there."""
    gradient_bytes: NonNegativeFloat
    peak_hbm_bytes: NonNegativeFloat
    """At the fullest moment: the loss, or a layer's backward pass (`scaling.held`)."""
    collectives: tuple[Collective, ...] = ()

    @property
    def least_hbm_bytes(self) -> float:
        """Arguments (donated, so counted once) and gradients, or activations if more.

        A lower bound: all activations are there before the backward pass, all gradients
        after it.
        """
        return self.arguments_bytes + max(self.gradient_bytes, self.activation_bytes)
