import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import calibrate
from experiments import microbenchmarks
from experiments.calibrate import CalibrationError
from experiments.calibrate import ring_of_two
from experiments.calibrated import calibration_path
from experiments.calibrated import read_chip
from experiments.calibrated import write_chip
from experiments.cores import available_cores
from meshes.collectives import collective_time_s
from meshes.hardware import CHIPS


def test_ring_of_two_finds_the_planted_latency_and_bandwidth():
    # T(V) = 2·α + V/W with α = 0.5 ms and W = 2 GB/s.
    planted = {str(v): 2 * 0.5e-3 + v / 2e9 for v in (1024, 2**24)}
    latency_s, bytes_per_s = ring_of_two(planted)
    assert latency_s == pytest.approx(0.5e-3)
    assert bytes_per_s == pytest.approx(2e9)


def test_what_was_measured_is_what_is_predicted():
    measured = {"1024": 0.3e-3, str(2**24): 41e-3}
    latency_s, bytes_per_s = ring_of_two(measured)
    chip = CHIPS["cpu"].model_copy(
        update={"dcn_latency_s": latency_s, "dcn_bytes_per_s": bytes_per_s}
    )
    for payload, seconds in measured.items():
        predicted = collective_time_s(
            "all_reduce",
            payload_bytes=int(payload),
            group_size=2,
            chip=chip,
            network="dcn",
        )
        assert predicted == pytest.approx(seconds)


def test_a_machine_too_busy_to_tell_is_not_calibrated():
    with pytest.raises(CalibrationError, match="too busy"):
        ring_of_two({"1024": 0.5, str(2**24): 0.4})


def test_a_latency_below_zero_is_not_rounded_up():
    # The small one took less than its share of the large one's time.
    with pytest.raises(CalibrationError, match="too busy"):
        ring_of_two({"1024": 1e-9, str(2**24): 41e-3})


@pytest.mark.parametrize(
    ("kind", "own"), [("cpu", 1), ("TPU v3", 0), ("NVIDIA H100 80GB HBM3", 0)]
)
def test_only_a_chip_of_cpu_is_held_to_a_core(monkeypatch, kind, own):
    asked = []

    def measure(name, *, cores, devices):
        asked.append((name, cores))
        return {
            "device_kind": {"device_kind": kind},
            "device": {"float32": 1e12, "bfloat16": 1e12, "triad": 1e11},
            "all_reduce": {"1024": 1e-4, str(2**24): 1e-2},
        }[name]

    monkeypatch.setattr(calibrate, "_measure", measure)
    calibrate.calibrate()
    assert asked[:2] == [
        ("device_kind", [()]),
        ("device", [available_cores()[:own]]),
    ]


PARENT = """
import sys
from experiments import calibrate
sleep = "import os, time; print(os.getpid(), flush=True); time.sleep(3600)"
calibrate._command = lambda name: [sys.executable, "-c", sleep]
calibrate.subprocess.PIPE = None
calibrate._measure("nothing", cores=[()], devices=1)
"""


def test_what_measures_ends_with_who_asked_for_it():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 30
        while is_running(pid):
            assert time.monotonic() < deadline, "it outlived its parent"
            time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_measurement_that_fails_is_said():
    with pytest.raises(CalibrationError, match=r"measuring nothing failed .*\[1\]"):
        calibrate._measure("nothing", cores=[()], devices=1)


def test_rates_of_a_device_count_for_the_whole_chip(monkeypatch):
    found = {
        "device_kind": "TPU v3",
        "float32": 1e12,
        "bfloat16": 5e13,
        "triad": 4e11,
    }
    monkeypatch.setattr(calibrate, "_measure", lambda *_, **__: found)
    chip = calibrate.calibrate()
    assert (chip.name, chip.devices_per_chip) == ("v3", 2)
    assert chip.matmul_flops_per_s_per_device("bfloat16") == 5e13
    assert chip.hbm_bytes_per_s_per_device == 4e11
    # Only what was measured is replaced, and it says so.
    assert chip.peak_flops_per_s == CHIPS["v3"].peak_flops_per_s
    assert "measured by `scaling calibrate`" in chip.sources["hbm_bytes_per_s"]


def test_an_unknown_device_is_an_error_not_a_chip(monkeypatch):
    found = {"device_kind": "Foo", "float32": 1.0, "bfloat16": 1.0, "triad": 1.0}
    monkeypatch.setattr(calibrate, "_measure", lambda *_, **__: found)
    with pytest.raises(ValueError, match="'Foo'"):
        calibrate.calibrate()


def test_matmul_counts_two_operations_a_product_and_takes_the_best(monkeypatch):
    times = iter([1.0, 4.0])
    monkeypatch.setattr(microbenchmarks, "call_time_s", lambda *_: next(times))
    rate = microbenchmarks.matmul_flops_per_s("float32", (8, 16))
    assert rate == max(2 * 8**3 / 1.0, 2 * 16**3 / 4.0)


def test_matmul_chains_stay_in_range():
    import jax.numpy as jnp

    def chain(call, x):
        for _ in range(200):
            x = call(x)
        assert bool(jnp.isfinite(x).all())
        assert float(jnp.abs(x).max()) > 0.1
        return 1.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(microbenchmarks, "call_time_s", chain)
        microbenchmarks.matmul_flops_per_s("bfloat16", (64,))


def test_triad_counts_three_arrays_of_four_bytes(monkeypatch):
    monkeypatch.setattr(microbenchmarks, "call_time_s", lambda *_: 0.5)
    assert microbenchmarks.triad_bytes_per_s(1000) == 3 * 4 * 1000 / 0.5


def test_a_call_is_timed_by_the_clock(monkeypatch):
    now_s = [0.0]
    durations = iter([5.0, 0.03, *[0.02] * 1000])

    def call(x: float) -> float:
        now_s[0] += next(durations)
        return x

    monkeypatch.setattr(microbenchmarks.time, "perf_counter", lambda: now_s[0])
    assert microbenchmarks.call_time_s(call, 1.0) == pytest.approx(0.02)


def test_calibrating_this_host(tmp_path):
    try:
        chip = calibrate.calibrate()
    except CalibrationError as error:
        if "too busy" not in str(error):
            raise
        pytest.skip(str(error))
    assert chip.name == "cpu"
    path = calibration_path(str(tmp_path), chip.name)
    write_chip(path, chip)
    assert read_chip(path) == chip
    for dtype in ("float32", "bfloat16"):
        assert chip.matmul_flops_per_s[dtype] > 0
    assert chip.hbm_bytes_per_s > 0
    assert "measured" in chip.sources["hbm_bytes_per_s"]
    # Whoever has one core has no second process to talk to.
    if len(available_cores()) > 1:
        assert chip.dcn_bytes_per_s > 0
        assert chip.dcn_latency_s > 0
        assert chip.hop_latency_s > 0
        assert "measured" in chip.sources["dcn_bytes_per_s"]
