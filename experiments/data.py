"""Data: token records on disk, prepared once before the runs that read them.

As a program, `python -P -m experiments.data FOLDER SEQ_LEN DATA` prepares them; it
imports no JAX, so the parent that waits for it holds no device.
"""

import sys
from pathlib import Path

from experiments.corpora import find_corpus
from experiments.protocol import SYNTHETIC
from experiments.text_dataset import prepare_records
from scaling.point import Point


def prepare(point: Point, folder: Path | str) -> None:
    """Writes what `experiments.batches` reads; does nothing where it is there already.

    Raises ValueError with one sentence where the data cannot be used.
    """
    _prepare(Path(folder), point.seq_len, point.data)


def _prepare(folder: Path, seq_len: int, data: str) -> None:
    if data != SYNTHETIC:
        prepare_records(find_corpus(data, folder), seq_len=seq_len, folder=folder)


def _main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        sys.stderr.write("usage: python -P -m experiments.data FOLDER SEQ_LEN DATA\n")
        return 2
    folder, seq_len, data = arguments
    try:
        _prepare(Path(folder), int(seq_len), data)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
