"""CHIPS: every chip the toolkit knows, found by its name or by `device_kind`.

The figures stand in `meshes/tpu_chips.py` and `meshes/gpu_chips.py`.
"""

import difflib

from meshes.chip import Chip
from meshes.gpu_chips import GPUS
from meshes.tpu_chips import TPUS

CPU = Chip(name="cpu", platform="cpu", device_kinds=("cpu",))
"""One core of this host, whatever it is: nothing is known before `calibrate`."""

CHIPS: dict[str, Chip] = {entry.name: entry for entry in (*TPUS, *GPUS, CPU)}


def chip(name: str) -> Chip:
    """Returns the chip called `name`; raises ValueError with the nearest names."""
    if name not in CHIPS:
        near = difflib.get_close_matches(name.lower(), CHIPS, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(f"unknown chip {name!r}; choose from {', '.join(CHIPS)}{hint}")
    return CHIPS[name]


def chip_of_device_kind(kind: str) -> Chip:
    """Returns the chip whose devices report `kind`.

    Only the whole name counts: 'TPU v5' is a v5p and 'TPU v5 lite' a v5e, and an
    H100 NVL has neither the peak of the SXM nor of the PCIe card. Raises ValueError
    for a kind that is not in the table; there is no default.
    """
    for candidate in CHIPS.values():
        if kind in candidate.device_kinds:
            return candidate
    known = ", ".join(repr(k) for c in CHIPS.values() for k in c.device_kinds)
    raise ValueError(
        f"unknown device kind {kind!r}; known are {known}; add its chip, with the "
        "source of each figure, to the table of its platform"
    )
