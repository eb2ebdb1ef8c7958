"""Corpus: documents as token arrays, and a fingerprint that changes when they do.

`text` is the help text that every CPython ships, `text:PATH` any text file or folder
of them; every other name is a TFDS dataset that is prepared as array_record. Text
becomes bytes, so 256 token ids do; byte 0 ends each document.
"""

import hashlib
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

BYTE_VOCAB_SIZE = 256
_FEATURES = ("tokens", "text")
_END_OF_DOCUMENT = b"\0"


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Documents in a fixed order; nothing is read until they are asked for."""

    data: str
    """Its name in `Point.data`."""
    fingerprint: str
    """Hex digits that differ wherever the documents do."""
    dtype: type[np.uint8] | type[np.int32]
    """uint8 for bytes, int32 for token ids that somebody else chose."""
    documents: Callable[[], Iterator[np.ndarray]]
    """Yields each document as `[length]` of `dtype`."""

    @property
    def file_name(self) -> str:
        """What it is stored under; letters, digits, `_`, `-` and `.`."""
        return "".join(c if c.isalnum() or c in "_-." else "_" for c in self.data)

    @property
    def vocab_size(self) -> int | None:
        """Token ids are below this; None where only reading them would tell."""
        return BYTE_VOCAB_SIZE if self.dtype is np.uint8 else None


def find_corpus(data: str, folder: Path) -> Corpus:
    """Returns the corpus that `Point.data` names.

    TFDS datasets are looked for in `folder` and in TFDS's own data folder. Raises
    ValueError with one sentence where the text or the dataset cannot be used.
    """
    if data == "text":
        return _of_texts(data, _python_topics())
    if data.startswith("text:"):
        path = Path(data.removeprefix("text:")).expanduser()
        return _of_texts(data, _read_texts(path))
    return _of_dataset(data, folder)


def _of_texts(data: str, texts: list[bytes]) -> Corpus:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text + _END_OF_DOCUMENT)
    return Corpus(
        data=data,
        fingerprint=digest.hexdigest(),
        dtype=np.uint8,
        documents=lambda: map(_as_bytes, texts),
    )


def _as_bytes(text: bytes) -> np.ndarray:
    return np.frombuffer(text + _END_OF_DOCUMENT, dtype=np.uint8)


def _python_topics() -> list[bytes]:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise ValueError(
            "this Python was packaged without pydoc_data, which data 'text' is made "
            "of; name a text with data=text:PATH or use data=synthetic"
        ) from error
    return [topics[key].encode() for key in sorted(topics)]


def _read_texts(path: Path) -> list[bytes]:
    files = [path] if path.is_file() else sorted(path.rglob("*.txt"))
    if not files:
        raise ValueError(
            f"data 'text:{path}' is neither a text file nor a folder with *.txt files"
        )
    return [file.read_bytes() for file in files]


def _of_dataset(data: str, folder: Path) -> Corpus:
    builder = _prepared_builder(data, folder)
    feature = _feature(data, builder)
    is_text = isinstance(builder.info.features[feature], tfds.features.Text)
    source = builder.as_data_source(split="train")
    description = (builder.data_path / "dataset_info.json").read_bytes()

    def documents() -> Iterator[np.ndarray]:
        for record in source:
            value = record[feature]
            yield _as_bytes(value) if is_text else np.asarray(value, dtype=np.int32)

    return Corpus(
        data=data,
        fingerprint=hashlib.sha256(description + feature.encode()).hexdigest(),
        dtype=np.uint8 if is_text else np.int32,
        documents=documents,
    )


def _prepared_builder(data: str, folder: Path) -> Any:
    problem = None
    for data_dir in (str(folder), None):
        try:
            builder = tfds.builder(data, data_dir=data_dir)
        except tfds.core.DatasetNotFoundError:
            continue
        # TFDS answers an unknown version with an AssertionError.
        except (ValueError, AssertionError) as error:
            problem = " ".join(str(error).split())
            continue
        if builder.is_prepared():
            return _checked_format(data, builder)
        problem = f"not prepared under {folder} or TFDS's own data folder"
    if problem is not None:
        raise ValueError(f"data {data!r} cannot be used as a TFDS dataset: {problem}")
    raise ValueError(
        f"data {data!r} is not 'text', 'text:PATH', 'synthetic' or a TFDS dataset "
        f"prepared under {folder} or TFDS's own data folder"
    )


def _checked_format(data: str, builder: Any) -> Any:
    file_format = builder.info.file_format.value
    if file_format != "array_record":
        raise ValueError(
            f"data {data!r} is prepared as {file_format}, which has no random access; "
            "prepare it again with file_format='array_record'"
        )
    if "train" not in builder.info.splits:
        raise ValueError(
            f"data {data!r} has no split 'train'; it has {sorted(builder.info.splits)}"
        )
    return builder


def _feature(data: str, builder: Any) -> str:
    """Returns the feature to train on: `tokens`, `text`, or the only text there is."""
    features = builder.info.features
    usable = [name for name in features if _is_text_or_tokens(features[name])]
    named = [name for name in _FEATURES if name in usable]
    texts = [n for n in usable if isinstance(features[n], tfds.features.Text)]
    if named or len(texts) == 1:
        return (named or texts)[0]
    raise ValueError(
        f"data {data!r} has no feature 'tokens' or 'text' and not exactly one text "
        f"feature; it has {sorted(features)}"
    )


def _is_text_or_tokens(feature: Any) -> bool:
    if isinstance(feature, tfds.features.Text):
        return True
    return len(feature.shape) == 1 and np.issubdtype(feature.np_dtype, np.integer)
