"""Chips: literal peaks, sources of every figure, and how a device finds its chip."""

import pytest
from pydantic import ValidationError

from meshes.hardware import CHIPS
from meshes.hardware import Chip
from meshes.hardware import chip
from meshes.hardware import chip_of_device_kind

pytestmark = pytest.mark.fast

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "bfloat16"),
    [
        ("v2", 46e12),
        ("v3", 123e12),
        ("v4", 275e12),
        ("v5e", 197e12),
        ("v5p", 459e12),
        ("v6e", 918e12),
        ("v7x", 2307e12),
        ("a100-40", 312e12),
        ("a100-80", 312e12),
        ("h100-sxm", 989e12),
        ("h100-pcie", 756e12),
        ("h200", 989e12),
        ("b200", 2250e12),
    ],
)
def test_dense_bfloat16_peaks(name: str, bfloat16: float) -> None:
    assert chip(name).peak_flops_per_s["bfloat16"] == bfloat16


def test_other_peaks_are_dense_too() -> None:
    assert chip("v5e").peak_flops_per_s["int8"] == 393e12
    assert chip("h100-sxm").peak_flops_per_s["fp8"] == 1979e12
    assert chip("h100-sxm").peak_flops_per_s["float32"] == 494.5e12
    assert chip("a100-80").peak_flops_per_s["int8"] == 624e12
    assert "fp8" not in chip("a100-80").peak_flops_per_s
    assert "int8" not in chip("v7x").peak_flops_per_s


def test_memory_and_links() -> None:
    v5e = chip("v5e")
    assert v5e.available_hbm_bytes_per_device == 15.75 * GIB
    assert v5e.hbm_bytes_per_s == 819e9
    assert (v5e.ici_links, v5e.ici_link_bytes_per_s) == (4, 45e9)
    assert v5e.dcn_bytes_per_s == 3.125e9
    assert chip("v5p").hbm_bytes_per_s == 2765e9
    assert chip("h200").hbm_bytes_per_s == 4800e9
    h100 = chip("h100-sxm")
    assert h100.ici_links is not None
    assert h100.ici_link_bytes_per_s is not None
    # 450e9 is nominal; NCCL plans with 371e9 and rings reach it.
    assert h100.ici_links * h100.ici_link_bytes_per_s == pytest.approx(371e9, rel=1e-3)


def test_a_device_is_a_core_on_v2_v3_and_v7x_only() -> None:
    two = {c.name for c in CHIPS.values() if c.devices_per_chip == 2}
    assert two == {"v2", "v3", "v7x"}
    v7x = chip("v7x")
    assert v7x.peak_flops_per_s_per_device("bfloat16") == 1153.5e12
    assert v7x.hbm_bytes_per_s_per_device == 3690e9
    assert chip("v4").peak_flops_per_s_per_device("bfloat16") == 275e12


@pytest.mark.parametrize("entry", CHIPS.values(), ids=CHIPS)
def test_every_figure_names_its_source(entry: Chip) -> None:
    without = {"name", "platform", "sources", "peak_flops_per_s", "matmul_flops_per_s"}
    if entry.platform == "cpu":
        without |= {"device_kinds"}
    figures = {
        field for field in entry.model_fields_set - without if getattr(entry, field)
    }
    peaks = {f"peak_flops_per_s.{dtype}" for dtype in entry.peak_flops_per_s}
    missing = (figures | peaks) - set(entry.sources)
    assert not missing
    assert all(text.strip() for text in entry.sources.values())


@pytest.mark.parametrize("entry", CHIPS.values(), ids=CHIPS)
def test_no_source_speaks_of_a_figure_that_is_not_there(entry: Chip) -> None:
    for field in entry.sources:
        name, _, dtype = field.partition(".")
        value = getattr(entry, name)
        assert value[dtype] if dtype else value


@pytest.mark.parametrize("entry", CHIPS.values(), ids=CHIPS)
def test_programs_get_no_more_memory_than_there_is(entry: Chip) -> None:
    if entry.available_hbm_bytes_per_device is not None:
        assert entry.hbm_bytes is not None
        taken = entry.available_hbm_bytes_per_device * entry.devices_per_chip
        assert 0.9 * entry.hbm_bytes < taken <= entry.hbm_bytes


def test_nothing_is_known_of_a_cpu_before_calibration() -> None:
    cpu = chip("cpu")
    assert cpu.peak_flops_per_s_per_device("bfloat16") is None
    assert cpu.matmul_flops_per_s_per_device("float32") is None
    assert cpu.hbm_bytes_per_s_per_device is None
    assert cpu.hbm_bytes is None
    measured = cpu.model_copy(update={"matmul_flops_per_s": {"float32": 5e10}})
    assert measured.matmul_flops_per_s_per_device("float32") == 5e10


def test_unknown_is_none_and_never_zero() -> None:
    with pytest.raises(ValidationError):
        Chip(name="x", platform="tpu", device_kinds=("x",), hbm_bytes_per_s=0.0)
    with pytest.raises(ValidationError):
        Chip(
            name="x",
            platform="tpu",
            device_kinds=("x",),
            peak_flops_per_s={"bfloat16": 0},
        )
    with pytest.raises(ValueError, match=r"'bf16'.*choose from bfloat16"):
        chip("v5e").peak_flops_per_s_per_device("bf16")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("TPU v2", "v2"),
        ("TPU v3", "v3"),
        ("TPU v4", "v4"),
        ("TPU v5 lite", "v5e"),
        ("TPU v5", "v5p"),
        ("TPU v5p", "v5p"),
        ("TPU v6 lite", "v6e"),
        ("TPU7x", "v7x"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("cpu", "cpu"),
    ],
)
def test_device_kinds(kind: str, name: str) -> None:
    assert chip_of_device_kind(kind).name == name


@pytest.mark.parametrize(
    "kind",
    [
        "NVIDIA H100 NVL",
        "NVIDIA H100",
        "NVIDIA A100 80GB PCIe",
        "TPU v4 lite",
        "TPU v5 li",
        "TPU v4 ",
        "tpu v4",
        "Foo",
        "",
    ],
)
def test_an_unknown_kind_is_an_error_that_names_the_known(kind: str) -> None:
    with pytest.raises(ValueError, match="unknown device kind") as error:
        chip_of_device_kind(kind)
    assert repr(kind) in str(error.value)
    assert "'TPU v5 lite'" in str(error.value)
    assert "'NVIDIA H100 PCIe'" in str(error.value)


def test_no_two_chips_share_a_kind() -> None:
    kinds = [kind for entry in CHIPS.values() for kind in entry.device_kinds]
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize(
    ("text", "near"), [("v5", "'v5e'"), ("h100", "'h100-sxm'"), ("V5E", "'v5e'")]
)
def test_an_unknown_chip_names_the_choices_and_the_nearest(text, near) -> None:
    with pytest.raises(ValueError, match="unknown chip") as error:
        chip(text)
    assert f"unknown chip {text!r}; choose from v2, v3" in str(error.value)
    assert near in str(error.value).split("did you mean")[1]


def test_a_chip_survives_storage() -> None:
    for entry in CHIPS.values():
        assert Chip.model_validate_json(entry.model_dump_json()) == entry
