import itertools
import math

import pytest

from meshes.hardware import chip
from scaling.analytic import cost
from scaling.point import Point
from scaling.predict import missing_figures
from scaling.predict import predict


def point(**changes):
    fields = {
        "model": "llama2-7b",
        "chip": "v5e",
        "mesh": "1/fsdp=256",
        "slice_shape": (16, 16),
        "global_batch_size": 256,
        "seq_len": 1024,
    }
    return Point.model_validate(fields | changes)


def calibrated_cpu():
    return chip("cpu").model_copy(
        update={
            "matmul_flops_per_s": {"float32": 40e9},
            "hbm_bytes_per_s": 8e9,
            "dcn_bytes_per_s": 1e9,
        }
    )


def on_cpu(mesh="1/1"):
    return Point.model_validate(
        {
            "model": "tiny",
            "chip": "cpu",
            "mesh": mesh,
            "global_batch_size": 16,
            "seq_len": 128,
            "compute_dtype": "float32",
        }
    )


def test_causes_are_amounts_over_the_chips_rates():
    this = point()
    times = predict(this, chip("v5e")).times_s
    assert times is not None
    amounts = cost(this)
    assert times["compute"] == pytest.approx(amounts.executed_flops / 197e12)
    assert times["hbm"] == pytest.approx(amounts.hbm_bytes / 819e9)
    # Both dims of 16x16 are rings: 4 directions of 45e9 each. All messages are large.
    sent = sum(each.bytes for each in amounts.collectives)
    assert times["ici"] == pytest.approx(sent / (4 * 45e9), rel=0.01)
    assert times["dcn"] == 0


def test_the_band_runs_from_full_overlap_to_none_at_a_slower_pace():
    prediction = predict(point(), chip("v5e"))
    times = prediction.times_s
    assert times is not None
    low = max(times.values())
    high = times["compute"] / 0.4 + times["hbm"] + times["ici"] + times["dcn"]
    assert prediction.step_time_low_s == low
    assert prediction.step_time_high_s == pytest.approx(high)
    assert prediction.step_time_s == pytest.approx(math.sqrt(low * high))


def test_rates_and_utilisations_belong_to_the_middle_of_the_band():
    prediction = predict(point(), chip("v5e"))
    step_time_s = prediction.step_time_s
    assert step_time_s is not None
    assert prediction.tokens_per_s is not None
    assert prediction.tokens_per_s * step_time_s == pytest.approx(256 * 1024)
    amounts = cost(point())
    peak = 197e12 * step_time_s
    assert prediction.mfu == pytest.approx(amounts.model_flops / peak)
    assert prediction.mfu_full_attention == pytest.approx(
        amounts.model_flops_full_attention / peak
    )
    assert prediction.hfu == pytest.approx(amounts.executed_flops / peak)


def test_recomputation_changes_hfu_over_mfu_only():
    plain = predict(point(), chip("v5e"))
    full = predict(point(remat="full"), chip("v5e"))
    assert plain.mfu is not None
    assert full.mfu is not None
    assert plain.step_time_s is not None
    assert full.step_time_s is not None
    assert full.mfu * full.step_time_s == pytest.approx(plain.mfu * plain.step_time_s)
    assert full.hfu is not None
    assert full.hfu > full.mfu_full_attention


@pytest.mark.parametrize(
    ("mesh", "shape", "rings", "rewritten"),
    [
        # scaling-book "training": fsdp is bound by communication below
        # C/W tokens a chip, W both directions of a ring, divided by the rings. Of two
        # gathers and a scatter the compiler makes the scatter an all-reduce where the
        # axis fills the slice: 4/3 of the bytes.
        ("1/fsdp=256", (16, 16), 2, 4 / 3),
        # Beside data gradients are summed over both; the gathers are what is left.
        ("1/fsdp=16,data=16", (16, 16), 1, 2 / 3),
    ],
)
def test_fsdp_meets_the_threshold_of_the_scaling_book(mesh, shape, rings, rewritten):
    threshold = 197e12 / (2 * 45e9) / rings
    for sequences in (1, 2, 4, 8):
        this = point(
            mesh=mesh,
            slice_shape=shape,
            global_batch_size=256 * sequences,
            seq_len=512,
        )
        times = predict(this, chip("v5e")).times_s
        assert times is not None
        fsdp = [c for c in cost(this).collectives if c.axes == ("fsdp",)]
        sent_s = sum(c.bytes for c in fsdp) / (2 * 45e9 * rings)
        # Attention, the head and the last shard of a ring are not in the book's
        # estimate; they come to a few percent.
        assert sent_s / times["compute"] == pytest.approx(
            rewritten * threshold / (sequences * 512), rel=0.1
        )


def test_more_slices_are_limited_by_what_crosses_between_them():
    # Strong scaling to many slices: gradients stay, tokens a slice shrink.
    slices = {"slice_shape": (4, 4), "global_batch_size": 512}
    few = predict(point(mesh="data=2/fsdp=8,tensor=2", **slices), chip("v5e"))
    many = predict(point(mesh="data=32/fsdp=8,tensor=2", **slices), chip("v5e"))
    assert few.limited_by == "compute"
    assert many.limited_by == "dcn"
    # 2 · 31/32 of a chip's 16th of the bfloat16 gradients at 3.125e9 bytes/s, and 34
    # messages of two steps of 50 µs.
    assert many.times_s is not None
    expected = 2 * 31 / 32 * 2 * 6_738_415_616 / 16 / 3.125e9 + 34 * 2 * 50e-6
    assert many.times_s["dcn"] == pytest.approx(expected, rel=1e-3)


def test_memory_is_held_against_what_the_compiler_leaves():
    fits = predict(point(remat="full"), chip("v5e"))
    assert fits.available_hbm_bytes == chip("v5e").available_hbm_bytes_per_device
    assert fits.fits
    whole = predict(point(mesh="1/1", slice_shape=(1, 1)), chip("v5e"))
    # 16 bytes a parameter on one chip of 16 GiB
    assert whole.peak_hbm_bytes > 16 * 6_738_415_616
    assert not whole.fits


def test_a_cpu_has_times_only_once_it_is_calibrated():
    unknown = predict(on_cpu(), chip("cpu"))
    assert unknown.step_time_s is None
    assert unknown.tokens_per_s is None
    assert unknown.limited_by is None
    assert unknown.times_s is None
    assert unknown.peak_hbm_bytes > 0
    assert unknown.available_hbm_bytes is None
    assert unknown.fits
    known = predict(on_cpu(), calibrated_cpu())
    assert known.times_s is not None
    assert known.times_s["compute"] == pytest.approx(
        cost(on_cpu()).executed_flops / 40e9
    )
    # No vendor's peak, no MFU.
    assert known.mfu is None
    assert known.hfu is None


def test_a_figure_that_is_missing_leaves_no_time_but_is_never_taken_for_zero():
    # v2: no source for the bandwidth of its links.
    alone = Point.model_validate(dict(point(chip="v2", mesh="1/data=8")))
    assert predict(alone, chip("v2")).times_s is None
    assert missing_figures(alone, chip("v2")) == ("bandwidth of ici",)
    assert missing_figures(on_cpu(), chip("cpu")) == (
        "peak in float32",
        "memory bandwidth",
    )
    assert missing_figures(on_cpu(), calibrated_cpu()) == ()
    without_network = calibrated_cpu().model_copy(update={"dcn_bytes_per_s": None})
    assert predict(on_cpu("data=2/1"), without_network).times_s is None
    assert predict(on_cpu("1/1"), without_network).times_s is not None


@pytest.mark.parametrize("field", ["ici_link_bytes_per_s", "ici_links"])
def test_a_switch_takes_the_rate_of_a_link_and_their_number(field):
    on_gpu = point(chip="h100-sxm", mesh="1/fsdp=8", slice_shape=None)
    known = chip("h100-sxm")
    assert predict(on_gpu, known).times_s is not None
    unknown = known.model_copy(update={field: None})
    assert predict(on_gpu, unknown).times_s is None


def test_a_real_mistake_about_a_collective_comes_out(monkeypatch):
    def mistaken(kind, **given):
        raise ValueError("planted")

    monkeypatch.setattr("scaling.predict.collective_time_s", mistaken)
    with pytest.raises(ValueError, match="planted"):
        predict(point(), chip("v5e"))


@pytest.mark.parametrize(
    ("mesh", "remat", "accumulation"),
    list(
        itertools.product(
            ("1/1", "1/fsdp=4,tensor=4", "data=2/fsdp=8"), ("none", "full"), (1, 2)
        )
    ),
)
def test_every_prediction_is_in_order(mesh, remat, accumulation):
    this = point(mesh=mesh, slice_shape=None, remat=remat, accumulation=accumulation)
    shapes = {1: (1, 1), 16: (4, 4), 8: (2, 4)}
    this = this.model_copy(update={"slice_shape": shapes[this.mesh.devices_per_slice]})
    prediction = predict(this, chip("v5e"))
    assert prediction.step_time_low_s is not None
    assert prediction.step_time_s is not None
    assert prediction.step_time_high_s is not None
    low, middle, high = (
        prediction.step_time_low_s,
        prediction.step_time_s,
        prediction.step_time_high_s,
    )
    assert 0 < low < middle < high
    assert prediction.mfu is not None
    assert 0 < prediction.mfu <= 1
    assert prediction.times_s is not None
    assert prediction.times_s[str(prediction.limited_by)] == max(
        prediction.times_s.values()
    )
