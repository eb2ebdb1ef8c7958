import hypothesis
import hypothesis.strategies as st
import pytest

from scaling.hlo.convolution import Window
from scaling.hlo.convolution import products_of_dim
from scaling.hlo.flops import CustomCall
from scaling.hlo.flops import Workload
from scaling.hlo.module import parse


def work(text, **prices):
    module = parse(text)
    return Workload(module, prices).of_computation(module.entry)


def flops(program, entry, others=""):
    return work(program(entry, others)).flops


def test_dot_is_two_flops_for_each_product(program):
    entry = """\
  %a = bf16[3,5,7]{2,1,0} parameter(0)
  %b = bf16[3,7,11]{2,1,0} parameter(1)
  ROOT %d = f32[3,5,11]{2,1,0} dot(%a, %b), lhs_batch_dims={0}, \
lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"""
    assert flops(program, entry) == 2 * 3 * 5 * 7 * 11


# As the TPU compiler printed them: which products they are is in the model.
CONVOLUTIONS = {
    # [4·2048, 4096] times [4096, 3584]: the MLP of Llama 3 8B over tensor=4
    "matmul": (
        "bf16[4,2048,4096] bf16[4096,3584,1] bf16[4,2048,3584]",
        "window={size=1}, dim_labels=0bf_io0->0bf",
        2 * 4 * 2048 * 4096 * 3584,
    ),
    # queries of 8 heads: a window that slides over heads, all but one padding
    "heads": (
        "bf16[4,2048,4096,1] bf16[4096,8,1,128] bf16[4,2048,8,128]",
        "window={size=1x8 pad=0_0x7_7 rhs_reversal=0x1}, dim_labels=0bf1_i1o0->0b1f",
        2 * 4 * 2048 * 4096 * 8 * 128,
    ),
    # scores: batch 4, 2 key-value heads and 4 query heads of each as dilated windows
    "scores": (
        "bf16[4,2048,2,128,1] bf16[4,2048,4,2,128] f32[4,2,2048,2048,4]",
        "window={size=4x2x4 stride=3x1x1 pad=0_0x0_0x3_3 lhs_dilate=4x2x1 "
        "rhs_reversal=0x0x1}, dim_labels=0b1f2_0o12i->01bf2",
        2 * 4 * 2 * 4 * 2048 * 2048 * 128,
    ),
    # a weight's gradient, where the batch is the window
    "gradient": (
        "bf16[4,2048,4096] bf16[4,2048,3584] bf16[4096,3584,1]",
        "window={size=4}, dim_labels=0fb_0io->bf0",
        2 * 4 * 2048 * 4096 * 3584,
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_counts_products_and_no_padding(program, name):
    shapes, attributes, expected = CONVOLUTIONS[name]
    lhs, rhs, out = shapes.split()
    if name == "heads":
        rhs = "bf16[4096,8,128,1]"
    entry = f"""\
  %a = {lhs}{{0}} parameter(0)
  %b = {rhs}{{0}} parameter(1)
  ROOT %c = {out}{{0}} convolution(%a, %b), {attributes}"""
    assert flops(program, entry) == expected


def test_feature_groups_see_their_own_features_only(program):
    entry = """\
  %a = f32[2,9,12]{2,1,0} parameter(0)
  %b = f32[3,4,6]{2,1,0} parameter(1)
  ROOT %c = f32[2,7,6]{2,1,0} convolution(%a, %b), window={size=3}, \
dim_labels=b0f_0io->b0f, feature_group_count=3"""
    assert flops(program, entry) == 2 * 2 * 7 * 3 * 4 * 6


@hypothesis.given(
    inputs=st.integers(1, 7),
    outputs=st.integers(1, 7),
    size=st.integers(1, 7),
    stride=st.integers(1, 5),
    pad=st.integers(-3, 7),
    lhs=st.integers(1, 5),
    rhs=st.integers(1, 5),
)
def test_products_of_a_dim_are_those_counted_one_by_one(
    inputs, outputs, size, stride, pad, lhs, rhs
):
    places = [at * stride - pad + k * rhs for at in range(outputs) for k in range(size)]
    expected = sum(
        0 <= place <= (inputs - 1) * lhs and place % lhs == 0 for place in places
    )
    window = Window(size, stride, pad, lhs, rhs)
    assert products_of_dim(inputs, outputs, window) == expected


@pytest.mark.parametrize(
    ("lhs", "rhs", "out", "contracted", "expected"),
    [
        # 64 rows to 8 experts: each row meets one of them
        ("64,32", "8,32,16", "64,16", "1", 2 * 64 * 32 * 16),
        # the experts' gradients: each row is in the sum of one of them
        ("64,32", "64,16", "8,32,16", "0", 2 * 64 * 32 * 16),
    ],
)
def test_a_grouped_matmul_counts_active_work(
    program, lhs, rhs, out, contracted, expected
):
    entry = f"""\
  %a = bf16[{lhs}]{{0}} parameter(0)
  %b = bf16[{rhs}]{{0}} parameter(1)
  %sizes = s32[8]{{0}} parameter(2)
  ROOT %r = bf16[{out}]{{0}} ragged-dot(%a, %b, %sizes), \
lhs_contracting_dims={{{contracted}}}, lhs_ragged_dims={{0}}, rhs_group_dims={{0}}"""
    assert flops(program, entry) == expected


FUSED = """\
%inner (a: f32[4,4]) -> f32[4,4] {
  %a = f32[4,4] parameter(0)
  ROOT %d = f32[4,4] dot(%a, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%outer (b: f32[4,4]) -> f32[4,4] {
  %b = f32[4,4] parameter(0)
  %f = f32[4,4] fusion(%b), kind=kOutput, calls=%inner
  ROOT %d.1 = f32[4,4] dot(%f, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_what_is_fused_counts_as_often_as_it_is_used(program):
    entry = """\
  %p = f32[4,4] parameter(0)
  %x = f32[4,4] fusion(%p), kind=kOutput, calls=%outer
  ROOT %y = f32[4,4] fusion(%x), kind=kOutput, calls=%outer"""
    assert flops(program, entry, FUSED) == 2 * 2 * (2 * 4**3)


def test_a_target_of_several_kernels_is_priced_for_those_that_are_known(program):
    entry = """  %p = bf16[4,8]{1,0} parameter(0)
  %known = bf16[4,8]{1,0} custom-call(%p), custom_call_target="tpu_custom_call"
  ROOT %k = bf16[4,8]{1,0} custom-call(%known), custom_call_target="tpu_custom_call\""""

    def price(computation, it):
        return 7.0 if it.name == "known" else None

    found = work(program(entry), tpu_custom_call=price)
    assert found.flops == 7
    assert [call.flops for call in found.custom_calls] == [7, None]


def test_custom_calls_are_listed_and_priced_by_those_who_know(program):
    entry = """\
  %p = bf16[4,8]{1,0} parameter(0)
  %buffer = bf16[4,8]{1,0} custom-call(), custom_call_target="AllocateBuffer"
  ROOT %k = bf16[4,8]{1,0} custom-call(%p), custom_call_target="tpu_custom_call\""""
    unpriced = work(program(entry))
    assert unpriced.flops == 0
    assert unpriced.custom_calls == (CustomCall("k", "tpu_custom_call", None),)

    def price(computation, it):
        return 10.0 * sum(each.size for each in computation.operand_arrays(it))

    priced = work(program(entry), tpu_custom_call=price)
    assert priced.flops == 320
    assert priced.custom_calls == (CustomCall("k", "tpu_custom_call", 320),)


def test_cublas_calls_are_matrix_products(program):
    entry = """\
  %a = bf16[16,32]{1,0} parameter(0)
  %b = bf16[32,64]{1,0} parameter(1)
  ROOT %g = (bf16[16,64]{1,0}, s8[4096]{0}) custom-call(%a, %b), \
custom_call_target="__cublas$lt$matmul", \
backend_config=\
{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}"""
    found = work(program(entry))
    assert found.flops == 2 * 16 * 32 * 64
    assert found.custom_calls[0].flops == found.flops


def test_work_that_nobody_counts_is_refused(program):
    entry = "  %p = f32[4,4] parameter(0)\n  ROOT %c = f32[4,4] cholesky(%p)"
    with pytest.raises(ValueError, match="'c' is a cholesky, whose FLOPs are not"):
        flops(program, entry)
