"""MODELS: transformer shapes by name, each with the source of its numbers.

`source` names where the shape comes from and the parameter count it is held to:
equal to the released weights where there are any, otherwise within 0.5 % of the
published figure, with the formula written beside it.
"""

import difflib

from models.config import ModelConfig


def model(name: str) -> ModelConfig:
    """Returns the preset of that name.

    Raises ValueError with the nearest names, or all of them when none is near.
    """
    if name in MODELS:
        return MODELS[name]
    near = difflib.get_close_matches(name, MODELS, n=3)
    choices = f"did you mean {' or '.join(near)}?" if near else ", ".join(MODELS)
    raise ValueError(f"unknown model {name!r}; {choices}")


def _llama(
    name: str,
    *,
    source: str,
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    mlp: int,
    vocab: int,
    context: int,
    rope_theta: float = 10_000.0,
    head_dim: int | None = None,
) -> ModelConfig:
    """Returns the Llama family: RMSNorm, rotary, SwiGLU, no bias, untied head."""
    return ModelConfig(
        name=name,
        source=source,
        num_layers=layers,
        embed_dim=width,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim or width // heads,
        mlp_dim=mlp,
        vocab_size=vocab,
        max_seq_len=context,
        rope_theta=rope_theta,
    )


def _gpt(
    name: str,
    *,
    source: str,
    layers: int,
    width: int,
    heads: int,
    vocab: int,
    context: int,
) -> ModelConfig:
    """Returns the GPT family: LayerNorm, learned positions, GELU, biases, tied head.

    Parameters, with L layers, width D, vocabulary V and context T:
    V·D + T·D + L·(12·D² + 13·D) + 2·D.
    """
    return ModelConfig(
        name=name,
        source=source,
        num_layers=layers,
        embed_dim=width,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=width // heads,
        mlp_dim=4 * width,
        vocab_size=vocab,
        max_seq_len=context,
        norm="layer",
        positions="learned",
        activation="gelu",
        bias=True,
        tied_head=True,
    )


def _mpt(
    size: str, *, layers: int, width: int, heads: int, parameters: str
) -> ModelConfig:
    """Returns one shape of llm-foundry's benchmark table, at 2,048 tokens.

    That table varies the sequence length, and the learned positions with it: at T
    tokens a row's NumParams is the one named here plus (T - 2,048)·D.
    """
    return _gpt(
        f"mpt-{size}",
        source=f"mosaicml/llm-foundry scripts/train/yamls/pretrain/mpt-{size}.yaml; "
        f"NumParams {parameters} in scripts/train/benchmarking/README.md at 2,048 "
        "tokens",
        layers=layers,
        width=width,
        heads=heads,
        vocab=50_368,
        context=2_048,
    )


def _maxtext(
    size: str, *, layers: int, width: int, heads: int, mlp: int
) -> ModelConfig:
    """Returns one shape of the tables that MaxText published for TPU v4, v5e and v5p.

    RMSNorm, rotary, ReLU, no bias, tied head. Parameters, with L layers, width D,
    H heads of 256, MLP F, vocabulary V: V·D + L·(4·D·256·H + 2·D·F + 2·D) + D. A
    row's context is that of its run; nothing in the model depends on it.
    """
    return ModelConfig(
        name=f"maxtext-{size}",
        source="AI-Hypercomputer/maxtext configs/tpu (2023), global_parameter_scale "
        f"or the script of its table; {size.upper()} by its own count",
        num_layers=layers,
        embed_dim=width,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=256,
        mlp_dim=mlp,
        vocab_size=32_768,
        max_seq_len=2_048,
        activation="relu",
        tied_head=True,
    )


def _released(repository: str, parameters: str) -> str:
    return f"{repository} config.json; released weights: {parameters} parameters"


_OWN = (
    _llama(
        "tiny",
        source="this project: small enough for a step of milliseconds on one CPU core",
        layers=2,
        width=128,
        heads=4,
        kv_heads=2,
        mlp=512,
        vocab=512,
        context=128,
    ),
    _llama(
        "small",
        source="this project: the family of tiny at 180 M parameters; heads, mlp and "
        "vocabulary divide by 8",
        layers=8,
        width=1_024,
        heads=16,
        kv_heads=8,
        mlp=3_584,
        vocab=32_768,
        context=2_048,
    ),
)

_GPT = (
    _gpt(
        "gpt2-124m",
        source=_released("openai-community/gpt2", "124,439,808"),
        layers=12,
        width=768,
        heads=12,
        vocab=50_257,
        context=1_024,
    ),
    _gpt(
        "gpt3-175b",
        source="arXiv 2005.14165 table 2.1, vocabulary of GPT-2; 174,600 M parameters "
        "in its table D.1, V·D + T·D + L·(12·D² + 13·D) + 2·D = 174,604 M here; its "
        "banded sparse attention layers are counted dense",
        layers=96,
        width=12_288,
        heads=96,
        vocab=50_257,
        context=2_048,
    ),
)

_LLAMA2 = (
    _llama(
        "llama2-7b",
        source=_released("meta-llama/Llama-2-7b-hf", "6,738,415,616"),
        layers=32,
        width=4_096,
        heads=32,
        kv_heads=32,
        mlp=11_008,
        vocab=32_000,
        context=4_096,
    ),
    _llama(
        "llama2-13b",
        source=_released("meta-llama/Llama-2-13b-hf", "13,015,864,320"),
        layers=40,
        width=5_120,
        heads=40,
        kv_heads=40,
        mlp=13_824,
        vocab=32_000,
        context=4_096,
    ),
    _llama(
        "llama2-70b",
        source=_released("meta-llama/Llama-2-70b-hf", "68,976,648,192"),
        layers=80,
        width=8_192,
        heads=64,
        kv_heads=8,
        mlp=28_672,
        vocab=32_000,
        context=4_096,
    ),
)

_LLAMA3 = (
    _llama(
        "llama3-8b",
        source=_released("meta-llama/Meta-Llama-3-8B", "8,030,261,248"),
        layers=32,
        width=4_096,
        heads=32,
        kv_heads=8,
        mlp=14_336,
        vocab=128_256,
        context=8_192,
        rope_theta=500_000.0,
    ),
    _llama(
        "llama3-70b",
        source=_released("meta-llama/Meta-Llama-3-70B", "70,553,706,496"),
        layers=80,
        width=8_192,
        heads=64,
        kv_heads=8,
        mlp=28_672,
        vocab=128_256,
        context=8_192,
        rope_theta=500_000.0,
    ),
    _llama(
        "llama3.1-405b",
        source=_released("meta-llama/Llama-3.1-405B", "405,853,388,800")
        + "; without the rotary scaling that stretches its context past 8,192",
        layers=126,
        width=16_384,
        heads=128,
        kv_heads=8,
        mlp=53_248,
        vocab=128_256,
        context=131_072,
        rope_theta=500_000.0,
    ),
)

_OTHER = (
    _llama(
        "mistral-7b",
        source=_released("mistralai/Mistral-7B-v0.1", "7,241,732,096")
        + "; attention reaches all earlier tokens, not only the last 4,096",
        layers=32,
        width=4_096,
        heads=32,
        kv_heads=8,
        mlp=14_336,
        vocab=32_000,
        context=8_192,
    ),
    ModelConfig(
        name="gemma-7b",
        source=_released("google/gemma-7b", "8,537,680,896")
        + "; without its scaling of embeddings by the root of their width",
        num_layers=28,
        embed_dim=3_072,
        num_heads=16,
        num_kv_heads=16,
        head_dim=256,
        mlp_dim=24_576,
        vocab_size=256_000,
        max_seq_len=8_192,
        activation="geglu",
        tied_head=True,
    ),
)

_MPT = (
    _mpt("125m", layers=12, width=768, heads=12, parameters="125,311,488"),
    _mpt("350m", layers=24, width=1_024, heads=16, parameters="355,985,408"),
    _mpt("760m", layers=24, width=1_536, heads=12, parameters="760,470,528"),
    _mpt("1b", layers=24, width=2_048, heads=16, parameters="1,315,950,592"),
    _mpt("3b", layers=32, width=2_560, heads=20, parameters="2,651,837,440"),
    _mpt("7b", layers=32, width=4_096, heads=32, parameters="6,658,859,008"),
    _mpt("13b", layers=40, width=5_120, heads=40, parameters="12,853,954,560"),
    _mpt("30b", layers=48, width=7_168, heads=56, parameters="29,975,214,080"),
    _mpt("70b", layers=80, width=8_192, heads=64, parameters="64,862,437,376"),
)

_MAXTEXT = (
    _maxtext("16b", layers=32, width=5_120, heads=32, mlp=32_768),
    _maxtext("22b", layers=48, width=6_144, heads=24, mlp=24_576),
    _maxtext("32b", layers=32, width=10_240, heads=32, mlp=32_768),
    _maxtext("52b", layers=32, width=12_288, heads=32, mlp=49_152),
    _maxtext("64b", layers=64, width=10_240, heads=32, mlp=32_768),
    _maxtext("128b", layers=64, width=10_240, heads=64, mlp=65_536),
    _maxtext("256b", layers=64, width=20_480, heads=64, mlp=65_536),
    _maxtext("512b", layers=128, width=20_480, heads=64, mlp=65_536),
)

MODELS: dict[str, ModelConfig] = {
    preset.name: preset
    for preset in _OWN + _GPT + _LLAMA2 + _LLAMA3 + _OTHER + _MPT + _MAXTEXT
}
"""Every preset by name."""
