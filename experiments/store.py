"""Store: one JSON file per run, written once, in a folder per sweep.

Results of several machines are merged by copying files. A file is written under a
name that does not end in `.json` and then renamed, so what is found under `*.json`
is whole; what is not a run is a problem that hides nothing else.
"""

import contextlib
import gc
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from scaling.measurement import FORMAT_VERSION
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point

if TYPE_CHECKING:
    from etils import epath

Folder = str | os.PathLike[str]


class NotStoredError(Exception):
    """A run could not be written; the message says where, why, and what to do."""


OTHER_FOLDERS = frozenset({"chips"})
"""Folders of a results folder that hold no runs: calibrated chips."""

_TEMPORARY_SUFFIX = ".partial"
HLO_SUFFIX = ".hlo.gz"
"""Of the program that a run compiled, beside its run file."""
_RUN_NAME = re.compile(r"(?P<id>[0-9a-f]{16})\.(?P<run>[0-9a-f]{12})\.")


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a folder holds."""

    measurements: tuple[Measurement, ...]
    """In the order in which they were started."""
    problems: tuple[str, ...]
    """One line for each file that is not a run this version can read."""


def save(folder: Folder, measurement: Measurement) -> str:
    """Writes a run into the folder of its sweep and returns the file's path.

    Raises FileExistsError rather than writing over a run, and NotStoredError where it
    cannot be written, which leaves nothing that is read.
    """
    path = _epath(folder) / f"{measurement.id}.{measurement.run}.json"
    if path.exists():
        raise FileExistsError(f"{path} is there already; a run is never rewritten")
    temporary = path.parent / f".{path.name}{_TEMPORARY_SUFFIX}"
    content = measurement.model_dump_json().encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_durably(temporary, content)
        temporary.rename(path)
    except OSError as error:
        _remove(temporary)
        raise NotStoredError(
            f"run {measurement.id}.{measurement.run} could not be stored in "
            f"{path.parent}: {error.strerror or error}; the runs before it are stored: "
            "once this is mended, the same command goes on after them"
        ) from error
    return os.fspath(path)


def load(folder: Folder) -> Loaded:
    """Reads the runs of a results folder, or of one sweep's; never raises for a file.

    A folder that is not there holds nothing.
    """
    measurements: list[Measurement] = []
    problems: list[str] = []
    shared = _Shared()
    with _collector_paused():
        for path in _run_files(_epath(folder)):
            found = _read(path, shared)
            if isinstance(found, str):
                problems.append(f"{path}: {found}")
            else:
                measurements.append(found)
    measurements.sort(key=lambda each: (each.started_at, each.run))
    return Loaded(measurements=tuple(measurements), problems=tuple(problems))


def remove_unfinished(folder: Folder) -> None:
    """Removes what runs that never ended have left in the folder of a sweep.

    Only while nobody else writes there. What carries no name of ours stays.
    """
    root = _epath(folder)
    names = {path.name for path in _children(root)}
    for name in names:
        match = _RUN_NAME.match(name.removeprefix("."))
        if match is None:
            continue
        ended = f"{match['id']}.{match['run']}.json" in names
        beside = name.endswith((".log", HLO_SUFFIX))
        if name.startswith(".") or (beside and not ended):
            _remove(root / name)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Keeps the garbage collector from walking thousands of runs again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _write_durably(path: "epath.Path", content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        # A bucket's files have no descriptor: they are durable once closed.
        try:
            descriptor = file.fileno()
        except (io.UnsupportedOperation, AttributeError):
            return
        os.fsync(descriptor)


def _remove(path: "epath.Path") -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            path.rmtree()
        else:
            path.unlink()


def _run_files(folder: "epath.Path") -> Iterator["epath.Path"]:
    for path in _visible(folder):
        if path.name.endswith(".json"):
            yield path
        elif path.name not in OTHER_FOLDERS and not _RUN_NAME.match(path.name):
            yield from (
                child for child in _visible(path) if child.name.endswith(".json")
            )


def _visible(folder: "epath.Path") -> list["epath.Path"]:
    children = (path for path in _children(folder) if not path.name.startswith("."))
    return sorted(children, key=lambda path: path.name)


def _children(folder: "epath.Path") -> list["epath.Path"]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


class _Shared:
    """Points and environments read before: ten thousand runs have a few of each."""

    def __init__(self):
        self._points: dict[str, Point] = {}
        self._environments: dict[str, Environment] = {}

    def share(self, run: Measurement) -> Measurement:
        """Returns the run with its point and environment from those seen before.

        Raises ValueError if the point is not the one its id says.
        """
        if run.id not in self._points and run.point.id == run.id:
            self._points[run.id] = run.point
        if self._points.get(run.id) != run.point:
            raise ValueError(f"its point has the id {run.point.id}, not {run.id}")
        environment = self._environments.setdefault(
            repr(run.environment), run.environment
        )
        return run.model_copy(
            update={"point": self._points[run.id], "environment": environment}
        )


def _read(path: "epath.Path", shared: _Shared) -> Measurement | str:
    """Returns the run in a file, or one line that says why there is none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    try:
        run = Measurement.model_validate_json(content)
    except ValidationError as error:
        return _complaint(content, error)
    if run.format_version != FORMAT_VERSION:
        return _other_version(run.format_version)
    if path.name != f"{run.id}.{run.run}.json":
        return f"holds run {run.id}.{run.run}: the file was renamed"
    try:
        return shared.share(run)
    except ValueError as error:
        return str(error)


def _complaint(content: bytes, error: ValidationError) -> str:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return "is not JSON: cut short, or not a run"
    if not isinstance(found, dict) or "format_version" not in found:
        return "is not a run: it has no format_version"
    if found["format_version"] != FORMAT_VERSION:
        return _other_version(found["format_version"])
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"is not a run: {place or 'it'}: {first['msg']}"


def _other_version(version: object) -> str:
    return f"has format_version {version!r}; this version reads {FORMAT_VERSION}"


def _epath(folder: Folder) -> "epath.Path":
    from etils import epath

    return epath.Path(folder)
