"""Calibrated chips: figures measured on this host, in the place of the table's.

`scaling calibrate` writes a chip into the `chips` folder of the results; it holds for
this host alone.
"""

import socket
from pathlib import Path

from pydantic import ValidationError

from experiments.sweep import sentence
from meshes import hardware
from meshes.chip import Chip


def calibration_path(results: str, chip: str, *, host: str | None = None) -> Path:
    """Returns where the figures of a chip as measured on a host are stored."""
    host = socket.gethostname() if host is None else host
    return Path(results) / "chips" / f"{host}-{chip}.json"


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


class CalibratedChips:
    """Chips by name: as calibrated on this host where that was done."""

    def __init__(self, results: str):
        self._results = results
        self._known: dict[str, Chip] = {}
        self.used: list[str] = []
        """Files whose figures were handed out, to be named."""

    def __call__(self, name: str) -> Chip:
        """Returns the chip; raises ValueError for an unreadable calibration."""
        if name not in self._known:
            path = calibration_path(self._results, name)
            if path.is_file():
                self._known[name] = read_chip(path)
                self.used.append(str(path))
            else:
                self._known[name] = hardware.chip(name)
        return self._known[name]
