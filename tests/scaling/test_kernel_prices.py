"""Kernel prices, on calls as compilers write them and on a real text."""

import pytest

from scaling.hlo.module import Instruction
from scaling.kernel_prices import kernel_prices
from scaling.point import Point


def point(**changes) -> Point:
    fields = {
        "model": "llama3-8b",
        "chip": "v5e",
        "mesh": "data=2/fsdp=4,tensor=2",
        "global_batch_size": 32,
        "seq_len": 2048,
        "accumulation": 2,
        "attention": "splash",
    }
    return Point.model_validate(fields | changes)


def call(name: str) -> Instruction:
    return Instruction(name, "custom-call", "f32[]", "", "", is_root=False)


# Two of the 32 sequences on each device in a micro-batch, 16 of the 32 heads of 128.
HEADS, SQUARE = 2 * 16, 2 * 2048**2 * 128


@pytest.mark.parametrize(
    ("name", "products"),
    [
        ("splash_mqa_fwd_residuals.1", 2),
        ("splash_mqa_fwd_no_residuals", 2),
        ("splash_mqa_dq_no_residuals.3", 3),
        ("splash_mqa_dkv_no_residuals.12", 4),
        ("splash_mha_dkv_no_residuals", 4),
    ],
)
def test_splash_kernels_are_told_apart_by_name(name, products):
    price = kernel_prices(point())["tpu_custom_call"]
    # Of 4 by 4 blocks of 512 those on and below the diagonal.
    assert price(None, call(name)) == products * HEADS * SQUARE * 10 / 16


@pytest.mark.parametrize("name", ["gmm.1", "flash_attention_fwd", "splash_mqa_other"])
def test_other_kernels_of_the_target_have_no_price(name):
    assert kernel_prices(point())["tpu_custom_call"](None, call(name)) is None


def test_cudnn_kernels_are_told_apart_by_target():
    prices = kernel_prices(point(chip="h100-sxm", attention="cudnn"))
    assert {
        target: price(None, call("custom-call.7")) for target, price in prices.items()
    } == {
        "__cudnn$fmhaSoftmax": 2 * HEADS * 128 * 2048 * 2049,
        "__cudnn$fmhaSoftmaxBackward": 5 * HEADS * 128 * 2048 * 2049,
    }


def test_plain_attention_has_no_kernels():
    assert kernel_prices(point(attention="xla")) == {}
