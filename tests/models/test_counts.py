"""Counts: hand-computed parameters, FLOPs and bytes."""

import math

import pytest

from models.attention_kernels import splash_block
from models.counts import activation_bytes_per_token
from models.counts import executed_flops_per_token
from models.counts import forward_flops_per_token
from models.counts import num_active_parameters
from models.counts import num_non_embedding_parameters
from models.counts import num_parameters
from models.counts import parameter_shapes
from models.counts import training_flops_per_token
from models.presets import MODELS

LLAMA2_7B = MODELS["llama2-7b"]
# Per layer: four projections of 4096 x 4096, three matmuls of 4096 x 11008.
LLAMA2_7B_KERNELS = 4 * 4_096**2 + 3 * 4_096 * 11_008
# Scores and weighted values over 4096 keys, 32 heads of 128, multiply and add.
LLAMA2_7B_ATTENTION = 2 * 2 * 4_096 * 32 * 128
LLAMA2_7B_HEAD = 4_096 * 32_000


def test_parameters_by_hand():
    # Embedding 512·128 and head; per layer q and o 128·4·32, k and v 128·2·32, three
    # MLP matmuls 128·512, two norms of 128; the final norm.
    layer = 2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 512 + 2 * 128
    assert num_parameters(MODELS["tiny"]) == 2 * 512 * 128 + 2 * layer + 128
    assert num_non_embedding_parameters(MODELS["tiny"]) == 2 * layer + 128


def test_non_embedding_parameters_leave_out_both_tables_and_the_head():
    gpt2 = num_non_embedding_parameters(MODELS["gpt2-124m"])
    assert gpt2 == 124_439_808 - 50_257 * 768 - 1_024 * 768
    llama = num_non_embedding_parameters(LLAMA2_7B)
    assert llama == 6_738_415_616 - 2 * LLAMA2_7B_HEAD


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_parameter_of_a_dense_model_is_active(name):
    assert num_active_parameters(MODELS[name]) == num_parameters(MODELS[name])


def test_shapes_list_the_arrays_of_the_layers_once(shape):
    shapes = {s.name: s for s in parameter_shapes(shape(num_layers=5, bias=True))}
    kernel = shapes["blocks.attention.key.kernel"]
    assert (kernel.shape, kernel.count) == ((32, 2, 8), 5)
    assert kernel.logical_axes == ("embed", "kv_heads", "head_dim")
    assert shapes["token_embedding"].count == 1
    assert shapes["blocks.mlp.down.bias"].shape == (32,)
    assert "head.bias" not in shapes
    assert "final_norm.bias" not in shapes  # an RMSNorm has none


def test_forward_flops_by_hand():
    full = 32 * (2 * LLAMA2_7B_KERNELS + LLAMA2_7B_ATTENTION) + 2 * LLAMA2_7B_HEAD
    assert forward_flops_per_token(LLAMA2_7B, 4_096, causal=False) == full


def test_a_causal_mask_halves_attention_and_nothing_else():
    full = forward_flops_per_token(LLAMA2_7B, 4_096, causal=False)
    causal = forward_flops_per_token(LLAMA2_7B, 4_096, causal=True)
    assert full - causal == 32 * LLAMA2_7B_ATTENTION / 2


@pytest.mark.parametrize("causal", [True, False])
def test_training_is_three_forward_passes(causal):
    forward = forward_flops_per_token(LLAMA2_7B, 2_048, causal=causal)
    assert training_flops_per_token(LLAMA2_7B, 2_048, causal=causal) == 3 * forward


def test_kv_heads_and_head_dim_count_where_they_are(shape):
    # h = 8: query and output 32·(4·8), key and value 32·(1·8); GELU has two matmuls.
    config = shape(num_layers=1, num_kv_heads=1, activation="gelu")
    kernels = 2 * 32 * 32 + 2 * 32 * 8 + 2 * 32 * 64
    attention = 2 * 2 * 16 * 4 * 8
    expected = 2 * kernels + attention + 2 * 32 * 96
    assert forward_flops_per_token(config, 16, causal=False) == expected


def test_tying_the_head_saves_parameters_but_no_flops(shape):
    tied, untied = shape(tied_head=True), shape()
    assert num_parameters(untied) - num_parameters(tied) == 32 * 96
    assert training_flops_per_token(tied, 16, causal=True) == training_flops_per_token(
        untied, 16, causal=True
    )


def test_executed_flops_by_hand():
    training = training_flops_per_token(LLAMA2_7B, 4_096, causal=False)
    executed = {
        remat: executed_flops_per_token(LLAMA2_7B, 4_096, remat=remat)
        for remat in ("none", "dots", "full")
    }
    last_matmul = 2 * 4_096 * 11_008
    block = 2 * LLAMA2_7B_KERNELS + LLAMA2_7B_ATTENTION
    assert executed["none"] == training
    assert executed["dots"] == training + 32 * LLAMA2_7B_ATTENTION
    assert executed["full"] == training + 32 * (block - last_matmul)


def test_kernels_leave_out_what_is_masked_and_multiply_more_backward():
    def executed(remat: str, attention: str) -> float:
        return executed_flops_per_token(
            LLAMA2_7B, 4_096, remat=remat, attention=attention
        )

    without = 3 * (32 * 2 * LLAMA2_7B_KERNELS + 2 * LLAMA2_7B_HEAD)
    # Of 8 by 8 blocks of 512 those on and below the diagonal, 36 of 64. Two products
    # forward, three for queries and four for keys and values backward.
    splash = LLAMA2_7B_ATTENTION / 2 * 36 / 64
    assert executed("none", "splash") == without + 32 * 9 * splash
    assert executed("dots", "splash") == without + 32 * 11 * splash
    # Of 4096 by 4096 pairs those with no later key; two products forward, five back.
    cudnn = LLAMA2_7B_ATTENTION / 2 * 4_097 / (2 * 4_096)
    assert executed("none", "cudnn") == without + 32 * 7 * cudnn
    assert executed("full", "cudnn") == executed("none", "cudnn") + 32 * (
        2 * LLAMA2_7B_KERNELS + 2 * cudnn - 2 * 4_096 * 11_008
    )


@pytest.mark.parametrize(
    ("seq_len", "block"), [(128, 128), (256, 256), (640, 128), (768, 384), (2048, 512)]
)
def test_splash_takes_blocks_that_divide_the_sequence(seq_len, block):
    assert splash_block(seq_len) == block


@pytest.mark.parametrize(("attention", "again"), [("splash", 128), ("cudnn", 0)])
def test_kernels_keep_a_float_a_query_in_place_of_the_weights(attention, again):
    def kept(remat: str, attention: str) -> float:
        return sum(
            activation_bytes_per_token(
                LLAMA2_7B, 4_096, remat=remat, compute_bytes=2, attention=attention
            ).values()
        )

    saved = kept("none", "xla") - kept("none", attention)
    assert saved == 32 * 32 * (2 * 4_096 - 4 - 2 * again)
    for remat in ("dots", "full"):
        assert kept(remat, "xla") == kept(remat, attention)


def test_activation_bytes_by_hand():
    # bfloat16: the input of each layer, the final norm's input and output, logits.
    tail = 2 * 2 * 4_096 + 4 * 32_000
    full = sum(
        activation_bytes_per_token(
            LLAMA2_7B, 4_096, remat="full", compute_bytes=2
        ).values()
    )
    assert full == 32 * 2 * 4_096 + tail
    dots = sum(
        activation_bytes_per_token(
            LLAMA2_7B, 4_096, remat="dots", compute_bytes=2
        ).values()
    )
    assert dots == 32 * 2 * (2 * 4_096 + 3 * 4_096 + 2 * 11_008) + tail
    none = sum(
        activation_bytes_per_token(
            LLAMA2_7B, 4_096, remat="none", compute_bytes=2
        ).values()
    )
    squares = 32 * 4_096
    assert none == 32 * 2 * (8 * 4_096 + 3 * 11_008 + squares) + tail


@pytest.mark.parametrize("remat", ["none", "dots", "full"])
def test_tensor_devices_share_all_but_the_residual_stream(remat):
    def held(tensor: int) -> float:
        return sum(
            activation_bytes_per_token(
                LLAMA2_7B, 2_048, remat=remat, compute_bytes=2, tensor=tensor
            ).values()
        )

    whole = {"none": 4, "dots": 2, "full": 1}[remat]
    residual = 2 * 4_096 * (32 * whole + 2)
    assert held(8) - residual == pytest.approx((held(1) - residual) / 8)
    assert math.isclose(held(10**9), residual, rel_tol=1e-3)
