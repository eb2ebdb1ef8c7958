"""Real texts, made by our own step with libtpu 0.0.50 or 0.0.52, or jaxlib 0.12.0.

`tiny`, 64 sequences of 256 tokens: D 128, F 512 gated, 4 heads and 2 key-value heads
of 32, 2 layers, V 512, head untied. One layer has Q = O = 16,384, K = V = 8,192 and
3·65,536 values in its MLP, together 245,760, and two norms of 128. The tables have
65,536 each. Weights travel in bfloat16, norms in float32. The texts are
`build_step(point, mesh).lower().compile().as_text()` for absent devices, without the
metadata, window bounds and debugging notes of the compiler.
"""

import functools

import pytest

from meshes.spec import MeshSpec
from models.counts import executed_flops_per_token
from models.presets import MODELS
from scaling.analytic import cost
from scaling.cost import Cost
from scaling.hlo.accounting import account
from scaling.hlo.crosscheck import compare
from scaling.point import Point

LAYER = 2 * 245_760
TABLE = 2 * 65_536
NORM = 4 * 128

POINTS = {
    "v5e_fsdp2_tensor2": ("v5e", "1/fsdp=2,tensor=2", "full", "scanned"),
    "v5e_unrolled": ("v5e", "1/fsdp=2,tensor=2", "none", "unrolled"),
    "v5e_data2_slices": ("v5e", "data=2/fsdp=2,tensor=2", "full", "scanned"),
    "v5e_four_slices": ("v5e", "data=2,fsdp=2/fsdp=4", "none", "scanned"),
    "v4_fsdp4_tensor2": ("v4", "1/fsdp=4,tensor=2", "full", "scanned"),
    "v6e_data2_fsdp4": ("v6e", "1/data=2,fsdp=4", "full", "scanned"),
    "v5p_data2_tensor2": ("v5p", "1/data=2,tensor=2", "dots", "scanned"),
    "v7x_fsdp16": ("v7x", "1/fsdp=16", "none", "scanned"),
}


def point(name):
    chip, mesh, remat, layers = POINTS[name]
    return Point.model_validate(
        {
            "model": "tiny",
            "chip": chip,
            "mesh": mesh,
            "global_batch_size": 64,
            "seq_len": 256,
            "remat": remat,
            "layers": layers,
        }
    )


@pytest.fixture(scope="module")
def accounted(golden):
    return functools.cache(
        lambda name: account(golden(f"{name}.hlo.gz"), point(name).mesh)
    )


def payloads(accounting):
    return {
        (each.kind, each.network, each.axes): (each.count, each.payload_bytes)
        for each in accounting.collectives
    }


@pytest.mark.parametrize("name", POINTS)
def test_flops_are_those_of_the_model_however_it_is_compiled(accounted, name):
    # Loops or none, whatever is repeated, and matrix products in windows of permutes.
    this = point(name)
    tokens = 64 * 256 / this.mesh.num_devices
    per_token = executed_flops_per_token(MODELS["tiny"], 256, remat=this.remat)
    assert accounted(name).executed_flops == tokens * per_token
    assert accounted(name).custom_calls == ()


def test_fsdp_and_tensor(accounted):
    found = accounted("v5e_fsdp2_tensor2")
    # [8192 tokens, D] in bfloat16: 5 a layer, 2 at the ends; then the maxima (bfloat16)
    # and two sums (float32) of the softmax over the vocabulary
    activations = 8192 * 128 * 2
    softmax = 8192 * (2 + 4 + 4)
    assert payloads(found) == {
        # forward and backward; tensor has halved what there is
        ("all_gather", "ici", ("fsdp",)): (30, (4 * LAYER + 2 * TABLE) / 2),
        ("all_reduce", "ici", ("tensor",)): (14, 12 * activations + softmax),
        # the MLP and the tables; the small gradients of attention are all-reduced
        ("reduce_scatter", "ici", ("fsdp",)): (3, (4 * 196_608 + 2 * TABLE) / 2),
        # with them the norms: gathered 4 and 4 times in layers and once at the end,
        # their gradients, and the loss
        ("all_reduce", "ici", ("fsdp",)): (
            10,
            4 * 49_152 / 2 + (8 + 1 + 4 + 1) * NORM + 4,
        ),
    }
    gathers = next(each for each in found.collectives if each.kind == "all_gather")
    assert gathers.asynchronous_count == 20
    assert gathers.bytes == gathers.payload_bytes / 2


def test_fsdp_and_tensor_on_v4(accounted):
    activations, softmax = 4096 * 128 * 2, 4096 * 10
    norms = (8 + 1 + 4 + 1) * NORM + 4
    assert payloads(accounted("v4_fsdp4_tensor2")) == {
        ("all_gather", "ici", ("fsdp",)): (30, (4 * LAYER + 2 * TABLE) / 2),
        ("all_reduce", "ici", ("tensor",)): (14, 12 * activations + softmax),
        # All of a layer is scattered, attention too, and the head; the gradient of the
        # table that is looked up in is summed.
        ("reduce_scatter", "ici", ("fsdp",)): (3, (2 * LAYER + TABLE) / 2),
        ("all_reduce", "ici", ("fsdp",)): (10, TABLE / 2 + norms),
    }


def test_data_and_fsdp_of_a_slice_are_summed_at_once_on_v6e(accounted):
    assert payloads(accounted("v6e_data2_fsdp4")) == {
        ("all_gather", "ici", ("fsdp",)): (30, 4 * LAYER + 2 * TABLE),
        # norms are gathered by sums, forward and backward and at the end
        ("all_reduce", "ici", ("fsdp",)): (5, (8 + 1) * NORM),
        ("all_reduce", "ici", ("data", "fsdp")): (
            6,
            2 * LAYER + 2 * TABLE + 5 * NORM + 4,
        ),
    }


def test_unrolled_layers_gather_once(accounted):
    found = payloads(accounted("v5e_unrolled"))
    assert found["all_gather", "ici", ("fsdp",)][1] == (2 * LAYER + 2 * TABLE) / 2
    # without a repeated forward pass 4 a layer and 2 at the ends
    activations, softmax = 8192 * 128 * 2, 8192 * 10
    assert found["all_reduce", "ici", ("tensor",)][1] == 10 * activations + softmax


def test_gradients_cross_between_slices_in_whole_tiles(accounted):
    found = payloads(accounted("v5e_data2_slices"))
    # A quarter of each array per device. Tiles of (8, 128) double Q, O, K and V, and
    # the five norms together are one tile in float32.
    tiles = 2 * (3 * 65_536 + 2 * (2 * 16_384 + 2 * 8_192)) / 4 * 2
    assert found["all_reduce", "dcn", ("data",)] == (
        17,
        tiles + 2 * TABLE / 4 + 8 * 128 * 4,
    )
    # 4096 tokens per device, half of what one slice alone has
    activations, softmax = 4096 * 128 * 2, 4096 * 10
    assert found["all_reduce", "ici", ("tensor",)][1] == 12 * activations + softmax
    assert found["all_gather", "ici", ("fsdp",)] == (30, (4 * LAYER + 2 * TABLE) / 2)


def test_fsdp_over_both_networks_and_data_across_slices(accounted):
    found = payloads(accounted("v5e_four_slices"))
    # Between two slices a quarter of each weight, the tables still in float32; the
    # norms of layers alone, forward and backward.
    assert found["all_gather", "dcn", ("fsdp",)] == (
        38,
        (4 * LAYER + 2 * 2 * TABLE + 8 * NORM) / 4,
    )
    # Within a slice then the whole; and the gradients, which this compiler all-reduces
    # across all four slices, gathers whole and cuts.
    weights = 4 * LAYER + 2 * TABLE + 8 * NORM
    gradients = 2 * LAYER + 2 * TABLE + NORM
    assert found["all_gather", "ici", ("fsdp",)][1] == weights + gradients
    assert ("all_reduce", "dcn", ("data", "fsdp")) in found


def test_data_and_tensor_on_v5p(accounted):
    activations, softmax = 8192 * 128 * 2, 8192 * 10
    assert payloads(accounted("v5p_data2_tensor2")) == {
        # the gradients, five norms among them, and the loss
        ("all_reduce", "ici", ("data",)): (
            4,
            (2 * LAYER + 2 * TABLE) / 2 + 5 * NORM + 4,
        ),
        ("all_reduce", "ici", ("tensor",)): (12, 10 * activations + softmax),
    }


def test_windows_of_permutes_and_offloads_on_v7x(accounted):
    found = payloads(accounted("v7x_fsdp16"))
    # 7 weights a layer, gathered twice and scattered once, and the head's gradient:
    # each by one permute and 4 trips of 4, where a ring of 16 needs 15.
    windows, moves = 7 * 3 * 2 + 1, 1 + 4 * 4
    assert found["permute", "ici", ("fsdp",)] == (
        windows * moves,
        moves * (6 * LAYER + TABLE),
    )
    # the SparseCores gather both tables and scatter the gradient of one
    assert found["all_gather", "ici", ("fsdp",)] == (2, 2 * TABLE)
    assert found["reduce_scatter", "ici", ("fsdp",)] == (1, TABLE)


def test_every_matrix_product_has_cycles_on_tpu(accounted):
    for name in POINTS:
        assert accounted(name).matmul_cycles > 0
        assert accounted(name).hbm_bytes >= accounted(name).elementwise_hbm_bytes


def test_kernels_are_listed_and_priced_by_the_caller(golden):
    text, mesh = golden("v5e_splash.hlo.gz"), MeshSpec.parse("1/data=4")
    unpriced = account(text, mesh)
    assert unpriced.executed_flops == 0
    assert unpriced.unpriced == ("tpu_custom_call",)

    def causal(computation, it):
        # 4 heads, 256 by 256 causal, 128 wide: products of forward, dq and dkv
        products = {"fwd": 2, "dq": 3, "dkv": 4}
        (part,) = (part for part in products if f"_{part}_" in it.name)
        return products[part] * 2 * 4 * 256 * 256 * 128 / 2

    priced = account(text, mesh, {"tpu_custom_call": causal})
    assert priced.executed_flops == 9 * 4 * 256 * 256 * 128
    assert priced.custom_calls[0].count == 3
    assert priced.elementwise_hbm_bytes < priced.hbm_bytes


@pytest.fixture(scope="module")
def on_gpu(golden):
    return functools.cache(
        lambda name, mesh: account(golden(f"{name}.hlo.gz"), MeshSpec.parse(mesh))
    )


NVLINK_DOMAIN = ("h100_fsdp4_tensor2", "h200_fsdp4_tensor2")


def test_products_on_gpu_are_those_of_the_model(on_gpu):
    # Triton's fusions hold them; no library is called where nothing can be timed.
    for name, mesh, remat in (
        ("a100_fsdp8", "1/fsdp=8", "none"),
        ("h100_fsdp4_tensor2", "1/fsdp=4,tensor=2", "full"),
        ("h100_data2_nodes", "data=2/fsdp=4", "none"),
        ("h200_fsdp4_tensor2", "1/fsdp=4,tensor=2", "full"),
        ("b200_data2_fsdp4", "1/data=2,fsdp=4", "dots"),
    ):
        found = on_gpu(name, mesh)
        per_token = executed_flops_per_token(MODELS["tiny"], 256, remat=remat)
        assert found.executed_flops == 64 * 256 / 8 * per_token
        assert (found.custom_calls, found.matmul_cycles) == ((), None)


@pytest.mark.parametrize("name", NVLINK_DOMAIN)
def test_one_nvlink_domain(on_gpu, name):
    found = on_gpu(name, "1/fsdp=4,tensor=2")
    # 16 sequences a device; the softmax's maxima and both sums in float32
    activations, softmax = 4096 * 128 * 2, 3 * 4096 * 4
    assert payloads(found) == {
        # Layers forward and backward with their norms; at once the last norm and both
        # tables, of which the head is gathered before it is made narrow.
        ("all_gather", "ici", ("fsdp",)): (
            5,
            4 * (LAYER / 2 + 2 * NORM) + NORM + TABLE / 2 + TABLE,
        ),
        # both tables, and a layer's weights and its norms apart
        ("reduce_scatter", "ici", ("fsdp",)): (5, TABLE + 2 * (LAYER / 2 + 2 * NORM)),
        ("all_reduce", "ici", ("fsdp",)): (1, NORM + 4),
        ("all_reduce", "ici", ("tensor",)): (15, 12 * activations + softmax),
    }
    # `is_sync` among what is started, and most all-reduces are not even that
    waits = {
        (each.kind, each.axes): each.asynchronous_count for each in found.collectives
    }
    assert waits == {
        ("all_gather", ("fsdp",)): 5,
        ("reduce_scatter", ("fsdp",)): 3,
        ("all_reduce", ("fsdp",)): 1,
        ("all_reduce", ("tensor",)): 4,
    }


def test_fsdp_on_a100_scatters_both_tables(on_gpu):
    norms = 2 * NORM
    assert payloads(on_gpu("a100_fsdp8", "1/fsdp=8")) == {
        ("all_gather", "ici", ("fsdp",)): (5, 4 * (LAYER + norms) + NORM + 3 * TABLE),
        ("reduce_scatter", "ici", ("fsdp",)): (5, 2 * TABLE + 2 * (LAYER + norms)),
        ("all_reduce", "ici", ("fsdp",)): (1, NORM + 4),
    }


def test_data_and_fsdp_of_a_node_are_summed_at_once_on_b200(on_gpu):
    norms = 2 * NORM
    assert payloads(on_gpu("b200_data2_fsdp4", "1/data=2,fsdp=4")) == {
        ("all_gather", "ici", ("fsdp",)): (5, 4 * (LAYER + norms) + NORM + 3 * TABLE),
        ("all_reduce", "ici", ("data", "fsdp")): (
            6,
            2 * LAYER + 2 * TABLE + 5 * NORM + 4,
        ),
    }


def test_two_gpu_nodes(on_gpu):
    found = on_gpu("h100_data2_nodes", "data=2/fsdp=4")
    # All gradients are all-reduced over both axes at once and cut afterwards: scattered
    # within a node, a quarter across, gathered again.
    gradients = 2 * LAYER + 2 * TABLE + 5 * NORM + 4
    weights = 4 * (LAYER + 2 * NORM) + NORM + TABLE + 2 * TABLE
    assert payloads(found) == {
        ("all_gather", "ici", ("fsdp",)): (5 + 6, weights + gradients),
        ("reduce_scatter", "ici", ("fsdp",)): (6, gradients),
        ("all_reduce", "dcn", ("data",)): (6, gradients / 4),
    }


def test_cudnn_attention_is_two_calls_a_layer_and_one_more_where_it_is_repeated(
    on_gpu,
):
    forward, backward = on_gpu("h100_cudnn", "1/fsdp=4").custom_calls
    assert (forward.target, forward.count) == ("__cudnn$fmhaSoftmax", 2 * 2)
    assert (backward.target, backward.count) == ("__cudnn$fmhaSoftmaxBackward", 2)
    assert (forward.flops, backward.flops) == (None, None)


def test_what_agrees_with_the_closed_form_is_not_named(accounted):
    name = "v5p_data2_tensor2"
    assert compare(accounted(name), cost(point(name))) == ()


def test_rewrites_that_the_closed_form_does_not_know_are_named(accounted):
    # The tables cross between slices before they are cast.
    name = "v5e_four_slices"
    (across,) = compare(accounted(name), cost(point(name)))
    assert across.name == "bytes over dcn along data+fsdp"
    assert set(across.compiled_kinds) == {"all_gather", "all_reduce"}
    assert across.fraction == pytest.approx(0.546, abs=1e-3)


def test_flops_that_differ_are_named(accounted):
    name = "v5p_data2_tensor2"
    other = cost(point(name))
    other = Cost.model_validate(
        other.model_dump() | {"executed_flops": 2 * other.executed_flops}
    )
    (one,) = compare(accounted(name), other)
    assert (one.name, one.fraction) == ("executed_flops", -0.5)
    assert compare(accounted(name), other, tolerance=0.5) == ()
