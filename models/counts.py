"""Counts: parameters, FLOPs and activation bytes of a transformer, from its shapes.

Letters: D embed, F mlp, H query heads, K key-value heads, h head dim, V vocabulary,
L layers, S sequence length, c bytes of the compute dtype. A matmul that multiplies
and adds n times is 2n FLOPs. Element-wise work is not counted: it is below 2 % of a
step from width 256 on.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator

from models.attention_kernels import computed_fraction
from models.attention_kernels import products
from models.blocks import copies_of_keys
from models.blocks import square_fraction
from models.config import AttentionKernel
from models.config import MatmulForm
from models.config import ModelConfig
from models.config import Remat
from models.config import Residual

_STATISTIC_BYTES = 4
"""What a kernel keeps of each query and head, the logarithm of a sum, is float32."""

_NamedAxes = tuple[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParameterShape:
    """One parameter array of a model; arrays of the layers are listed once."""

    name: str
    """Path of attributes in the model; `blocks.` stands for every layer."""
    shape: tuple[int, ...]
    """Without the leading dim that scanned layers add."""
    logical_axes: tuple[str, ...]
    count: int
    """Number of identical arrays: the layers, or 1."""

    @property
    def size(self) -> int:
        """Elements of one array."""
        return math.prod(self.shape)


@functools.cache
def parameter_shapes(config: ModelConfig) -> tuple[ParameterShape, ...]:
    """Returns every parameter array of the model with its logical axes."""
    sizes = _axis_sizes(config)
    return tuple(
        ParameterShape(
            name=name,
            shape=tuple(sizes[axis] for axis in axes),
            logical_axes=axes,
            count=config.num_layers if name.startswith("blocks.") else 1,
        )
        for name, axes in _parameters(config)
    )


def num_parameters(config: ModelConfig) -> int:
    """Returns the number of trained values; a tied head counts once."""
    return sum(shape.size * shape.count for shape in parameter_shapes(config))


def num_non_embedding_parameters(config: ModelConfig) -> int:
    """Returns the parameters without the tables of tokens and positions and the head.

    The N of arXiv 2001.08361 (section 2.1), which leaves out the head, tied or not.
    """
    outside = ("token_embedding", "position_embedding", "head.kernel")
    return sum(
        shape.size * shape.count
        for shape in parameter_shapes(config)
        if shape.name not in outside
    )


def num_active_parameters(config: ModelConfig) -> int:
    """Returns the parameters that one token meets: all of them in a dense model."""
    return num_parameters(config)


def forward_flops_per_token(
    config: ModelConfig, seq_len: int, *, causal: bool
) -> float:
    """Returns the matmul FLOPs of one token's forward pass.

    L·(2·kernels + 4·S·H·h) + 2·D·V: scores and weighted values take 2·S·H·h each,
    halved where `causal`; the head counts once, tied or not, the look-up 0.
    """
    attention = _attention_flops(config, seq_len) / (2 if causal else 1)
    per_layer = _block_matmul_flops(config) + attention
    return config.num_layers * per_layer + 2 * config.embed_dim * config.vocab_size


def training_flops_per_token(
    config: ModelConfig, seq_len: int, *, causal: bool
) -> float:
    """Returns the model FLOPs of one token: forward once, backward twice of it.

    The numerator of MFU: nothing recomputed is in it, whatever the remat policy.
    """
    return 3 * forward_flops_per_token(config, seq_len, causal=causal)


def executed_flops_per_token(
    config: ModelConfig,
    seq_len: int,
    *,
    remat: Remat,
    form: MatmulForm = "plain",
    attention: AttentionKernel = "xla",
) -> float:
    """Returns the FLOPs of one token that run: all of attention, and recomputation.

    Plain XLA attention computes the whole square; the CPU form and the kernels a part,
    and the kernels more products backward. `dots` keeps the outputs of the dense
    matmuls and runs attention's forward pass again; `full` runs the block again but
    for its last matmul, whose output nothing in the backward pass reads.
    """
    forward, backward = products(attention)
    product = attention_product_flops_per_token(
        config, seq_len, form=form, attention=attention
    )
    dense = _block_matmul_flops(config)
    last_matmul = 2 * config.mlp_dim * config.embed_dim
    recomputed = {
        "none": 0.0,
        "dots": forward * product,
        "full": dense + forward * product - last_matmul,
    }[remat]
    per_layer = 3 * dense + (forward + backward) * product + recomputed
    head = 3 * 2 * config.embed_dim * config.vocab_size
    return config.num_layers * per_layer + head


def attention_product_flops_per_token(
    config: ModelConfig,
    seq_len: int,
    *,
    form: MatmulForm = "plain",
    attention: AttentionKernel = "xla",
) -> float:
    """Returns the FLOPs of one token in one product of attention, of one layer."""
    computed = computed_fraction(seq_len, attention, form)
    return computed * _attention_flops(config, seq_len) / 2


def activation_bytes_per_token(
    config: ModelConfig,
    seq_len: int,
    *,
    remat: Remat,
    compute_bytes: int,
    tensor: int = 1,
    residual: Residual = "replicated",
    form: MatmulForm = "plain",
    attention: AttentionKernel = "xla",
) -> dict[str, float]:
    """Returns the bytes of one token alive when the forward pass has ended, by name.

    On a device of a mesh where `tensor` devices share heads, mlp and vocabulary, and
    the residual stream unless it is `replicated`. Per layer, times c, with f = 1 (2
    with a gate) arrays before the activation:

    - `full`: the layer's input, D
    - `dots`: its input, and the outputs of dense matmuls that the backward pass
      reads, 2·D + h·(H + 2·K) + f·F
    - `none`: inputs of matmuls, norms and activations, and the weights of attention,
      4·D + h·(2·H + 2·K) + (f + 1)·F + H·S; the CPU form keeps a part of H·S, and a
      key and a value in every block that meets them; a kernel keeps 4 bytes a head
      in place of c·H·S, and splash its result once more, with heads first, c·h·H

    After the layers: the final norm's input and output and float32 logits,
    2·c·D + 4·V. Not in it: what the backward pass needs of one layer at a time, and
    gathered kernels, of which unrolled layers may keep one each.
    """
    f = 2 if config.gated else 1
    copies = copies_of_keys(seq_len, form)
    statistic = _STATISTIC_BYTES / compute_bytes
    kept = {
        "xla": seq_len * square_fraction(seq_len, form),
        "splash": statistic + config.head_dim,
        "cudnn": statistic,
    }[attention]
    stream, whole, heads, weights, mlp = {
        "full": (1, 0, 0, 0, 0),
        "dots": (2, 0, config.num_heads + 2 * config.num_kv_heads, 0, f),
        "none": (
            2,
            2,
            2 * (config.num_heads + config.num_kv_heads * copies),
            config.num_heads * kept,
            f + 1,
        ),
    }[remat]
    shards = 1 if residual == "replicated" else tensor
    layers = config.num_layers * compute_bytes
    return {
        "residual stream": layers * (stream / shards + whole) * config.embed_dim,
        "heads": layers * config.head_dim * heads / tensor,
        "attention weights": layers * weights / tensor,
        "mlp": layers * mlp * config.mlp_dim / tensor,
        "final norm": compute_bytes * (1 / shards + 1) * config.embed_dim,
        "logits": 4 * config.vocab_size / tensor,
    }


def _axis_sizes(config: ModelConfig) -> dict[str, int]:
    return {
        "embed": config.embed_dim,
        "mlp": config.mlp_dim,
        "heads": config.num_heads,
        "kv_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab": config.vocab_size,
        "positions": config.max_seq_len,
    }


def _parameters(config: ModelConfig) -> Iterator[_NamedAxes]:
    yield "token_embedding", ("vocab", "embed")
    if config.positions == "learned":
        yield "position_embedding", ("positions", "embed")
    yield from _norm("blocks.attention_norm", config)
    yield from _attention("blocks.attention", config)
    yield from _norm("blocks.mlp_norm", config)
    yield from _mlp("blocks.mlp", config)
    yield from _norm("final_norm", config)
    if not config.tied_head:
        yield "head.kernel", ("embed", "vocab")


def _norm(name: str, config: ModelConfig) -> Iterator[_NamedAxes]:
    yield f"{name}.scale", ("embed",)
    if config.norm == "layer" and config.bias:
        yield f"{name}.bias", ("embed",)


def _attention(name: str, config: ModelConfig) -> Iterator[_NamedAxes]:
    for projection, heads in (
        ("query", "heads"),
        ("key", "kv_heads"),
        ("value", "kv_heads"),
    ):
        yield from _dense(
            f"{name}.{projection}", ("embed",), (heads, "head_dim"), bias=config.bias
        )
    yield from _dense(
        f"{name}.output", ("heads", "head_dim"), ("embed",), bias=config.bias
    )


def _mlp(name: str, config: ModelConfig) -> Iterator[_NamedAxes]:
    for projection in ("gate", "up") if config.gated else ("up",):
        yield from _dense(
            f"{name}.{projection}", ("embed",), ("mlp",), bias=config.bias
        )
    yield from _dense(f"{name}.down", ("mlp",), ("embed",), bias=config.bias)


def _dense(
    name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], *, bias: bool
) -> Iterator[_NamedAxes]:
    yield f"{name}.kernel", inputs + outputs
    if bias:
        yield f"{name}.bias", outputs


@functools.cache
def _block_matmul_flops(config: ModelConfig) -> float:
    """Returns the FLOPs of one token through the dense matmuls of one layer."""
    return 2.0 * sum(
        shape.size
        for shape in parameter_shapes(config)
        if shape.name.startswith("blocks.") and shape.name.endswith(".kernel")
    )


def _attention_flops(config: ModelConfig, seq_len: int) -> float:
    """Returns the FLOPs of one token with all S keys of its sequence, one layer."""
    return 4.0 * seq_len * config.num_heads * config.head_dim
