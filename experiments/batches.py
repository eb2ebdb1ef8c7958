"""Batches: token rows on the mesh, the same rows in a step whatever the mesh is.

Row r of step s is record `s * global_batch + r` of the shuffled, repeated records, so
the global batch of a step depends on neither mesh nor process count, and a run
resumes at any step. Each process reads just the rows that its devices hold.
"""

import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain
import jax
import numpy as np

from experiments.corpora import find_corpus
from experiments.protocol import SYNTHETIC
from experiments.text_dataset import open_records
from meshes.build import named_sharding
from models.presets import MODELS
from scaling.point import Point

ReadRecord = Callable[[int], np.ndarray]
"""Returns record i, `[seq_len + 1]` token ids, for every i from 0."""


def batches(
    point: Point, folder: Path | str, mesh: jax.sharding.Mesh, start_step: int = 0
) -> Iterator[jax.Array]:
    """Returns the batches from `start_step` on, without end.

    Each is int32 `[global_batch, seq_len + 1]`, its rows laid over the mesh; the one
    after it is already on its way. Raises ValueError where the model's vocabulary is
    too small for the data.
    """
    read_record = _record_reader(point, Path(folder))
    sharding = named_sharding(mesh, ("batch",))
    shape = (point.global_batch_size, point.seq_len + 1)
    rows = local_rows(sharding, shape)

    def read_rows(step: int) -> np.ndarray:
        first = step * point.global_batch_size
        records = [read_record(first + int(row)) for row in rows]
        return _checked(np.stack(records).astype(np.int32), point)

    steps = grain.MapDataset.range(start_step, sys.maxsize).map(read_rows)
    return _on_mesh(iter(steps.to_iter_dataset(_read_options())), rows, sharding, shape)


def local_rows(sharding: jax.sharding.Sharding, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the global rows that this process's devices hold, each once, sorted."""
    indices = sharding.addressable_devices_indices_map(shape).values()
    return np.unique(np.concatenate([_rows(index, shape[0]) for index in indices]))


def _record_reader(point: Point, folder: Path) -> ReadRecord:
    if point.data == SYNTHETIC:
        return _synthetic_reader(point)
    corpus = find_corpus(point.data, folder)
    model_vocab = MODELS[point.model].vocab_size
    if corpus.vocab_size is not None and corpus.vocab_size > model_vocab:
        raise ValueError(_vocab_message(point, corpus.vocab_size - 1))
    source = open_records(corpus, seq_len=point.seq_len, folder=folder)
    # The shuffle comes before the repetition: no epoch mixes with the next.
    records: Any = grain.MapDataset.source(source).shuffle(seed=point.seed).repeat()
    return lambda index: records[index]["tokens"]


def _synthetic_reader(point: Point) -> ReadRecord:
    vocab_size = MODELS[point.model].vocab_size

    def read(index: int) -> np.ndarray:
        # A counter-based generator is keyed by record, so any one costs the same.
        bits = np.random.Philox(key=np.array([point.seed, index], dtype=np.uint64))
        generator = np.random.Generator(bits)
        return generator.integers(vocab_size, size=point.seq_len + 1, dtype=np.int32)

    return read


def _checked(rows: np.ndarray, point: Point) -> np.ndarray:
    largest = int(rows.max())
    if largest >= MODELS[point.model].vocab_size:
        raise ValueError(_vocab_message(point, largest))
    return rows


def _vocab_message(point: Point, largest: int) -> str:
    return (
        f"data {point.data!r} has token ids up to {largest}, but model "
        f"{point.model!r} has a vocabulary of {MODELS[point.model].vocab_size}"
    )


def _read_options() -> grain.ReadOptions:
    # One item is a whole batch, so that a few in flight are enough.
    num_threads = min(8, len(os.sched_getaffinity(0)))
    return grain.ReadOptions(
        num_threads=num_threads, prefetch_buffer_size=2 * num_threads
    )


def _on_mesh(
    local_batches: Iterator[np.ndarray],
    rows: np.ndarray,
    sharding: jax.sharding.NamedSharding,
    shape: tuple[int, ...],
) -> Iterator[jax.Array]:
    """Yields global arrays, always with the next one's transfer already begun."""
    pending = _global_array(next(local_batches), rows, sharding, shape)
    for local_batch in local_batches:
        ready, pending = pending, _global_array(local_batch, rows, sharding, shape)
        yield ready


def _global_array(
    local_batch: np.ndarray,
    rows: np.ndarray,
    sharding: jax.sharding.NamedSharding,
    shape: tuple[int, ...],
) -> jax.Array:
    def shard(index: tuple[slice, ...] | None) -> np.ndarray:
        return local_batch[np.searchsorted(rows, _rows(index, shape[0]))]

    return jax.make_array_from_callback(shape, sharding, shard)


def _rows(index: tuple[slice, ...] | None, count: int) -> np.ndarray:
    """Returns the rows of a shard; without an index it is the whole array."""
    return np.arange(count)[slice(None) if index is None else index[0]]
