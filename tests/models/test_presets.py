"""Presets: the parameter counts are those of the released weights or the paper."""

import re

import pytest

from models.counts import num_parameters
from models.presets import MODELS
from models.presets import model

RELEASED = {
    "gpt2-124m": 124_439_808,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "gemma-7b": 8_537_680_896,
}
PUBLISHED = {
    "gpt3-175b": 174_600_000_000,
    "mpt-125m": 125_311_488,
    "mpt-350m": 355_985_408,
    "mpt-760m": 760_470_528,
    "mpt-1b": 1_315_950_592,
    "mpt-3b": 2_651_837_440,
    "mpt-7b": 6_658_859_008,
    "mpt-13b": 12_853_954_560,
    "mpt-30b": 29_975_214_080,
    "mpt-70b": 64_862_437_376,
}
OWN = {"tiny", "small"}
MAXTEXT = {f"maxtext-{size}b" for size in (16, 22, 32, 52, 64, 128, 256, 512)}


def test_every_preset_is_held_to_a_source():
    assert set(MODELS) == OWN | MAXTEXT | set(RELEASED) | set(PUBLISHED)


@pytest.mark.parametrize("name", RELEASED)
def test_parameters_equal_the_released_weights(name):
    assert num_parameters(MODELS[name]) == RELEASED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_close_to_the_published_figure(name):
    assert num_parameters(MODELS[name]) == pytest.approx(PUBLISHED[name], rel=0.005)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_count_named_in_the_source_is_the_one_of_the_shape(name):
    stated = re.search(r"([\d,]+) parameters|NumParams ([\d,]+)", MODELS[name].source)
    if stated is None:
        assert name in OWN | MAXTEXT | {"gpt3-175b"}
    else:
        number = (stated[1] or stated[2]).replace(",", "")
        assert num_parameters(MODELS[name]) == int(number)


def test_the_formula_beside_gpt3_is_its_count():
    vocabulary, width, context, layers = 50_257, 12_288, 2_048, 96
    formula = (
        vocabulary * width
        + context * width
        + layers * (12 * width**2 + 13 * width)
        + 2 * width
    )
    assert num_parameters(MODELS["gpt3-175b"]) == formula


def test_the_formula_beside_maxtext_is_its_count():
    layers, width, heads, mlp, vocabulary = 32, 5_120, 32, 32_768, 32_768
    block = 4 * width * 256 * heads + 2 * width * mlp + 2 * width
    assert num_parameters(MODELS["maxtext-16b"]) == (
        vocabulary * width + layers * block + width
    )


@pytest.mark.parametrize("name", sorted(MAXTEXT))
def test_the_name_of_a_maxtext_shape_is_its_size(name):
    billions = float(name.removeprefix("maxtext-").removesuffix("b"))
    assert num_parameters(MODELS[name]) / 1e9 == pytest.approx(billions, rel=0.02)


def test_small_is_tiny_at_another_size():
    sizes = {"name", "source", "max_seq_len"} | {
        field for field in type(MODELS["tiny"]).model_fields if "_dim" in field
    }
    sizes |= {"num_layers", "num_heads", "num_kv_heads", "vocab_size"}
    tiny, small = (MODELS[name].model_dump(exclude=sizes) for name in OWN)
    assert tiny == small
    assert num_parameters(MODELS["tiny"]) < 1_000_000
    assert 100e6 < num_parameters(MODELS["small"]) < 200e6


@pytest.mark.parametrize(
    "dim", ["num_layers", "num_heads", "num_kv_heads", "mlp_dim", "vocab_size"]
)
def test_small_divides_over_eight_devices(dim):
    assert getattr(MODELS["small"], dim) % 8 == 0


def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown model 'llama2-7'.*llama2-7b"):
        model("llama2-7")


def test_a_name_near_nothing_is_answered_with_all():
    with pytest.raises(ValueError, match="unknown model 'zzz'; tiny, small, gpt2"):
        model("zzz")


def test_model_returns_the_preset():
    assert model("gemma-7b") is MODELS["gemma-7b"]
