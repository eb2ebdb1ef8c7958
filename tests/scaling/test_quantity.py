import math

import pytest

from scaling import quantity

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (0, "0 s"),
        (1e-10, "0.1 ns"),
        (4.2e-3, "4.2 ms"),
        (0.9997, "1 s"),
        (12.345, "12.3 s"),
        (119.4, "119 s"),
        (119.9, "2 min 0 s"),
        (200, "3 min 20 s"),
        (7_500, "2 h 5 min"),
        (-4.2e-3, "-4.2 ms"),
    ],
)
def test_seconds(value, text):
    assert quantity.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (1000, "1000 B"),
        (1024, "1 KiB"),
        (1536 * 2**20, "1.5 GiB"),
        (1000 * 2**30, "1000 GiB"),
        (95.73 * 2**30, "95.7 GiB"),
    ],
)
def test_bytes_are_binary(value, text):
    assert quantity.bytes_(value) == text


def test_rates_are_decimal_and_carry_their_unit():
    assert quantity.flops_per_s(197e12) == "197 TFLOP/s"
    assert quantity.flops_per_s(5) == "5 FLOP/s"
    assert quantity.bytes_per_s(819e9) == "819 GB/s"
    assert quantity.rate(12_345) == "12.3 k tokens/s"
    assert quantity.rate(999.7) == "1 k tokens/s"
    assert quantity.count(6_738_415_616) == "6.74 B"
    assert quantity.flops(40.14e9) == "40.1 GFLOP"


def test_shares():
    assert quantity.percent(0.3812) == "38.1 %"
    assert quantity.percent(1) == "100.0 %"
    assert quantity.ratio(0.857) == "0.86"


@pytest.mark.parametrize(
    "function",
    [
        quantity.seconds,
        quantity.bytes_,
        quantity.count,
        quantity.flops,
        quantity.flops_per_s,
        quantity.bytes_per_s,
        quantity.rate,
        quantity.percent,
        quantity.ratio,
    ],
)
def test_not_measured_is_never_a_number(function):
    assert function(None) == "–"
    assert function(math.nan) == "–"


@pytest.mark.parametrize(
    ("mesh", "width", "lines"),
    [
        ("1/fsdp=4", 20, ["1/fsdp=4"]),
        ("1/data=280,fsdp=16,tensor=2", 21, ["1/data=280,fsdp=16,", "tensor=2"]),
        ("data=2/fsdp=4", 3, ["data=2/fsdp=4"]),
    ],
)
def test_a_mesh_is_broken_after_commas_and_never_within_an_axis(mesh, width, lines):
    assert quantity.mesh_lines(mesh, width).splitlines() == lines
