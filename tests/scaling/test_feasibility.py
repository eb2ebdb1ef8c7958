import pytest

from meshes.spec import MeshSpec
from scaling.feasibility import across_slices
from scaling.feasibility import why_infeasible
from scaling.point import Point

pytestmark = pytest.mark.fast


def point(**changes):
    fields = {
        "model": "llama2-7b",
        "chip": "v5e",
        "mesh": "1/1",
        "global_batch_size": 64,
        "seq_len": 1024,
    }
    return Point.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("mesh", "shape"),
    [("1/1", (1, 1)), ("1/fsdp=16", (4, 4)), ("data=2/fsdp=16,tensor=2", (4, 8))],
)
def test_what_divides_and_has_a_slice_is_feasible(mesh, shape):
    assert why_infeasible(point(mesh=mesh, slice_shape=shape)) is None


@pytest.mark.parametrize("axis", ["stage", "expert", "context"])
def test_axes_that_are_not_at_work_yet_are_named(axis):
    reason = why_infeasible(point(mesh=f"1/{axis}=4"))
    assert reason == f"axis '{axis}' is not at work yet; use data, fsdp or tensor"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        # 40 heads over 16 shards: 8 and 10 divide 40, so do 32 and 48 by 16.
        (
            {"model": "llama2-13b", "mesh": "1/tensor=16", "slice_shape": (4, 4)},
            ("heads 40", "tensor=16", "heads 32 or 48", "tensor of 10 or 20"),
        ),
        # 64 query heads divide, the 8 shared key and value heads do not.
        (
            {"model": "llama2-70b", "mesh": "1/tensor=16", "slice_shape": (4, 4)},
            ("kv_heads 8", "tensor=16", "tensor of 8"),
        ),
        # GPT-2's odd vocabulary: the nearest padding is one more token.
        (
            {"model": "gpt2-124m", "chip": "cpu", "mesh": "1/tensor=2"},
            ("vocab 50257", "tensor=2", "50258", "token_embedding of gpt2-124m"),
        ),
        # 768 = 3 · 256 is no multiple of 512 devices, of 256 it is.
        (
            {"model": "gpt2-124m", "chip": "v4", "mesh": "1/fsdp=512"},
            ("embed 768", "fsdp=512", "fsdp of 384 or 768"),
        ),
        (
            {"seq_len": 1022, "residual": "seq", "mesh": "1/tensor=4"},
            ("seq 1022", "tensor=4", "seq 1020 or 1024", "residual=seq"),
        ),
    ],
)
def test_a_dim_that_does_not_divide_is_named_with_sizes_that_do(changes, words):
    reason = why_infeasible(point(**changes))
    assert reason is not None
    for word in words:
        assert word in reason


def test_the_batch_divides_over_data_fsdp_and_accumulation():
    mesh = {"mesh": "data=2/fsdp=4", "slice_shape": (2, 2)}
    assert why_infeasible(point(**mesh, global_batch_size=16, accumulation=2)) is None
    reason = why_infeasible(point(**mesh, global_batch_size=24, accumulation=2))
    assert reason == (
        "batch 24 does not divide by data=2 × fsdp=4 × accumulation=2 = 16; "
        "nearest batch: 16 or 32"
    )


def test_tensor_shards_do_not_need_sequences_of_their_own():
    one = point(mesh="1/tensor=4", slice_shape=(2, 2), global_batch_size=1)
    assert why_infeasible(one) is None


def test_slice_and_mesh_must_have_the_same_devices():
    reason = why_infeasible(point(mesh="1/fsdp=8", slice_shape=(4, 4)))
    assert reason == (
        "slice v5e:4x4 has 16 devices and the part of mesh '1/fsdp=8' within a slice 8"
    )


def test_a_chip_of_two_devices_counts_both():
    two = {"chip": "v7x", "mesh": "1/fsdp=128", "global_batch_size": 128}
    assert why_infeasible(point(**two, slice_shape=(4, 4, 4))) is None
    reason = why_infeasible(point(chip="v7x", mesh="1/fsdp=3"))
    assert reason is not None
    assert "2 each; take 2 or 4" in reason


def test_slices_that_nobody_can_have_are_named_with_those_that_exist():
    odd = why_infeasible(point(mesh="1/fsdp=15", slice_shape=(3, 5)))
    assert odd is not None
    assert "v5e has no slice 3x5" in odd
    none = why_infeasible(point(mesh="1/fsdp=32,data=3"))
    assert none is not None
    assert "no v5e slice has 96 chips" in none
    assert "64 or 128" in none


def test_more_gpus_than_nvlink_joins_spells_the_right_mesh():
    gpu = {"chip": "h100-sxm", "global_batch_size": 64}
    assert why_infeasible(point(**gpu, mesh="data=2/fsdp=8")) is None
    reason = why_infeasible(point(**gpu, mesh="1/fsdp=16"))
    assert reason == (
        "mesh '1/fsdp=16' puts 16 GPUs within one NVLink domain and h100-sxm has 8; "
        "write 'fsdp=2/fsdp=8'"
    )


def test_a_smaller_nvlink_domain_holds_and_a_larger_one_does_not_exist():
    gpu = {"chip": "h100-sxm", "mesh": "1/fsdp=8"}
    smaller = why_infeasible(point(**gpu, slice_shape=(4,)))
    assert smaller is not None
    assert "write 'fsdp=2/fsdp=4'" in smaller
    larger = why_infeasible(point(**gpu, slice_shape=(16,)))
    assert larger is not None
    assert "h100-sxm:8" in larger


@pytest.mark.parametrize(
    ("mesh", "most", "text"),
    [
        ("1/fsdp=16", 8, "fsdp=2/fsdp=8"),
        ("data=3/data=2,fsdp=8", 8, "data=6/fsdp=8"),
        ("1/data=2,fsdp=2,tensor=8", 8, "data=2,fsdp=2/tensor=8"),
        ("1/tensor=12", 8, "tensor=2/tensor=6"),
        ("1/fsdp=11", 8, "fsdp=11/1"),
        ("1/fsdp=4", 8, "1/fsdp=4"),
    ],
)
def test_outer_axes_move_across_slices_first(mesh, most, text):
    moved = across_slices(MeshSpec.parse(mesh), most)
    assert str(moved) == text
    assert moved.num_devices == MeshSpec.parse(mesh).num_devices


def test_learned_positions_end_where_their_table_does():
    gpt2 = {"model": "gpt2-124m", "chip": "cpu"}
    assert why_infeasible(point(**gpt2, seq_len=1024)) is None
    reason = why_infeasible(point(**gpt2, seq_len=1025))
    assert reason is not None
    assert "1024 learned positions" in reason
    # Rotary positions have no table.
    assert why_infeasible(point(chip="cpu", seq_len=8192)) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"chip": "cpu", "attention": "splash"},
            "attention 'splash' runs on tpu only and the chip is cpu; use xla",
        ),
        (
            {"chip": "h100-sxm", "attention": "splash"},
            "attention 'splash' runs on tpu only and the chip is h100-sxm; "
            "use xla or cudnn",
        ),
        (
            {"attention": "cudnn"},
            "attention 'cudnn' runs on gpu only and the chip is v5e; use xla or splash",
        ),
        (
            {"attention": "splash", "seq_len": 1000},
            "seq_len 1000 is not a multiple of 128, which splash attention needs; "
            "nearest seq_len: 896 or 1024",
        ),
        (
            {"attention": "splash", "seq_len": 64},
            "seq_len 64 is not a multiple of 128, which splash attention needs; "
            "nearest seq_len: 128",
        ),
        (
            {"chip": "h100-sxm", "attention": "cudnn", "compute_dtype": "float32"},
            "cuDNN attention computes in bfloat16 and compute_dtype is float32; use "
            "compute_dtype bfloat16 or attention xla",
        ),
        (
            {"chip": "h100-sxm", "attention": "cudnn", "model": "gemma-7b"},
            "cuDNN attention takes a head_dim that is a multiple of 8 up to 128, and "
            "that of gemma-7b is 256; use attention xla",
        ),
    ],
)
def test_a_kernel_that_is_not_served_is_refused(changes, reason):
    assert why_infeasible(point(**changes)) == reason


def test_kernels_run_where_they_are_served():
    assert why_infeasible(point(attention="splash", slice_shape=(1, 1))) is None
    assert why_infeasible(point(chip="h100-sxm", attention="cudnn")) is None


def test_a_cpu_has_no_slice():
    reason = why_infeasible(point(model="tiny", chip="cpu", slice_shape=(2,)))
    assert reason == "chip cpu has no slices, and the point gives one"
