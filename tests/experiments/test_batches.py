"""Batches on eight CPU devices; over two processes see test_two_processes."""

import itertools
from pathlib import Path

import jax
import numpy as np
import pytest

from experiments import batches as batches_module
from experiments.batches import batches
from experiments.batches import local_rows
from experiments.corpora import find_corpus
from experiments.data import prepare
from experiments.text_dataset import open_records
from meshes.build import build_mesh
from meshes.build import named_sharding
from scaling.point import Point

MESHES = ("1/1", "1/data=8", "1/data=2,fsdp=2,tensor=2", "1/tensor=4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    prepare(point_of(), folder)
    return folder


def point_of(mesh: str = "1/1", **fields: object) -> Point:
    return Point.model_validate(
        {
            "model": "tiny",
            "chip": "cpu",
            "mesh": mesh,
            "global_batch_size": 16,
            "seq_len": 32,
            **fields,
        }
    )


def mesh_of(point: Point) -> jax.sharding.Mesh:
    return build_mesh(point.mesh, jax.devices()[: point.mesh.num_devices])


def first(point: Point, folder: Path, count: int, start_step: int = 0) -> list:
    found = batches(point, folder, mesh_of(point), start_step)
    return [np.asarray(batch) for batch in itertools.islice(found, count)]


@pytest.mark.parametrize("data", ["text", "synthetic"])
@pytest.mark.parametrize("mesh", MESHES[1:])
def test_a_step_has_the_same_batch_on_every_mesh(data, mesh, folder):
    expected = first(point_of(data=data), folder, 3)
    found = first(point_of(mesh, data=data), folder, 3)
    np.testing.assert_array_equal(expected, found)
    assert not np.array_equal(expected[0], expected[1])


@pytest.mark.parametrize("mesh", MESHES)
def test_shape_dtype_and_layout(mesh, folder):
    point = point_of(mesh)
    built = mesh_of(point)
    batch = next(batches(point, folder, built))
    assert (batch.shape, batch.dtype) == ((16, 33), np.int32)
    assert batch.sharding == named_sharding(built, ("batch",))
    assert batch.committed


@pytest.mark.parametrize("data", ["text", "synthetic"])
def test_resuming_gives_the_batches_that_would_have_come(data, folder):
    point = point_of("1/data=2", data=data)
    whole = first(point, folder, 7)
    np.testing.assert_array_equal(whole[4:], first(point, folder, 3, start_step=4))


def test_an_epoch_reads_every_record_once_and_the_next_in_another_order(folder):
    point = point_of("1/data=4", seq_len=256)
    prepare(point, folder)
    source = open_records(find_corpus("text", folder), seq_len=256, folder=folder)
    count = len(source)
    # An epoch that ends within a batch is the harder case.
    batch = next(size for size in (16, 12, 20) if count % size)
    point = point.model_copy(update={"global_batch_size": batch})
    rows = np.concatenate(first(point, folder, 2 * count // batch + 1))
    rows = rows.astype(np.uint8)
    records = sorted(source[i]["tokens"].tobytes() for i in range(count))
    for epoch in (rows[:count], rows[count : 2 * count]):
        assert sorted(row.tobytes() for row in epoch) == records
    assert not np.array_equal(rows[:count], rows[count : 2 * count])


def test_the_seed_decides_the_order(folder):
    one, same, other = (first(point_of(seed=seed), folder, 1)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_the_rows_of_a_process_are_those_its_devices_hold():
    class OneProcessOfTwo:
        """A sharding of 8 rows of which this process holds every second pair, twice."""

        def addressable_devices_indices_map(self, shape):
            assert shape == (8, 5)
            rows = [slice(0, 2), slice(4, 6), slice(0, 2), slice(4, 6)]
            return {n: (row, slice(None)) for n, row in enumerate(rows)}

    assert local_rows(OneProcessOfTwo(), (8, 5)).tolist() == [0, 1, 4, 5]


def test_only_the_rows_of_this_process_are_read(folder, monkeypatch):
    monkeypatch.setattr(batches_module, "local_rows", lambda *_: np.array([3, 5]))
    read = []
    monkeypatch.setattr(
        batches_module,
        "_record_reader",
        lambda *_: lambda i: read.append(i) or np.zeros(33, np.int32),
    )
    monkeypatch.setattr(batches_module, "_on_mesh", lambda local, *_: local)
    point = point_of()
    local = batches(point, folder, mesh_of(point), start_step=2)
    assert next(local).shape == (2, 33)
    assert read[:2] == [2 * 16 + 3, 2 * 16 + 5]


def test_synthetic_tokens_cover_the_vocabulary_and_need_no_files(tmp_path):
    point = point_of(data="synthetic", global_batch_size=64)
    batch = first(point, tmp_path / "missing", 1)[0]
    assert (batch.min(), batch.max()) == (0, 511)
    assert len({row.tobytes() for row in batch}) == 64


def test_unprepared_data_says_how_to_prepare_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"experiments\.data"):
        first(point_of(), tmp_path, 1)


def test_a_vocabulary_below_256_is_refused_before_anything_is_read(folder, monkeypatch):
    small = batches_module.MODELS["tiny"].model_copy(update={"vocab_size": 255})
    monkeypatch.setitem(batches_module.MODELS, "tiny", small)
    with pytest.raises(ValueError, match=r"ids up to 255, .* vocabulary of 255"):
        batches(point_of(), folder, mesh_of(point_of()))


def test_a_token_id_beyond_the_vocabulary_is_refused_when_it_comes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(
        batches_module,
        "_record_reader",
        lambda *_: lambda i: np.full(33, 511 + i // 16, np.int32),
    )
    found = batches(point_of(), tmp_path, mesh_of(point_of()))
    with pytest.raises(ValueError, match=r"ids up to 5.., .* vocabulary of 512"):
        list(itertools.islice(found, 3))


def test_the_next_batch_is_on_its_way_before_it_is_asked_for(folder, monkeypatch):
    made = []
    make = batches_module._global_array

    def noted(*arguments):
        made.append(1)
        return make(*arguments)

    monkeypatch.setattr(batches_module, "_global_array", noted)
    found = batches(point_of(), folder, mesh_of(point_of()))
    next(found)
    assert len(made) == 2
