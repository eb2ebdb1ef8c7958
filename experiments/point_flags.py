"""Point flags: points written on the command line, for what needs no sweep file.

`--model --chip --mesh --batch --batch_per_device --seq_len` repeat, and every
combination is a point; `--set FIELD=VALUE` reaches any other field of Point.
"""

import argparse
import itertools
import math
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import Literal
from typing import get_args
from typing import get_origin

from pydantic import ValidationError

from experiments.calibrated import local_or_bucket
from experiments.calibrated import read_chip
from experiments.given import unknown
from experiments.given import whole
from experiments.sweep import Sweep
from experiments.sweep import grid
from experiments.sweep import load_sweep
from experiments.sweep import parse_chip
from experiments.sweep import sentence
from experiments.sweep import with_slice
from meshes import hardware
from models.presets import model
from scaling.feasibility import slice_mismatch
from scaling.point import Point

ADHOC = "adhoc"
"""Name of the sweep that points given by flags belong to."""
_FLAGS = ("model", "chip", "mesh", "batch", "batch_per_device", "seq_len", "set")
_FLAG_OF_FIELD = {
    "model": "model",
    "chip": "chip",
    "mesh": "mesh",
    "global_batch_size": "batch",
    "seq_len": "seq_len",
}
_NEEDED = {
    "model": "--model tiny",
    "chip": "--chip cpu",
    "mesh": "--mesh 1/data=2",
    "batch": "--batch 16",
}


def sweep_from(args: argparse.Namespace) -> Sweep:
    """Returns the sweep that the command line names or spells out.

    Raises ValueError with one sentence.
    """
    given = [flag for flag in _FLAGS if getattr(args, flag)]
    if args.sweep is not None and chip_files(args) == tuple(args.chip or ()):
        given = [flag for flag in given if flag != "chip"]
    if args.sweep is None and given:
        return _adhoc(args)
    if args.sweep is None:
        raise ValueError(
            "no points; name a sweep (`scaling show sweeps` lists them) or give "
            "--model, --chip, --mesh and --batch"
        )
    if given:
        raise ValueError(
            f"SWEEP {args.sweep!r} and --{given[0]} are both given; name a sweep or "
            "give points by flags"
        )
    return load_sweep(args.sweep)


def searched_from(args: argparse.Namespace) -> tuple[Point, frozenset[str]]:
    """Returns what a search keeps, as a point on one device, and the fields set.

    Raises ValueError with one sentence.
    """
    if args.sweep is not None:
        raise ValueError(
            f"SWEEP {args.sweep!r} and --search are both given; a search is of one "
            "--model, --chip and --batch"
        )
    settings = _settings(args.set or ())
    fixed = frozenset(settings)
    values = _values(args, settings)
    if values["mesh"]:
        raise ValueError(
            f"--mesh {values['mesh'][0]} and --search are both given; a search tries "
            "every mesh"
        )
    _check_given(values, ("model", "chip", "batch"))
    for flag, texts in values.items():
        if len(texts) > 1 and flag != "set":
            raise ValueError(
                f"--{flag} is given {len(texts)} times: {', '.join(texts)}; a search "
                "is of one"
            )
    try:
        return _searched(values, settings, whole(args.devices, "devices")), fixed
    except ValidationError as error:
        raise ValueError(sentence(error)) from error


def _searched(
    values: dict[str, list[str]], settings: dict[str, str], num_devices: int
) -> Point:
    name, slice_shape = parse_chip(values["chip"][0])
    fields: dict[str, Any] = {
        "model": values["model"][0],
        "chip": name,
        "slice_shape": slice_shape,
        "mesh": "1/1",
        "seq_len": model(values["model"][0]).max_seq_len,
        "regime": "weak" if values["batch_per_device"] else "strong",
    }
    for size in _sizes(values, "batch"):
        fields["global_batch_size"] = size
    for size in _sizes(values, "batch_per_device"):
        fields["global_batch_size"] = size * num_devices
    for size in _sizes(values, "seq_len"):
        fields["seq_len"] = size
    point = Point.model_validate(fields | settings)
    return point if slice_shape is None else with_slice(point)


def chip_files(args: argparse.Namespace) -> tuple[str, ...]:
    """Returns the values of `--chip` that are files, as `scaling calibrate` writes."""
    return tuple(text for text in args.chip or () if text.endswith(".json"))


def _adhoc(args: argparse.Namespace) -> Sweep:
    try:
        points = _points(args)
        return Sweep(name=ADHOC, question="Points given by flags.", points=points)
    except ValidationError as error:
        raise ValueError(sentence(error)) from error


def _points(args: argparse.Namespace) -> tuple[Point, ...]:
    settings = _settings(args.set or ())
    values = _values(args, settings)
    _check_given(values, _NEEDED)
    points = itertools.chain.from_iterable(
        _points_of_model(name, values, settings) for name in values["model"]
    )
    return tuple(dict.fromkeys(_slice_agrees(point) for point in points))


def _check_given(values: dict[str, list[str]], needed: Iterable[str]) -> None:
    """Raises ValueError where a needed flag is missing, or both batches are given."""
    if values["batch"] and values["batch_per_device"]:
        raise ValueError(
            f"--batch {values['batch'][0]} and --batch_per_device "
            f"{values['batch_per_device'][0]} are both given; the first is strong "
            "scaling and the second weak, use one"
        )
    for flag in needed:
        if not values[flag] and not (flag == "batch" and values["batch_per_device"]):
            raise ValueError(f"--{flag} is missing; write for example {_NEEDED[flag]}")


def _points_of_model(
    name: str, values: dict[str, list[str]], settings: dict[str, str]
) -> tuple[Point, ...]:
    batches = _sizes(values, "batch")
    per_device = _sizes(values, "batch_per_device")
    fields: dict[str, Any] = {
        "model": name,
        "chip": parse_chip(values["chip"][0])[0],
        "mesh": "1/1",
        "global_batch_size": 1,
        "seq_len": model(name).max_seq_len,
    }
    points = grid(
        Point.model_validate(fields | settings),
        chips=values["chip"],
        meshes=values["mesh"],
        global_batch_sizes=batches or None,
        batches_per_device=per_device or None,
        seq_lens=_sizes(values, "seq_len") or None,
    )
    if "regime" not in settings:
        return points
    return tuple(
        Point.model_validate(dict(point) | {"regime": settings["regime"]})
        for point in points
    )


def _settings(texts: Sequence[str]) -> dict[str, str]:
    """Returns field to value of every `--set`."""
    settings: dict[str, str] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not value:
            raise ValueError(
                f"--set {text!r} is not FIELD=VALUE; write for example --set remat=full"
            )
        if field not in Point.model_fields:
            raise ValueError(unknown("field", field, Point.model_fields))
        choices = _choices(field)
        if choices and value not in choices:
            raise ValueError(unknown(field, value, choices))
        if field in settings:
            raise ValueError(f"--set gives {field!r} twice: {settings[field]}, {value}")
        settings[field] = value
    return settings


def _choices(field: str) -> tuple[str, ...]:
    """Returns the words that a field of Point takes, none where it takes others."""
    annotation = Point.model_fields[field].annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _values(args: argparse.Namespace, settings: dict[str, str]) -> dict[str, list[str]]:
    """Returns the values of each flag, those among `settings` (taken out) included."""
    values: dict[str, list[str]] = {
        flag: list(getattr(args, flag) or ()) for flag in _FLAGS
    }
    files = chip_files(args)
    names = [text for text in values["chip"] if text not in files]
    values["chip"] = names or [read_chip(local_or_bucket(file)).name for file in files]
    for field, flag in _FLAG_OF_FIELD.items():
        if field not in settings:
            continue
        if values[flag]:
            raise ValueError(
                f"--{flag} {values[flag][0]} and --set {field}={settings[field]} are "
                "both given; use one"
            )
        values[flag] = [settings.pop(field)]
    if "slice_shape" in settings:
        shape = settings.pop("slice_shape")
        values["chip"] = [f"{chip}:{shape}" for chip in values["chip"]]
    return values


def _sizes(values: dict[str, list[str]], flag: str) -> tuple[int, ...]:
    return tuple(whole(text, flag) for text in values[flag])


def _slice_agrees(point: Point) -> Point:
    """Returns `point`; raises ValueError if its slice and mesh differ in devices."""
    chip = hardware.chip(point.chip)
    if chip.platform == "tpu" and point.slice_shape is not None:
        available = math.prod(point.slice_shape) * chip.devices_per_chip
        if available != point.mesh.devices_per_slice:
            raise ValueError(slice_mismatch(point, available))
    return point
