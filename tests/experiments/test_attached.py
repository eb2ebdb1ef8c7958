"""Attached devices, as fakes of TPU, GPU and CPU devices would report themselves."""

from dataclasses import dataclass
from typing import Any

import pytest

from experiments.attached import WrongPlatformError
from experiments.attached import attached_devices
from experiments.attached import available_device_bytes
from experiments.attached import peak_device_bytes
from experiments.attached import platform
from experiments.attached import why_not_chip


@dataclass
class FakeDevice:
    device_kind: str
    statistics: dict[str, int] | None = None

    def memory_stats(self) -> dict[str, int] | None:
        return self.statistics


def devices(*kinds: str) -> list[Any]:
    return [FakeDevice(kind) for kind in kinds]


@pytest.mark.parametrize(
    ("chip", "kind"),
    [
        ("v5e", "TPU v5 lite"),
        ("v5p", "TPU v5"),
        ("v4", "TPU v4"),
        ("h100-sxm", "NVIDIA H100 80GB HBM3"),
        ("h100-pcie", "NVIDIA H100 PCIe"),
        ("cpu", "cpu"),
    ],
)
def test_the_chip_that_is_there(chip, kind):
    found = devices(kind, kind)
    assert attached_devices(chip, lambda: found) is found


@pytest.mark.parametrize(
    ("chip", "kinds", "words"),
    [
        ("v5p", ["TPU v5 lite"], "'v5e'"),
        ("v5e", ["TPU v5"], "'v5p'"),
        ("h100-sxm", ["NVIDIA H100 PCIe"], "'h100-pcie'"),
        ("v5e", ["cpu"], "'cpu'"),
        ("cpu", ["TPU v4"], "'v4'"),
        ("cpu", ["Foo 9000"], "unknown device kind 'Foo 9000'"),
        ("v4", ["TPU v4", "TPU v5"], r"\['TPU v4', 'TPU v5'\]"),
    ],
)
def test_another_chip_is_named(chip, kinds, words):
    with pytest.raises(WrongPlatformError, match=words) as caught:
        attached_devices(chip, lambda: devices(*kinds))
    assert f"chip {chip!r} asked for" in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Unable to initialize backend 'tpu': INTERNAL: no libtpu.so"),
        AssertionError(),  # what JAX raises where the CUDA plugin is missing
    ],
)
def test_a_runtime_that_cannot_start_is_a_wrong_platform(error):
    def find() -> list[Any]:
        raise error

    with pytest.raises(WrongPlatformError, match="no tpu for chip 'v5e'"):
        attached_devices("v5e", find)


def test_other_trouble_is_not_called_a_wrong_platform():
    def find() -> list[Any]:
        raise RuntimeError("DEADLINE_EXCEEDED: barrier timed out")

    with pytest.raises(RuntimeError, match="barrier"):
        attached_devices("v5e", find)


def test_memory_is_that_of_the_fullest_device_within_the_smallest_limit():
    found = [
        FakeDevice("TPU v4", {"peak_bytes_in_use": 5, "bytes_limit": 32}),
        FakeDevice("TPU v4", {"peak_bytes_in_use": 7, "bytes_limit": 31}),
    ]
    assert (peak_device_bytes(found), available_device_bytes(found)) == (7, 31)


@pytest.mark.parametrize("statistics", [None, {}, {"bytes_in_use": 3}])
def test_memory_that_is_not_counted_is_none_not_zero(statistics):
    found = [FakeDevice("cpu", statistics)]
    assert peak_device_bytes(found) is None
    assert available_device_bytes(found) is None


def test_platform_says_what_is_attached_and_loaded():
    import jax

    said = platform(devices("TPU v4", "TPU v4"))
    assert (said.device_kind, said.num_devices) == ("TPU v4", 2)
    assert said.versions["jax"] == jax.__version__
    assert why_not_chip("v4", devices("TPU v4")) is None
