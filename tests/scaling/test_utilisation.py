import pytest

from models.counts import training_flops_per_token
from models.presets import MODELS
from scaling.utilisation import implied_mfu
from scaling.utilisation import mfu


def test_by_hand(point):
    each = point(model="gpt2-124m", mesh="data=2/data=4", seq_len=1024)
    per_token = training_flops_per_token(MODELS["gpt2-124m"], 1024, causal=True)
    # 64 sequences over eight chips of 197e12 bfloat16 FLOP/s.
    expected = per_token * 64 * 1024 / (0.5 * 8 * 197e12)
    assert mfu(each, 0.5) == pytest.approx(expected)


def test_two_devices_share_a_chip(point):
    # v3: 123e12 FLOP/s a chip, two devices on each.
    on_v3, on_v5e = point(chip="v3"), point(chip="v5e")
    assert mfu(on_v3, 1.0) / mfu(on_v5e, 1.0) == pytest.approx(197 / (123 / 2))


def test_an_impossible_time_has_no_mfu_and_what_it_implies_is_known(point):
    each = point(model="gpt2-124m")
    assert implied_mfu(each, 1e-6) > 1
    assert mfu(each, 1e-6) is None
    assert mfu(each, implied_mfu(each, 1.0)) == 1.0


@pytest.mark.parametrize(
    "fields",
    [
        {"chip": "cpu"},
        {"chip": "a chip of tomorrow"},
        {"model": "a model of yesterday"},
        {"chip": "b200", "compute_dtype": "float32"},
    ],
)
def test_none_where_there_is_no_peak(point, fields):
    assert mfu(point(**fields), 1.0) is None
