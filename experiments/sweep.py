"""Sweep: a question, and the points that answer it.

A sweep is a Python value in a file of its own: one under `experiments/sweeps/`, or
any file that defines `sweep`. `grid` writes points that share everything but what
is varied:

    base = Point(model="tiny", chip="cpu", mesh=MeshSpec(), global_batch_size=16,
                 seq_len=128)
    sweep = Sweep(
        name="mine",
        question="Does a second device pay?",
        points=grid(base, meshes=("1/1", "1/data=2"), global_batch_sizes=(16,)),
    )
"""

import ast
import contextlib
import importlib
import itertools
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import Field
from pydantic import PositiveInt
from pydantic import ValidationError
from pydantic import field_validator

from experiments.given import unknown
from experiments.protocol import Timing
from experiments.store import OTHER_FOLDERS
from meshes import hardware
from meshes import topology
from meshes.spec import MeshSpec
from models.presets import model as model_named
from scaling.point import Point
from scaling.point import Regime

SWEEPS_FOLDER = Path(__file__).parent / "sweeps"


class Sweep(BaseModel):
    """Points to measure, how often, and how long each run times."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    """Also the folder of its runs."""
    question: str
    points: tuple[Point, ...] = Field(min_length=1)
    """All different, with known models and chips, and TPU slice shapes filled in."""
    repeats: PositiveInt = 5
    """Runs of each point; a claim needs at least two."""
    timing: Timing = Timing()

    @field_validator("name", mode="after")
    @classmethod
    def _folder_of_runs(cls, name: str) -> str:
        if name in OTHER_FOLDERS:
            raise ValueError(
                f"a sweep cannot be named {name!r}: the folder of that name in a "
                "results folder holds no runs; choose another name"
            )
        return name

    @field_validator("points", mode="after")
    @classmethod
    def _resolved_and_different(cls, points: tuple[Point, ...]) -> tuple[Point, ...]:
        resolved = tuple(with_slice(checked(point)) for point in points)
        seen: set[str] = set()
        for point in resolved:
            if point.id in seen:
                raise ValueError(
                    f"point {point.id} ({point.model} on {point.mesh}, batch "
                    f"{point.global_batch_size}, {point.regime}) is listed twice"
                )
            seen.add(point.id)
        return resolved


def sweep_names() -> tuple[str, ...]:
    """Returns the names of the sweeps that are shipped."""
    files = SWEEPS_FOLDER.glob("*.py")
    return tuple(sorted(file.stem for file in files if file.stem != "__init__"))


def load_sweep(name_or_path: str) -> Sweep:
    """Returns the sweep of a shipped name, or of a Python file that defines `sweep`.

    Raises ValueError with one sentence if there is none.
    """
    if name_or_path.endswith(".py") or "/" in name_or_path:
        return _load_file(Path(name_or_path))
    if name_or_path not in sweep_names():
        choices = (*sweep_names(), "or a file as PATH.py")
        raise ValueError(unknown("sweep", name_or_path, choices))
    return importlib.import_module(f"experiments.sweeps.{name_or_path}").sweep


def sweep_docstring(name_or_path: str) -> str:
    """Returns what the file of a sweep says about it: question, command, duration."""
    path = Path(name_or_path)
    if name_or_path in sweep_names():
        path = SWEEPS_FOLDER / f"{name_or_path}.py"
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def grid(
    base: Point,
    *,
    models: Iterable[str] | None = None,
    chips: Iterable[str] | None = None,
    meshes: Iterable[str | MeshSpec] | None = None,
    global_batch_sizes: Iterable[int] | None = None,
    batches_per_device: Iterable[int] | None = None,
    seq_lens: Iterable[int] | None = None,
) -> tuple[Point, ...]:
    """Returns `base` with every combination of what is given, each point once.

    `global_batch_sizes` makes strong points, `batches_per_device` weak ones; a chip
    is a name, or a name with the slice it is cut into, as `v5p:4x4x8`.
    Raises ValueError where both kinds of batch are given or a name is unknown.
    """
    batches = _batches(base, global_batch_sizes, batches_per_device)
    combinations = itertools.product(
        (base.model,) if models is None else models,
        (chip_text(base),) if chips is None else chips,
        (base.seq_len,) if seq_lens is None else seq_lens,
        (base.mesh,) if meshes is None else tuple(map(_mesh, meshes)),
        batches,
    )
    points = (
        _varied(base, model=model, chip=chip, seq_len=seq_len, mesh=mesh, batch=batch)
        for model, chip, seq_len, mesh, batch in combinations
    )
    return tuple(dict.fromkeys(points))


def checked(point: Point) -> Point:
    """Returns `point`; raises ValueError if its model or chip is not known."""
    model_named(point.model)
    hardware.chip(point.chip)
    return point


def with_slice(point: Point) -> Point:
    """Returns `point` with the squarest slice that holds its ici devices.

    Unchanged where one is given, and where there is none: `why_infeasible` then says
    so. On GPU the number that NVLink joins anyway is left out: it says nothing new.
    """
    chip = hardware.chip(point.chip)
    if chip.platform == "gpu" and point.slice_shape == (chip.nvlink_domain,):
        return point.model_copy(update={"slice_shape": None})
    if chip.platform != "tpu" or point.slice_shape is not None:
        return point
    try:
        num_chips = topology.num_chips(chip, point.mesh.devices_per_slice)
        shape = topology.squarest_slice(chip, num_chips)
    except ValueError:
        return point
    return point.model_copy(update={"slice_shape": shape})


def slices_not_offered(points: Iterable[Point]) -> list[str]:
    """Returns a sentence for each slice that is of a pod and cannot be had."""
    slices = {(point.chip, point.slice_shape): None for point in points}
    complaints = (
        topology.not_offered(hardware.chip(name), shape)
        for name, shape in slices
        if shape is not None
    )
    return [each for each in complaints if each is not None]


def parse_chip(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Returns the name and slice of `v5p`, `v5p:4x4x8` or `h100-sxm:4`.

    On GPU the number is that of an NVLink domain. Raises ValueError with one sentence
    if the chip is unknown or the slice is not positive numbers joined by `x`.
    """
    name, colon, slice_text = text.partition(":")
    chip = hardware.chip(name)
    if not colon:
        return name, None
    if chip.platform == "cpu":
        raise ValueError(
            f"chip {text!r}: {name} has no slices; write {name!r}, and the devices "
            "of a process in the mesh, as in '1/data=2'"
        )
    sizes = slice_text.split("x")
    example = "v5p:4x4x8" if chip.platform == "tpu" else f"{name}:8"
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        raise ValueError(
            f"slice {slice_text!r} of chip {text!r} is not positive whole numbers "
            f"joined by 'x'; write for example {example!r}"
        )
    return name, tuple(map(int, sizes))


def chip_text(point: Point) -> str:
    """Returns the chip of a point as it is written on the command line."""
    if point.slice_shape is None:
        return point.chip
    return f"{point.chip}:{'x'.join(map(str, point.slice_shape))}"


def sentence(error: ValidationError) -> str:
    """Returns the first complaint of a pydantic error on one line."""
    first = error.errors(include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"{place} is missing"
    if first["type"] == "extra_forbidden":
        return f"{place} is not a field"
    return f"{place} {first['input']!r}: {message[:1].lower()}{message[1:]}"


def _load_file(path: Path) -> Sweep:
    if not path.is_file():
        raise ValueError(f"there is no sweep file {str(path)!r}")
    try:
        # What the file prints must not reach stdout, which may carry JSON.
        with contextlib.redirect_stdout(sys.stderr):
            names = runpy.run_path(str(path))
    except ValidationError as error:
        raise ValueError(f"sweep file {str(path)!r}: {sentence(error)}") from error
    except (Exception, SystemExit) as error:
        kind = type(error).__name__
        text = " ".join(str(error).split())
        raise ValueError(f"sweep file {str(path)!r}: {kind}: {text}") from error
    sweep = names.get("sweep")
    if not isinstance(sweep, Sweep):
        found = "does not define `sweep`"
        if sweep is not None:
            found = f"defines `sweep` as a {type(sweep).__name__}"
        raise ValueError(
            f"sweep file {str(path)!r} {found}; it needs "
            "`sweep = experiments.sweep.Sweep(name=…, question=…, points=…)`"
        )
    return sweep


def _batches(
    base: Point,
    global_batch_sizes: Iterable[int] | None,
    batches_per_device: Iterable[int] | None,
) -> tuple[tuple[int, Regime | None], ...]:
    """Returns (size, regime) pairs; without a regime the base's batch is meant."""
    if global_batch_sizes is not None and batches_per_device is not None:
        raise ValueError(
            "global_batch_sizes (strong) and batches_per_device (weak) are both given; "
            "make two grids and join them"
        )
    if global_batch_sizes is not None:
        return tuple((size, "strong") for size in global_batch_sizes)
    if batches_per_device is not None:
        return tuple((size, "weak") for size in batches_per_device)
    return ((base.global_batch_size, None),)


def _varied(
    base: Point,
    *,
    model: str,
    chip: str,
    seq_len: int,
    mesh: MeshSpec,
    batch: tuple[int, Regime | None],
) -> Point:
    name, slice_shape = parse_chip(chip)
    size, regime = batch
    point = Point.model_validate(
        {
            **dict(base),
            "model": model,
            "chip": name,
            "slice_shape": slice_shape,
            "seq_len": seq_len,
            "mesh": mesh,
            "global_batch_size": size * mesh.num_devices if regime == "weak" else size,
            "regime": regime or base.regime,
        }
    )
    return with_slice(checked(point))


def _mesh(mesh: str | MeshSpec) -> MeshSpec:
    return MeshSpec.parse(mesh) if isinstance(mesh, str) else mesh
