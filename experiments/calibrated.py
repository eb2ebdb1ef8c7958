"""Calibrated chips: figures measured on this host, in the place of the table's.

`scaling calibrate` writes a chip into the `chips` folder of the results; it holds for
this host alone.
"""

import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from experiments.sweep import Sweep
from experiments.sweep import sentence
from meshes import hardware
from meshes.chip import Chip


def calibration_path(results: str, chip: str, *, host: str | None = None) -> Path:
    """Returns where the figures of a chip as measured on a host are stored."""
    host = socket.gethostname() if host is None else host
    return local_or_bucket(results) / "chips" / f"{host}-{chip}.json"


def local_or_bucket(text: str) -> Path:
    """Returns a path on this machine, or one with the same methods in a bucket."""
    if "://" not in text:
        return Path(text)
    # Only here: it takes a while to import.
    from etils import epath

    return cast(Path, epath.Path(text))


def read_chip(path: Path) -> Chip:
    """Reads a stored chip; raises ValueError with one sentence if it is none."""
    try:
        return Chip.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"there is no chip file {str(path)!r}") from error
    except ValidationError as error:
        raise ValueError(
            f"{str(path)!r} is no chip that `scaling calibrate` wrote: "
            f"{sentence(error)}"
        ) from error


def write_chip(path: Path, chip: Chip) -> None:
    """Writes a chip as a whole file or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(chip.model_dump_json(indent=2, exclude_defaults=True) + "\n")
    aside.rename(path)


def chips_of(
    sweep: Sweep, results: str, *, files: Iterable[str] = ()
) -> tuple[dict[str, Chip], tuple[str, ...]]:
    """Returns the chips of a sweep by name, and the files of the calibrated ones.

    A chip among `files` comes before what was measured on this host, and that before
    the table. Raises ValueError for a file that is no chip, or not of the sweep.
    """
    chips = {point.chip: hardware.chip(point.chip) for point in sweep.points}
    paths = {name: calibration_path(results, name) for name in chips}
    used = {name: path for name, path in paths.items() if path.is_file()}
    for file in files:
        name = read_chip(local_or_bucket(file)).name
        if name not in chips:
            raise ValueError(
                f"{file!r} holds figures of chip {name!r}, and the points are on "
                f"{', '.join(chips)}"
            )
        used[name] = local_or_bucket(file)
    chips |= {name: read_chip(path) for name, path in used.items()}
    return chips, tuple(map(str, used.values()))
