"""Predictions from compiled programs, on texts of the real TPU compiler."""

import gzip
from pathlib import Path

import pytest

from meshes.hardware import chip
from models.counts import training_flops_per_token
from models.presets import MODELS
from scaling.compiled import MODEL_ERROR
from scaling.compiled import compiled_prediction
from scaling.measurement import CompiledProgram
from scaling.point import Point

GOLDEN = Path(__file__).parent.parent / "golden" / "hlo"
PROGRAM = CompiledProgram(
    program_hash="x",
    arguments_bytes=1000,
    outputs_bytes=700,
    aliases_bytes=600,
    temporaries_bytes=50,
    code_bytes=9,
)
POINT = Point.model_validate(
    {
        "model": "tiny",
        "chip": "v5e",
        "slice_shape": (2, 2),
        "mesh": "1/fsdp=2,tensor=2",
        "global_batch_size": 64,
        "seq_len": 256,
        "remat": "full",
    }
)


@pytest.fixture(scope="module")
def text() -> str:
    path = GOLDEN / "v5e_fsdp2_tensor2.hlo.gz"
    return gzip.decompress(path.read_bytes()).decode()


def test_times_and_utilisation_belong_together(text):
    found = compiled_prediction(POINT, PROGRAM, text, chip("v5e"))
    assert found.step_time_s is not None
    low, high = found.step_time_low_s, found.step_time_high_s
    assert low is not None
    assert high is not None
    assert found.step_time_s == pytest.approx((low * high) ** 0.5)
    assert found.tokens_per_s == pytest.approx(64 * 256 / found.step_time_s)
    per_token = training_flops_per_token(MODELS["tiny"], 256, causal=True)
    model_flops = 64 * 256 / 4 * per_token
    assert found.mfu == pytest.approx(model_flops / found.step_time_s / 197e12)
    assert found.exposed_s is not None
    assert sum(found.exposed_s.values()) == pytest.approx(found.step_time_s)
    assert found.limited_by == max(found.exposed_s, key=found.exposed_s.__getitem__)
    assert found.times_s is not None
    assert found.times_s["compute"] == pytest.approx(found.executed_flops / 197e12)


def test_memory_is_what_the_compiler_says_with_donated_outputs_counted_once(text):
    found = compiled_prediction(POINT, PROGRAM, text, chip("v5e"))
    assert found.peak_hbm_bytes == 1000 + 100 + 50
    assert found.fits
    stated = PROGRAM.model_copy(update={"live_peak_bytes": 990})
    again = compiled_prediction(POINT, stated, text, chip("v5e"))
    assert again.peak_hbm_bytes == 990


def test_a_chip_without_a_figure_gets_no_time_and_keeps_its_amounts(text):
    blind = chip("v5e").model_copy(update={"ici_link_bytes_per_s": None})
    found = compiled_prediction(POINT, PROGRAM, text, blind)
    assert found.step_time_s is None
    assert found.mfu is None
    assert found.times_s is None
    assert found.limited_by is None
    assert found.executed_flops > 0
    assert found.collectives


def test_on_gpu_the_slow_end_is_at_fractions_of_the_rates_with_every_launch():
    text = gzip.decompress((GOLDEN / "h100_data2_nodes.hlo.gz").read_bytes()).decode()
    fields = {"chip": "h100-sxm", "slice_shape": None, "mesh": "data=2/fsdp=4"}
    point = Point.model_validate(POINT.model_dump() | fields | {"remat": "none"})
    found = compiled_prediction(point, PROGRAM, text, chip("h100-sxm"))
    low, high = found.step_time_low_s, found.step_time_high_s
    assert low is not None
    assert high is not None
    assert found.times_s is not None
    # Nothing is slower than all work at the slow rates, one after the other, with less
    # than a thousand launches of 1 µs and 21 collectives of 8.4 µs.
    work = found.times_s["compute"] / 0.6 + found.times_s["hbm"] / 0.75
    wire = found.times_s["ici"] + found.times_s["dcn"]
    assert low < high < work + wire + 1000e-6 + 21 * 8.4e-6
    assert high > low / 0.75
    assert found.exposed_s is not None
    assert found.exposed_s["dcn"] > 0
    assert found.available_hbm_bytes == 84_942_979_072


@pytest.fixture(scope="module")
def kernels() -> str:
    """Returns `SPLASH` by libtpu 0.0.50, without the kernels' own code."""
    path = GOLDEN / "v5e_tiny_splash.hlo.gz"
    return gzip.decompress(path.read_bytes()).decode()


SPLASH = Point.model_validate(
    {
        **POINT.model_dump(),
        "mesh": "1/fsdp=4",
        "global_batch_size": 8,
        "seq_len": 1024,
        "remat": "dots",
        "attention": "splash",
    }
)


def test_kernels_are_priced_by_the_closed_form(kernels):
    found = compiled_prediction(SPLASH, PROGRAM, kernels, chip("v5e"))
    assert found.unpriced == ()
    # Two blocks of 512 by 512 of which one is left out; 2, 3 and 4 products of the
    # three kernels, and the forward one once more, in each of two layers.
    product = 2 * 1024 * 4 * 32 * 3 / 4
    dense = 3 * 2 * (2 * 245_760 + 65_536)
    assert found.executed_flops == 2048 * (2 * 11 * product + dense)
    assert [each.name for each in found.differences] == []


def test_a_kernel_that_nobody_knows_is_named_and_its_work_missing(kernels):
    known = compiled_prediction(SPLASH, PROGRAM, kernels, chip("v5e"))
    text = kernels.replace("splash_mqa_dkv_", "other_")
    found = compiled_prediction(SPLASH, PROGRAM, text, chip("v5e"))
    assert found.unpriced == ("tpu_custom_call",)
    product = 2 * 1024 * 4 * 32 * 3 / 4
    missing = known.executed_flops - found.executed_flops
    assert missing == 2048 * 2 * 4 * product
    (one,) = found.differences
    assert one.name == "executed_flops"
    # At the peak on the low end, at 0.4 of it on the high end.
    low = (known.step_time_low_s or 0) - (found.step_time_low_s or 0)
    high = (known.step_time_high_s or 0) - (found.step_time_high_s or 0)
    assert low == pytest.approx(missing / 197e12 / MODEL_ERROR["tpu"])
    assert high == pytest.approx(missing / (0.4 * 197e12) * MODEL_ERROR["tpu"])


def test_a_text_that_is_no_program_is_refused():
    with pytest.raises(ValueError, match="ENTRY"):
        compiled_prediction(POINT, PROGRAM, "HloModule nothing", chip("v5e"))
