import pytest

from models.counts import activation_bytes_per_token
from models.counts import executed_flops_per_token
from models.counts import num_parameters
from models.counts import training_flops_per_token
from models.presets import MODELS
from scaling.analytic import cost
from scaling.feasibility import host_bytes_needed
from scaling.held import state_bytes
from scaling.point import Point

# Llama 2 7B: D 4096, L 32, F 11008, V 32000, untied; 6 738 415 616 parameters.
N = 6_738_415_616
D, L, V = 4096, 32, 32_000
# The norms, two a layer and one at the end, are all that tensor does not shard.
NORMS = (2 * L + 1) * D
TABLE = V * D


def point(**changes):
    fields = {
        "model": "llama2-7b",
        "chip": "v5e",
        "mesh": "1/1",
        "global_batch_size": 256,
        "seq_len": 4096,
    }
    return Point.model_validate(fields | changes)


def by_kind(amounts):
    return {(each.kind, each.axes, each.network): each for each in amounts.collectives}


def test_the_numbers_above_are_the_models():
    assert num_parameters(MODELS["llama2-7b"]) == N


@pytest.mark.parametrize(
    ("mesh", "elements"),
    [
        ("1/1", N),
        # data replicates, fsdp shards every array, all of which have an embed dim
        ("1/data=256", N),
        ("1/fsdp=256", N // 256),
        ("data=2/fsdp=128", N // 128),
        ("1/tensor=4", (N - NORMS) // 4 + NORMS),
        ("1/fsdp=64,tensor=4", ((N - NORMS) // 4 + NORMS) // 64),
    ],
)
def test_arguments_are_three_arrays_a_parameter_and_the_batch(mesh, elements):
    # AdamW in float32: 12 bytes a parameter, and two int32 counters.
    this = point(mesh=mesh)
    assert state_bytes(this) == 12 * elements + 8
    shares = this.mesh.size("data") * this.mesh.size("fsdp")
    # int32 tokens, one more than enter the model
    batch = 256 // shares * 4097 * 4
    assert cost(this).arguments_bytes == 12 * elements + 8 + batch
    assert cost(this).gradient_bytes == 4 * elements


def test_bytes_follow_the_dtypes_and_sums_are_float32():
    half = point(param_dtype="bfloat16")
    assert state_bytes(half) == 6 * N + 8
    assert cost(half).gradient_bytes == 2 * N
    summed = point(param_dtype="bfloat16", accumulation=2)
    assert cost(summed).gradient_bytes == 4 * N


@pytest.mark.parametrize("mesh", ["1/1", "data=2/fsdp=4,tensor=2", "1/tensor=8"])
@pytest.mark.parametrize("remat", ["none", "full"])
def test_flops_are_shared_evenly_and_model_flops_do_not_recompute(mesh, remat):
    amounts = cost(point(mesh=mesh, remat=remat))
    config, devices = MODELS["llama2-7b"], point(mesh=mesh).mesh.num_devices
    tokens = 256 * 4096
    assert amounts.model_flops * devices == pytest.approx(
        tokens * training_flops_per_token(config, 4096, causal=True)
    )
    assert amounts.model_flops_full_attention * devices == pytest.approx(
        tokens * training_flops_per_token(config, 4096, causal=False)
    )
    assert amounts.executed_flops * devices == pytest.approx(
        tokens * executed_flops_per_token(config, 4096, remat=remat)
    )


@pytest.mark.parametrize(("mesh", "shares"), [("1/fsdp=8", 8), ("data=2/data=4", 8)])
def test_activations_are_those_of_one_micro_batch(mesh, shares):
    per_token = sum(
        activation_bytes_per_token(
            MODELS["llama2-7b"], 4096, remat="none", compute_bytes=2
        ).values()
    )
    whole = per_token * 256 * 4096
    # The bfloat16 copies of the head and the last norm wait beside them.
    weights = 2 * (TABLE + D)
    one = cost(point(mesh=mesh)).activation_bytes
    assert one == pytest.approx(whole / shares + weights)
    micro = cost(point(mesh=mesh, accumulation=4)).activation_bytes
    assert micro == pytest.approx(whole / shares / 4 + weights)


@pytest.mark.parametrize(
    ("changes", "elements"),
    [
        # Only what lies outside of the blocks: the head and the last norm.
        ({"mesh": "1/fsdp=8"}, TABLE + D),
        ({"mesh": "1/fsdp=8", "remat": "full"}, TABLE + D),
        # Unrolled, the copies that fsdp gathered stay until they are used again.
        ({"mesh": "1/fsdp=8", "layers": "unrolled"}, N - TABLE),
        ({"mesh": "1/fsdp=8", "layers": "unrolled", "remat": "full"}, TABLE + D),
        # Neither cast nor gathered, so no copies.
        ({"layers": "unrolled"}, 0),
        ({"mesh": "1/data=8"}, 0),
    ],
)
def test_copies_of_weights_wait_for_the_backward_pass(changes, elements):
    this = point(compute_dtype="float32", **changes)
    per_token = sum(
        activation_bytes_per_token(
            MODELS["llama2-7b"], 4096, remat=this.remat, compute_bytes=4
        ).values()
    )
    tokens = 256 * 4096 / this.mesh.num_devices
    saved = cost(this).activation_bytes - per_token * tokens
    assert saved == pytest.approx(4 * elements, abs=1e6)


def test_memory_traffic_of_one_device():
    # Weights in bfloat16, three passes over all but the look-up table:
    # 6 · (6 738 415 616 - 131 072 000) = 39 644 061 696. AdamW 28 bytes each:
    # 188 675 637 248. Activations once out and once in.
    amounts = cost(point(global_batch_size=1))
    fixed = 39_644_061_696 + 188_675_637_248
    saved = 4096 * sum(
        activation_bytes_per_token(
            MODELS["llama2-7b"], 4096, remat="none", compute_bytes=2
        ).values()
    )
    assert amounts.hbm_bytes == pytest.approx(fixed + 2 * saved)


def test_memory_traffic_of_recomputation_and_micro_batches():
    plain = cost(point(global_batch_size=4))
    full = cost(point(global_batch_size=4, remat="full"))
    blocks = N - 2 * TABLE - D
    # What is no longer saved is neither written nor read.
    saved = plain.activation_bytes - full.activation_bytes
    assert full.hbm_bytes - plain.hbm_bytes == pytest.approx(2 * blocks - 2 * saved)
    twice = cost(point(global_batch_size=4, accumulation=2))
    # Weights once more, and float32 sums read and written in both micro-batches.
    more = 6 * (N - TABLE) + 2 * 8 * N
    assert twice.hbm_bytes - plain.hbm_bytes == pytest.approx(more)


def test_one_device_sends_nothing():
    assert cost(point()).collectives == ()


def test_fsdp_gathers_forward_and_backward_and_scatters_once():
    kept = by_kind(cost(point(mesh="1/fsdp=256", layers="unrolled")))
    assert kept["all_gather", ("fsdp",), "ici"].payload_bytes == 2 * N
    assert kept["all_gather", ("fsdp",), "ici"].count == L + 2
    found = by_kind(cost(point(mesh="1/fsdp=256")))
    repeated = by_kind(cost(point(mesh="1/fsdp=256", remat="full")))
    assert found == repeated
    assert set(found) == {
        ("all_gather", ("fsdp",), "ici"),
        ("reduce_scatter", ("fsdp",), "ici"),
        ("all_reduce", ("fsdp",), "ici"),
    }
    gather = found["all_gather", ("fsdp",), "ici"]
    # All weights forward, those of the blocks once more, in bfloat16.
    assert gather.payload_bytes == 2 * N + 2 * (N - 2 * TABLE - D)
    assert gather.bytes == pytest.approx(gather.payload_bytes * 255 / 256)
    assert gather.group_size == 256
    assert gather.count == 2 * L + 2
    scatter = found["reduce_scatter", ("fsdp",), "ici"]
    assert scatter.payload_bytes == 2 * (N - TABLE)
    assert scatter.bytes == pytest.approx(2 * (N - TABLE) * 255 / 256)
    # What was looked up in keeps its part later, so its gradient is summed.
    looked_up = found["all_reduce", ("fsdp",), "ici"]
    assert looked_up.payload_bytes == 2 * TABLE


def test_fsdp_of_both_networks_sends_only_a_slices_shard_across():
    found = by_kind(cost(point(mesh="fsdp=2/fsdp=16")))
    within = found["reduce_scatter", ("fsdp",), "ici"]
    across = found["all_reduce", ("fsdp",), "dcn"]
    assert within.payload_bytes == 2 * N
    assert across.payload_bytes == 2 * N / 16
    assert (within.group_size, across.group_size) == (16, 2)


def test_data_reduces_gradients_once():
    found = by_kind(cost(point(mesh="1/data=4")))
    assert set(found) == {("all_reduce", ("data",), "ici")}
    reduce = found["all_reduce", ("data",), "ici"]
    assert reduce.payload_bytes == 2 * N
    assert reduce.bytes == pytest.approx(2 * 3 / 4 * 2 * N)


def test_data_across_slices_reduces_what_fsdp_has_scattered():
    found = by_kind(cost(point(mesh="data=2/fsdp=64")))
    reduce = found["all_reduce", ("data",), "dcn"]
    assert reduce.payload_bytes == 2 * N / 64
    assert reduce.bytes == pytest.approx(2 * N / 64)
    assert ("all_reduce", ("data",), "ici") not in found


def test_data_of_both_networks_is_hierarchical():
    found = by_kind(cost(point(mesh="data=2/data=4")))
    scatter = found["reduce_scatter", ("data",), "ici"]
    across = found["all_reduce", ("data",), "dcn"]
    gather = found["all_gather", ("data",), "ici"]
    assert scatter.payload_bytes == gather.payload_bytes == 2 * N
    assert across.payload_bytes == 2 * N / 4
    # Together as much within the slice as one all-reduce there.
    assert scatter.bytes + gather.bytes == pytest.approx(2 * 3 / 4 * 2 * N)


@pytest.mark.parametrize(("remat", "times"), [("none", 4 * L + 2), ("full", 5 * L + 2)])
def test_tensor_reduces_activations_four_times_a_block(remat, times):
    this = point(mesh="1/tensor=8", global_batch_size=2, remat=remat)
    found = by_kind(cost(this))
    assert set(found) == {("all_reduce", ("tensor",), "ici")}
    reduce = found["all_reduce", ("tensor",), "ici"]
    array = 2 * 4096 * D * 2
    assert reduce.count == times
    assert reduce.payload_bytes == times * array
    assert reduce.bytes == pytest.approx(2 * 7 / 8 * times * array)


def test_a_sharded_stream_is_gathered_before_what_takes_it_and_scattered_in_sums():
    changes = {"mesh": "1/fsdp=64,tensor=4", "remat": "full", "residual": "seq"}
    found = by_kind(cost(point(**changes)))
    array = 256 // 64 * 4096 * D * 2
    gather = found["all_gather", ("tensor",), "ici"]
    scatter = found["reduce_scatter", ("tensor",), "ici"]
    # Before both halves of a block: forward, again, and for what comes back; before the
    # head, and the table before it is looked up in, whole.
    assert gather.count == 6 * L + 2
    assert gather.payload_bytes == (6 * L + 1) * array + 2 * TABLE
    assert gather.bytes == 3 / 4 * gather.payload_bytes
    # Twice a block forward, once more where it is repeated, twice backward, and once
    # for the head.
    assert (scatter.count, scatter.payload_bytes) == (5 * L + 1, (5 * L + 1) * array)
    # Forward and behind the head the pieces go round the ring and home: 5 of 4.
    windows = (3 * L + 1) * array * 5 / 4
    assert scatter.bytes == windows + 2 * L * array * 3 / 4
    assert ("all_reduce", ("tensor",), "ici") not in found
    # The gradient of the table that was looked up in is summed whole over both axes,
    # that of the head's and of the blocks scattered over fsdp.
    table = found["all_reduce", ("fsdp", "tensor"), "ici"]
    assert (table.payload_bytes, table.group_size) == (2 * TABLE, 256)
    local = (N - NORMS - TABLE) // 4 + NORMS
    assert found["reduce_scatter", ("fsdp",), "ici"].payload_bytes == 2 * local


def test_what_is_kept_whole_is_not_gathered_again():
    changes = {"mesh": "1/fsdp=64,tensor=4", "remat": "none", "residual": "seq"}
    found = by_kind(cost(point(**changes)))
    assert found["all_gather", ("tensor",), "ici"].count == 4 * L + 2
    assert found["reduce_scatter", ("tensor",), "ici"].count == 4 * L + 1


def test_a_sharded_stream_over_both_networks_crosses_slices_in_its_shards():
    changes = {"mesh": "tensor=2/tensor=2", "residual": "seq", "global_batch_size": 2}
    found = by_kind(cost(point(**changes)))
    times, array = 4 * L + 1, 2 * 4096 * D * 2
    for kind, table in (("all_gather", 2 * TABLE), ("reduce_scatter", 0)):
        within = found[kind, ("tensor",), "ici"]
        across = found[kind, ("tensor",), "dcn"]
        assert (within.group_size, across.group_size) == (2, 2)
        assert within.count == across.count == times + (table > 0)
        # A device ends with the whole array of which it has a quarter: half comes from
        # its slice, and of the half that it then has half from the other.
        assert within.bytes == (times * array + table) / 2
        assert across.bytes == (times * array + table) / 2 / 2


def test_tensor_shards_weights_before_they_travel():
    found = by_kind(cost(point(mesh="1/fsdp=64,tensor=4")))
    local = (N - TABLE - NORMS) // 4 + NORMS
    assert found["reduce_scatter", ("fsdp",), "ici"].payload_bytes == 2 * local


def test_micro_batches_repeat_the_weights_and_share_the_activations():
    one = by_kind(cost(point(mesh="data=2/fsdp=4,tensor=2")))
    two = by_kind(cost(point(mesh="data=2/fsdp=4,tensor=2", accumulation=2)))
    for key, collective in one.items():
        assert two[key].count == 2 * collective.count
        repeated = 1 if key[1] == ("tensor",) else 2
        assert two[key].payload_bytes == repeated * collective.payload_bytes


def test_within_a_slice_gradients_are_summed_over_data_and_fsdp_at_once():
    found = by_kind(cost(point(mesh="1/data=4,fsdp=16")))
    assert set(found) == {
        ("all_gather", ("fsdp",), "ici"),
        ("all_reduce", ("data", "fsdp"), "ici"),
    }
    both = found["all_reduce", ("data", "fsdp"), "ici"]
    assert (both.payload_bytes, both.group_size) == (2 * N, 64)
    assert both.bytes == pytest.approx(2 * 63 / 64 * 2 * N)


def test_a_table_that_is_also_the_head_has_two_gradients():
    tied = {"model": "gpt2-124m", "seq_len": 1024, "mesh": "1/fsdp=16"}
    found = by_kind(cost(point(**tied)))
    gather = found["all_gather", ("fsdp",), "ici"]
    scatter = found["reduce_scatter", ("fsdp",), "ici"]
    config = MODELS["gpt2-124m"]
    table = config.vocab_size * config.embed_dim
    assert scatter.payload_bytes == 2 * num_parameters(config)
    assert found["all_reduce", ("fsdp",), "ici"].payload_bytes == 2 * table
    assert gather.count == 2 * config.num_layers + 1


def test_a_shape_that_does_not_divide_is_refused_by_name():
    with pytest.raises(ValueError, match="heads 32 does not divide over tensor=5"):
        cost(point(mesh="1/tensor=5", model="llama2-7b"))


def test_a_cpu_holds_every_replica():
    one = point(model="tiny", chip="cpu", seq_len=128)
    four = point(model="tiny", chip="cpu", seq_len=128, mesh="1/data=4")
    assert host_bytes_needed(one) == pytest.approx(cost(one).least_hbm_bytes, abs=1)
    assert host_bytes_needed(four) == pytest.approx(
        4 * cost(four).least_hbm_bytes, abs=4
    )
    # The replicas share the activations; each has a state of its own.
    more = host_bytes_needed(four) - host_bytes_needed(one)
    assert more >= 3 * state_bytes(one)
