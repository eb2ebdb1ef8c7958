import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds

from experiments.corpora import find_corpus


class Sample(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A dataset as a user may have prepared one."""

    VERSION = tfds.core.Version("1.0.0")
    url_infos: Any = {}  # noqa: RUF012

    def __init__(self, features: dict, records: list[dict], **kwargs: Any):
        self._features = features
        self._records = records
        super().__init__(**kwargs)

    def _info(self):
        features = tfds.features.FeaturesDict(self._features)
        return tfds.core.DatasetInfo(
            builder=self, features=features, disable_shuffling=True
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        yield from enumerate(self._records)


def prepare(folder: Path, features: dict, records: list[dict]) -> Path:
    builder = Sample(features, records, data_dir=folder, file_format="array_record")
    builder.download_and_prepare()
    return Path(builder.data_path)


TEXT = tfds.features.Text()
IDS = tfds.features.Sequence(np.int32)


def test_the_default_text_is_what_python_ships(tmp_path):
    corpus = find_corpus("text", tmp_path)
    documents = [document.tobytes() for document in corpus.documents()]
    assert corpus.vocab_size == 256
    assert len(b"".join(documents)) > 400_000
    assert all(d.endswith(b"\0") and b"\0" not in d[:-1] for d in documents)
    assert any(b'The "if" statement' in document for document in documents)
    again = find_corpus("text", tmp_path)
    assert again.fingerprint == corpus.fingerprint
    assert [d.tobytes() for d in again.documents()] == documents


def test_a_python_without_the_text_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(ValueError, match="data=synthetic"):
        find_corpus("text", tmp_path)


def test_text_files(tmp_path):
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.txt").write_text("first é")
    (tmp_path / "c.dat").write_text("not text")
    folder = find_corpus(f"text:{tmp_path}", tmp_path)
    found = [document.tobytes() for document in folder.documents()]
    assert found == ["first é\0".encode(), b"second\0"]
    one = find_corpus(f"text:{tmp_path / 'b.txt'}", tmp_path)
    assert [document.tobytes() for document in one.documents()] == [b"second\0"]
    assert one.fingerprint != folder.fingerprint
    assert "/" not in folder.file_name


def test_the_fingerprint_tells_documents_apart_not_only_their_bytes(tmp_path):
    prints = set()
    for number, texts in enumerate([("ab", "c"), ("a", "bc"), ("abc",)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for index, text in enumerate(texts):
            (folder / f"{index}.txt").write_text(text)
        prints.add(find_corpus(f"text:{folder}", tmp_path).fingerprint)
    assert len(prints) == 3


def test_no_text_there(tmp_path):
    with pytest.raises(ValueError, match="neither a text file nor a folder"):
        find_corpus(f"text:{tmp_path / 'missing'}", tmp_path)


def test_a_dataset_with_text(tmp_path):
    records = [{"text": "one", "label": 1}, {"text": "two", "label": 0}]
    label = tfds.features.ClassLabel(num_classes=2)
    prepare(tmp_path, {"text": TEXT, "label": label}, records)
    corpus = find_corpus("sample", tmp_path)
    assert [d.tobytes() for d in corpus.documents()] == [b"one\0", b"two\0"]
    assert corpus.vocab_size == 256


def test_a_dataset_with_tokens_keeps_their_ids(tmp_path):
    records = [{"tokens": [1, 70_000], "text": "x"}, {"tokens": [3], "text": "y"}]
    prepare(tmp_path, {"tokens": IDS, "text": TEXT}, records)
    corpus = find_corpus("sample:1.0.0", tmp_path)
    assert [d.tolist() for d in corpus.documents()] == [[1, 70_000], [3]]
    assert corpus.vocab_size is None


def test_the_only_text_of_a_dataset_is_taken_whatever_its_name(tmp_path):
    prepare(tmp_path, {"review": TEXT, "ids": IDS}, [{"review": "r", "ids": [1]}])
    documents = find_corpus("sample", tmp_path).documents()
    assert [d.tobytes() for d in documents] == [b"r\0"]


def test_a_dataset_with_two_texts_is_not_guessed_at(tmp_path):
    prepare(tmp_path, {"title": TEXT, "body": TEXT}, [{"title": "t", "body": "b"}])
    with pytest.raises(ValueError, match=r"it has \['body', 'title'\]"):
        find_corpus("sample", tmp_path)


def test_another_file_format_is_refused_before_it_is_read(tmp_path):
    folder = prepare(tmp_path, {"text": TEXT}, [{"text": "one"}])
    description = folder / "dataset_info.json"
    text = description.read_text().replace('"array_record"', '"tfrecord"')
    description.write_text(text)
    with pytest.raises(ValueError, match="again with file_format='array_record'"):
        find_corpus("sample", tmp_path)


def test_an_unknown_name(tmp_path):
    with pytest.raises(ValueError, match="data 'tekst' is not 'text'"):
        find_corpus("tekst", tmp_path)


def test_a_name_that_tfds_cannot_read_is_told_in_its_words(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be used .* Bad Name failed\."):
        find_corpus("Bad Name", tmp_path)


def test_a_version_that_a_dataset_does_not_have_is_told_in_its_words(tmp_path):
    said = r"cannot be used as a TFDS dataset: .* version 9\.9\.9, only"
    with pytest.raises(ValueError, match=said):
        find_corpus("mnist:9.9.9", tmp_path)


def test_a_dataset_that_is_not_prepared_is_said_to_be_one(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "own"))
    with pytest.raises(ValueError, match="TFDS dataset: not prepared under"):
        find_corpus("mnist", tmp_path)
