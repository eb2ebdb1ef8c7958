import errno
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
from hypothesis import given
from hypothesis import strategies

from experiments import text_dataset
from experiments.corpora import Corpus
from experiments.corpora import find_corpus
from experiments.text_dataset import open_records
from experiments.text_dataset import pack
from experiments.text_dataset import prepare_records
from experiments.text_dataset import records_path


def corpus_of(text: str, data: str = "text:here") -> Corpus:
    tokens = np.frombuffer(text.encode(), np.uint8)
    return Corpus(
        data=data,
        fingerprint=tokens.tobytes().hex()[:32],
        dtype=np.uint8,
        documents=lambda: iter([tokens]),
    )


def read(corpus: Corpus, folder: Path, seq_len: int) -> list[bytes]:
    source = open_records(corpus, seq_len=seq_len, folder=folder)
    return [source[i]["tokens"].tobytes() for i in range(len(source))]


@given(
    strategies.lists(strategies.lists(strategies.integers(0, 255))),
    strategies.integers(1, 9),
)
def test_packing_makes_every_token_a_target_once(documents, seq_len):
    arrays = [np.array(document, np.uint8) for document in documents]
    stream = [token for document in documents for token in document]
    records = list(pack(arrays, seq_len=seq_len))
    assert len(records) == max(0, len(stream) - 1) // seq_len
    targets = [token for record in records for token in record[1:].tolist()]
    inputs = [token for record in records for token in record[:-1].tolist()]
    assert targets == stream[1 : 1 + len(targets)]
    assert inputs == stream[: len(inputs)]
    assert len(stream) - 1 - len(targets) < seq_len or not stream


def test_records_come_back_in_order(tmp_path):
    corpus = corpus_of("abcdefghij")
    prepare_records(corpus, seq_len=3, folder=tmp_path)
    assert read(corpus, tmp_path, 3) == [b"abcd", b"defg", b"ghij"]


def test_preparing_twice_writes_once(tmp_path):
    corpus = corpus_of("abcdefghij")
    folder = prepare_records(corpus, seq_len=3, folder=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert prepare_records(corpus, seq_len=3, folder=tmp_path) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_other_text_or_length_is_never_read_from_old_records(tmp_path):
    old, new = corpus_of("abcdefghij"), corpus_of("ABCDEFGHIJ")
    prepare_records(old, seq_len=3, folder=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"experiments\.data"):
        open_records(new, seq_len=3, folder=tmp_path)
    with pytest.raises(FileNotFoundError):
        open_records(old, seq_len=4, folder=tmp_path)
    prepare_records(new, seq_len=3, folder=tmp_path)
    assert read(new, tmp_path, 3)[0] == b"ABCD"
    assert read(old, tmp_path, 3)[0] == b"abcd"


def test_an_interrupted_preparation_leaves_nothing_that_is_read(tmp_path, monkeypatch):
    corpus = corpus_of("abcdefghij")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(text_dataset.os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare_records(corpus, seq_len=3, folder=tmp_path)
    assert not records_path(corpus, seq_len=3, folder=tmp_path).exists()
    prepare_records(corpus, seq_len=3, folder=tmp_path)
    assert len(read(corpus, tmp_path, 3)) == 3


def test_the_second_of_two_writers_leaves_the_first_ones_records(tmp_path, monkeypatch):
    corpus = corpus_of("abcdefghij")
    write = text_dataset._write

    def overtaken(*arguments: object) -> Path:
        folder = write(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(text_dataset, "_write", write)
            prepare_records(corpus, seq_len=3, folder=tmp_path)
        return folder

    monkeypatch.setattr(text_dataset, "_write", overtaken)
    prepare_records(corpus, seq_len=3, folder=tmp_path)
    assert read(corpus, tmp_path, 3) == [b"abcd", b"defg", b"ghij"]
    assert [path.name for path in tmp_path.iterdir()] == ["text_tokens"]


def test_two_processes_at_once(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    arguments = {"seq_len": 64, "folder": tmp_path}
    corpus = find_corpus("text", tmp_path)
    processes = [spawn.Process(target=_prepare_text, args=[tmp_path]) for _ in "ab"]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(timeout=300)
    finally:
        for process in processes:
            process.kill()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(open_records(corpus, **arguments)) > 5000


def _prepare_text(folder: Path) -> None:
    prepare_records(find_corpus("text", folder), seq_len=64, folder=folder)


def test_what_a_killed_preparation_has_left_is_removed_and_nothing_else(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    killed = spawn.Process(target=_begin, args=[tmp_path, ready])
    killed.start()
    try:
        assert ready.wait(timeout=120)
        (scratch,) = tmp_path.glob(".preparing-*")
        # One that is at work keeps what it writes.
        prepare_records(corpus_of("abcdefghij"), seq_len=3, folder=tmp_path)
        assert list(tmp_path.glob(".preparing-*")) == [scratch]
    finally:
        killed.kill()
        killed.join(timeout=60)
    assert scratch.is_dir()
    prepare_records(corpus_of("ABCDEFGHIJ"), seq_len=3, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["text_tokens"]


def _begin(folder: Path, ready: Any) -> None:
    def at_work(*_: object) -> Path:
        ready.set()
        time.sleep(3600)
        raise AssertionError

    text_dataset._write = at_work
    prepare_records(corpus_of("klmnopqrst"), seq_len=3, folder=folder)


def test_where_no_locks_are_kept_records_are_written_all_the_same(
    tmp_path, monkeypatch
):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    abandoned = tmp_path / ".preparing-x"
    abandoned.mkdir()
    monkeypatch.setattr(text_dataset.fcntl, "flock", flock)
    prepare_records(corpus_of("abcdefghij"), seq_len=3, folder=tmp_path)
    assert abandoned.is_dir(), "nobody can tell whether it is in use"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".preparing-x",
        "text_tokens",
    ]


def test_too_little_text_is_refused(tmp_path):
    with pytest.raises(ValueError, match="fewer than the 11 tokens"):
        prepare_records(corpus_of("abcdefghij"), seq_len=10, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_large_corpus_is_cut_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(text_dataset, "MAX_TOKENS", 6)
    corpus = corpus_of("abcdefghij")
    prepare_records(corpus, seq_len=3, folder=tmp_path)
    assert read(corpus, tmp_path, 3) == [b"abcd", b"defg"]
    assert "cut at 6 tokens" in caplog.text


def test_it_is_an_array_record_dataset_that_tfds_finds(tmp_path):
    folder = prepare_records(corpus_of("abcdefghij"), seq_len=3, folder=tmp_path)
    name = f"text_tokens/{folder.parent.name}"
    builder = tfds.builder(name, data_dir=tmp_path)
    assert builder.info.file_format.value == "array_record"
    assert builder.info.splits["train"].num_examples == 3
