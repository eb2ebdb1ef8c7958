"""The training step on eight CPU devices, with a model of one small layer."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from experiments import train
from experiments.compilations import CompilationCounter
from experiments.train import TrainState
from experiments.train import TrainStep
from experiments.train import build_step
from experiments.train import next_token_loss
from experiments.train import state_bytes_per_device
from meshes.build import build_mesh
from meshes.build import named_sharding
from meshes.spec import MeshSpec
from models.config import ModelConfig
from models.counts import num_parameters
from models.presets import MODELS
from scaling.point import Point

pytestmark = pytest.mark.fast

MINUTE = ModelConfig(
    name="minute",
    source="this test",
    num_layers=1,
    embed_dim=32,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    mlp_dim=64,
    vocab_size=256,
    max_seq_len=32,
)
OTHER = MINUTE.model_copy(
    update={
        "name": "other",
        "num_kv_heads": 4,
        "norm": "layer",
        "positions": "learned",
        "activation": "gelu",
        "bias": True,
        "tied_head": True,
    }
)
MESHES = ("1/1", "1/data=8", "1/fsdp=8", "1/data=2,fsdp=2,tensor=2")


@pytest.fixture(scope="module", autouse=True)
def minute() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "minute", MINUTE)
        patch.setitem(MODELS, "other", OTHER)
        yield


def point_of(mesh: str = "1/1", **fields: object) -> Point:
    return Point.model_validate(
        {
            "model": "minute",
            "chip": "cpu",
            "mesh": mesh,
            "global_batch_size": 16,
            "seq_len": 16,
            "compute_dtype": "float32",
            **fields,
        }
    )


def step_of(point: Point) -> TrainStep:
    devices = jax.devices()[: point.mesh.num_devices]
    return build_step(point, build_mesh(point.mesh, devices))


def tokens(seed: int = 0) -> np.ndarray:
    # A short cycle, so that a few steps learn something.
    start = np.random.default_rng(seed).integers(50, size=(16, 1))
    return ((start + np.arange(17)) % 50).astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """Four steps of a point, kept because each costs seconds of compilation."""

    step: TrainStep
    compiled: train.Step
    initial: list[np.ndarray]
    """Values of the initial state."""
    donated: TrainState
    final: TrainState
    losses: list[float]
    compilations: list[int]
    """In `compile`, and in each step."""


@functools.cache
def ran(point: Point) -> Ran:
    step = step_of(point)
    first = state = step.init()
    initial = [np.array(leaf) for leaf in jax.tree.leaves(state)]
    counter = CompilationCounter()
    with counter:
        compiled = step.compile()
    losses, compilations = [], [counter.count]
    for number in range(4):
        batch = jax.device_put(tokens(number), step.abstract_batch.sharding)
        before = counter.count
        with counter:
            state, loss = jax.block_until_ready(compiled(state, batch))
        compilations.append(counter.count - before)
        losses.append(float(loss))
    return Ran(
        step=step,
        compiled=compiled,
        initial=initial,
        donated=first,
        final=state,
        losses=losses,
        compilations=compilations,
    )


@pytest.mark.parametrize("mesh", MESHES)
def test_every_mesh_gives_the_same_losses_and_compiles_once(mesh):
    one, here = ran(point_of("1/1")), ran(point_of(mesh))
    # The same sums in another order.
    assert here.losses == pytest.approx(one.losses, rel=2e-6)
    assert here.losses[0] == pytest.approx(math.log(256), rel=0.02)
    assert here.losses[-1] < here.losses[0] - 0.08
    assert here.compilations == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "fields",
    [{"accumulation": 2, "mesh": "1/fsdp=2"}, {"layers": "unrolled", "remat": "full"}],
)
def test_how_it_is_computed_does_not_change_what(fields):
    one, here = ran(point_of("1/1")), ran(point_of(**fields))
    assert here.losses == pytest.approx(one.losses, rel=2e-6)
    assert sum(here.compilations) == 1


def test_another_family_gives_the_same_losses_on_a_mesh():
    one = ran(point_of("1/1", model="other"))
    here = ran(point_of("1/fsdp=2,tensor=4", model="other"))
    assert here.losses == pytest.approx(one.losses, rel=2e-6)
    assert here.losses[-1] < here.losses[0] - 0.08


def test_bfloat16_parameters_stay_so_and_learn():
    here = ran(
        point_of(param_dtype="bfloat16", compute_dtype="bfloat16", accumulation=2)
    )
    assert here.losses[-1] < here.losses[0] - 0.08
    dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(here.final.params)}
    assert dtypes == {"bfloat16"}


@pytest.mark.parametrize("mesh", MESHES)
def test_initial_state_is_the_same_on_every_mesh(mesh):
    one, here = ran(point_of("1/1")), ran(point_of(mesh))
    for expected, found in zip(one.initial, here.initial, strict=True):
        np.testing.assert_array_equal(expected, found)


@pytest.mark.parametrize("mesh", MESHES)
def test_all_of_the_state_is_committed_to_the_mesh_before_and_after(mesh):
    here = ran(point_of(mesh))
    devices = set(here.step.mesh.devices.flat)
    for first, last in zip(
        jax.tree.leaves(here.donated), jax.tree.leaves(here.final), strict=True
    ):
        assert first.committed
        assert first.sharding.device_set == devices
        assert first.sharding.is_equivalent_to(last.sharding, last.ndim)


def test_moments_lie_where_their_parameters_do():
    state = ran(point_of("1/data=2,fsdp=2,tensor=2")).final
    adam = state.moments[0]
    for moment in (adam.mu, adam.nu):
        same = jax.tree.map(lambda p, m: p.sharding == m.sharding, state.params, moment)
        assert all(jax.tree.leaves(same))
    assert adam.count.sharding.is_fully_replicated
    assert not any(x.sharding.is_fully_replicated for x in jax.tree.leaves(adam.mu))


@pytest.mark.parametrize(("mesh", "shards"), [("1/data=8", 1), ("1/fsdp=8", 8)])
def test_state_bytes_per_device(mesh, shards):
    here = ran(point_of(mesh))
    found = state_bytes_per_device(here.final)
    # Parameters and two moments in float32, split as evenly as the mesh allows.
    ideal = 3 * 4 * num_parameters(MINUTE) / shards
    assert ideal <= found <= 1.1 * ideal
    assert found == state_bytes_per_device(here.step.abstract_state)
    assert found == sum(
        shard.data.nbytes
        for leaf in jax.tree.leaves(here.final)
        for shard in leaf.addressable_shards
        if shard.device == here.step.mesh.devices.flat[0]
    )


def test_the_state_is_donated():
    donated = ran(point_of("1/fsdp=8")).donated
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(donated))


def test_a_batch_that_lies_otherwise_is_refused():
    here = ran(point_of("1/data=8"))
    batch = jax.device_put(tokens(), named_sharding(here.step.mesh, ()))
    with pytest.raises(ValueError, match="sharding"):
        here.compiled(here.final, batch)


@pytest.mark.parametrize(
    ("mesh", "accumulation"), [("1/data=8", 4), ("1/data=2,fsdp=2", 8)]
)
def test_micro_batches_that_do_not_divide_are_refused(mesh, accumulation):
    with pytest.raises(ValueError, match=f"accumulation {accumulation}"):
        step_of(point_of(mesh, accumulation=accumulation))


def test_the_matmul_form_is_the_points_not_the_attached_devices():
    assert "cpu" in jax.devices()[0].device_kind
    assert train._model(point_of()).computation.matmul_form == "flat"
    on_tpu = train._model(point_of(chip="v5e"))
    assert on_tpu.computation.matmul_form == "plain"


def test_loss_is_the_mean_cross_entropy():
    logits = jax.random.normal(jax.random.key(0), (3, 5, 7), jnp.bfloat16) * 4
    targets = jax.random.randint(jax.random.key(1), (3, 5), 0, 7)
    expected = optax.softmax_cross_entropy_with_integer_labels(
        logits.astype(jnp.float32), targets
    ).mean()
    found = next_token_loss(logits, targets)
    assert found.dtype == jnp.float32
    assert float(found) == pytest.approx(float(expected), rel=1e-6)


def test_loss_leaves_logits_sharded_along_the_vocabulary():
    mesh = build_mesh(MeshSpec.parse("1/tensor=8"))
    logits = jax.ShapeDtypeStruct(
        (2, 4, 64),
        jnp.float32,
        sharding=named_sharding(mesh, ("batch", "seq", "vocab")),
    )
    targets = jax.ShapeDtypeStruct(
        (2, 4), jnp.int32, sharding=named_sharding(mesh, ("batch", "seq"))
    )
    with jax.set_mesh(mesh):
        program = jax.jit(next_token_loss).lower(logits, targets).compile().as_text()
    assert "all-gather" not in program
    assert "all-reduce" in program
