"""Predictions: what stored compiled runs say of a step, from the programs beside them.

Nothing derived is stored: reading the program of a billion-parameter model and walking
its schedule takes half a second, so a sweep of them takes seconds whenever it is read.
"""

import gzip
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.store import HLO_SUFFIX
from experiments.store import Folder
from meshes import hardware
from scaling.compiled import CompiledPrediction
from scaling.compiled import compiled_prediction
from scaling.measurement import Measurement
from scaling.samples import Predictions
from scaling.samples import in_time_order

if TYPE_CHECKING:
    from etils import epath


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What the programs in a folder say."""

    predictions: Predictions
    problems: tuple[str, ...]
    """One line for each program that is missing or cannot be accounted for."""


def predicted(folder: Folder, measurements: Iterable[Measurement]) -> Predicted:
    """Returns the predictions of the newest compiled run of each point, never raising.

    Of each environment: older runs of it say nothing more. `folder` is a results
    folder or one sweep's, as for `store.load`.
    """
    predictions: dict[tuple[str, str], CompiledPrediction] = {}
    problems: list[str] = []
    newest = _newest(measurements)
    programs = _programs(folder) if newest else {}
    for run in newest:
        name = f"{run.id}.{run.run}{HLO_SUFFIX}"
        if name not in programs:
            problems.append(f"{name} is missing, so its point has no step time")
            continue
        try:
            predictions[run.id, run.run] = prediction(run, programs[name])
        # Whatever is wrong with a file, or a bucket's library raises: others are read.
        except Exception as error:
            problems.append(f"{programs[name]}: cannot be accounted for: {error}")
    return Predicted(predictions=predictions, problems=tuple(problems))


def prediction(run: Measurement, path: Folder) -> CompiledPrediction:
    """Returns what the program of a compiled run says, which is stored at `path`.

    Raises ValueError where it cannot be accounted for, and as reading a file does.
    """
    from etils import epath

    assert run.compiled is not None
    text = gzip.decompress(epath.Path(path).read_bytes()).decode()
    chip = hardware.chip(run.point.chip)
    return compiled_prediction(run.point, run.compiled, text, chip)


def _newest(measurements: Iterable[Measurement]) -> list[Measurement]:
    compiled = (each for each in measurements if each.provenance == "compiled")
    newest: dict[tuple[object, ...], Measurement] = {
        (run.id, repr(run.environment.pooling_key)): run
        for run in in_time_order(compiled)
        if run.status == "ok" and run.compiled is not None
    }
    return list(newest.values())


def _programs(folder: Folder) -> "Mapping[str, epath.Path]":
    """Returns the stored programs of a results folder, or of one sweep's, by name."""
    from etils import epath

    return {path.name: path for path in _files(epath.Path(folder))}


def _files(folder: "epath.Path") -> "Iterator[epath.Path]":
    for path in sorted(folder.iterdir(), key=lambda each: each.name):
        if path.name.startswith("."):
            continue
        if path.name.endswith(HLO_SUFFIX):
            yield path
        elif path.is_dir():
            yield from path.glob(f"*{HLO_SUFFIX}")
