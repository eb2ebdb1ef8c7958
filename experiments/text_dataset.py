"""TextTokens: a corpus packed into records of one length, stored by TFDS.

Record i holds the tokens from i*T to i*T+T of all documents laid end to end, T+1 of
them: inputs are the first T, targets the last T, and every token of the corpus but
the first and an incomplete tail is a target exactly once. The files are array_record,
which needs no TensorFlow and reads any record at once.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from experiments.corpora import Corpus

MAX_TOKENS = 2**28
"""Tokens that are packed at most: more than a scaling run reads, and 256 MiB as
bytes; the rest of a larger dataset is left out, which the log then says."""

_VERSION = "1.0.0"
_SCRATCH = ".preparing-"


class TextTokens(
    tfds.core.GeneratorBasedBuilder,
    skip_registration=True,  # pyright: ignore[reportCallIssue, reportGeneralTypeIssues]
):
    """Records `{"tokens": [seq_len + 1]}` in document order."""

    VERSION = tfds.core.Version(_VERSION)
    url_infos: Any = {}  # noqa: RUF012 (as TFDS has it)
    """Nothing is downloaded. TFDS would look for a list of checksums beside this file,
    by way of a package that it does not ask to be installed (importlib_resources)."""

    def __init__(self, *, corpus: Corpus, seq_len: int, **kwargs: Any):
        self._corpus = corpus
        self._seq_len = seq_len
        super().__init__(**kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        tokens = tfds.features.Tensor(
            shape=(self._seq_len + 1,), dtype=self._corpus.dtype, encoding="bytes"
        )
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({"tokens": tokens}),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        del dl_manager  # The corpus is local.
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        records = pack(self._corpus.documents(), seq_len=self._seq_len)
        limit = max(1, MAX_TOKENS // self._seq_len)
        for key, record in enumerate(records):
            if key == limit:
                logging.warning("%s cut at %d tokens", self._corpus.data, MAX_TOKENS)
                return
            yield key, {"tokens": record}


def pack(documents: Iterable[np.ndarray], *, seq_len: int) -> Iterator[np.ndarray]:
    """Yields `[seq_len + 1]` windows of the documents laid end to end.

    Neighbours share one token: the last target of one is the first input of the next.
    """
    pending: list[np.ndarray] = []
    num_pending = 0
    for document in documents:
        pending.append(document)
        num_pending += len(document)
        if num_pending <= seq_len:
            continue
        stream = np.concatenate(pending)
        starts = range(0, len(stream) - seq_len, seq_len)
        for start in starts:
            yield stream[start : start + seq_len + 1]
        pending = [stream[starts[-1] + seq_len :]]
        num_pending = len(pending[0])


def prepare_records(corpus: Corpus, *, seq_len: int, folder: Path) -> Path:
    """Writes the records of a corpus unless they are there; returns their folder.

    They are written aside and renamed, so readers see all of them or none, and of two
    writers at once the first to end wins. What writers that were killed have left is
    removed. Raises ValueError where the corpus is shorter than one record.
    """
    target = records_path(corpus, seq_len=seq_len, folder=folder)
    if target.exists():
        return target
    if next(pack(corpus.documents(), seq_len=seq_len), None) is None:
        raise ValueError(
            f"data {corpus.data!r} holds fewer than the {seq_len + 1} tokens of one "
            "record; choose a shorter seq_len or more text"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with _scratch(folder) as scratch:
        _move_into_place(_write(corpus, seq_len, scratch), target)
    return target


def open_records(corpus: Corpus, *, seq_len: int, folder: Path) -> Any:
    """Returns the data source of prepared records: `source[i]["tokens"]`.

    Raises FileNotFoundError, with the command that prepares them, if there are none.
    """
    path = records_path(corpus, seq_len=seq_len, folder=folder)
    if not path.exists():
        raise FileNotFoundError(
            f"no token records in {path}; prepare them with `python -P -m "
            f"experiments.data {folder} {seq_len} {corpus.data}`"
        )
    builder: Any = tfds.builder_from_directory(path)
    return builder.as_data_source(split="train")


def records_path(corpus: Corpus, *, seq_len: int, folder: Path) -> Path:
    """Returns where TFDS keeps the records: dataset, config, version."""
    config = _config(corpus, seq_len).name
    return folder / TextTokens.name / config / _VERSION


def _config(corpus: Corpus, seq_len: int) -> tfds.core.BuilderConfig:
    return tfds.core.BuilderConfig(
        name=f"{corpus.file_name}-{seq_len}-{corpus.fingerprint[:16]}",
        version=_VERSION,
        description=f"{corpus.data} packed into records of {seq_len} + 1 tokens",
    )


def _write(corpus: Corpus, seq_len: int, data_dir: Path) -> Path:
    builder = TextTokens(
        corpus=corpus,
        seq_len=seq_len,
        config=_config(corpus, seq_len),
        data_dir=data_dir,
        file_format="array_record",
    )
    tfds.disable_progress_bar()
    builder.download_and_prepare()
    return Path(builder.data_path)


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Yields a folder to write in that is held while it is needed, and then removed."""
    # While the folder above is held, no scratch is there that nobody holds yet.
    with _held(folder, wait=True) as alone:
        if alone:
            _remove_abandoned(folder)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder))
        holding = contextlib.ExitStack()
        holding.enter_context(_held(scratch, wait=False))
    with holding:
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    for scratch in folder.glob(f"{_SCRATCH}*"):
        # The kernel lets go of what a killed process held.
        with _held(scratch, wait=False) as abandoned:
            if abandoned:
                shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _held(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Yields whether the folder is this process's own until the block ends.

    False where another holds it, and where the file system keeps no locks.
    """
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        held = True
    except OSError:
        held = False
    try:
        yield held
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _move_into_place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(source, target)
    except OSError:
        if not target.exists():
            raise
