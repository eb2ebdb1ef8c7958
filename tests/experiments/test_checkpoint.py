"""Checkpoints on eight CPU devices, of a state with parameters, moments and scalars."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.checkpoint import Checkpoints
from experiments.train import TrainState
from experiments.train import TrainStep
from experiments.train import build_step
from meshes.build import build_mesh
from models.config import ModelConfig
from models.presets import MODELS
from scaling.point import Point

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


@pytest.fixture(scope="module", autouse=True)
def minute() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "minute", MINUTE)
        yield


def step_of(mesh: str) -> TrainStep:
    point = Point.model_validate(
        {
            "model": "minute",
            "chip": "cpu",
            "mesh": mesh,
            "global_batch_size": 8,
            "seq_len": 16,
        }
    )
    devices = jax.devices()[: point.mesh.num_devices]
    return build_step(point, build_mesh(point.mesh, devices))


@pytest.fixture
def state(minute: None) -> TrainState:
    """A state on `1/fsdp=8` whose every array differs from every other."""
    zeros = step_of("1/fsdp=8").abstract_state
    leaves, structure = jax.tree.flatten(zeros)
    generator = np.random.default_rng(0)
    return jax.tree.unflatten(
        structure,
        [
            jax.device_put(
                generator.integers(1 << 20, size=leaf.shape).astype(leaf.dtype),
                leaf.sharding,
            )
            for leaf in leaves
        ],
    )


def test_a_state_is_restored_onto_another_mesh(state, tmp_path):
    expected = [np.array(leaf) for leaf in jax.tree.leaves(state)]
    checkpoints = Checkpoints(tmp_path / "run")
    checkpoints.save(3, state)
    # As the next step does, while the state is still being written.
    for leaf in jax.tree.leaves(state):
        leaf.delete()
    checkpoints.close()

    wanted = step_of("1/data=2,fsdp=2,tensor=2").abstract_state
    restored = Checkpoints(tmp_path / "run").restore(3, wanted)
    assert jax.tree.structure(restored) == jax.tree.structure(wanted)
    leaves = jax.tree.leaves(restored)
    for value, leaf, target in zip(
        expected, leaves, jax.tree.leaves(wanted), strict=True
    ):
        np.testing.assert_array_equal(value, leaf)
        assert (leaf.dtype, leaf.sharding) == (target.dtype, target.sharding)


def test_another_dtype_is_refused_not_converted(state, tmp_path):
    checkpoints = Checkpoints(tmp_path / "run")
    checkpoints.save(1, state)
    checkpoints.close()
    halved = step_of("1/fsdp=8").abstract_state
    wanted = halved._replace(
        params=jax.tree.map(lambda p: p.update(dtype=jnp.bfloat16), halved.params)
    )
    with pytest.raises(ValueError, match="stored as float32 and wanted as bfloat16"):
        Checkpoints(tmp_path / "run").restore(1, wanted)


def test_only_the_newest_are_kept(state, tmp_path):
    checkpoints = Checkpoints(tmp_path / "run")
    for step in (1, 2, 3, 4):
        checkpoints.save(step, state)
    checkpoints.close()
    kept = sorted(int(folder.name) for folder in (tmp_path / "run").iterdir())
    assert kept == [3, 4]
    assert checkpoints.blocked_s > 0


def test_a_checkpoint_that_is_not_there_in_the_end_fails_the_run(state, tmp_path):
    checkpoints = Checkpoints(tmp_path / "run")
    checkpoints.save(1, state)
    checkpoints._manager.wait_until_finished()
    shutil.rmtree(tmp_path / "run" / "1")
    with pytest.raises(RuntimeError, match="step 1 was not written"):
        checkpoints.close()


def test_a_relative_folder_is_made_absolute(state, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoints = Checkpoints(Path("run"))
    checkpoints.save(1, state)
    checkpoints.close()
    assert (tmp_path / "run" / "1").is_dir()
