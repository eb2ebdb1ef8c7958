"""Out of memory, as the runtimes say it: which errors are, and the bytes they name.

The wordings are those of XLA on TPU, GPU and CPU as users have reported them, old and
new. `1.00G` and `1.00GiB` are both 1024³ bytes.
"""

import re
from dataclasses import dataclass

from scaling.measurement import MemoryPhase

_SIZE = r"([\d.]*\d)\s?([KMGTP]?)i?(?:B\b|bytes\b|\b)"
_WORDINGS = (
    # "required for HLO temporaries (32.00G) exceeds available HBM (15.75G)"
    rf"\({_SIZE}\) exceeds available \w+ \({_SIZE}\)",
    # "Used 63.80G of 30.75G hbm."
    rf"Used {_SIZE} of {_SIZE} hbm",
    # "Attempting to allocate 1.50G. That was not possible. There are 1.20G free."
    # "Attempting to reserve 10.51G at the bottom of memory. … There are 8.97G free"
    rf"Attempting to (?:allocate|reserve) {_SIZE}.*?There are {_SIZE} free",
    # "Out of memory while trying to allocate 34359738368 bytes."
    # "Out of memory allocating 17592186044416 bytes."
    # "Failed to allocate request for 2.99GiB (3206250496B) on device ordinal 0"
    rf"(?:to allocate|allocating|to reserve)(?: request for)? {_SIZE}",
)
_MEMORY = re.compile(r"allocat|reserve|memory|hbm", re.IGNORECASE)
_PREFIXES = ("", "K", "M", "G", "T", "P")


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """An error that means memory ran out; None where the text names no number."""

    phase: MemoryPhase
    needed_bytes: int | None
    available_bytes: int | None


def out_of_memory(error: BaseException, phase: MemoryPhase) -> OutOfMemory | None:
    """Returns what an error says about memory, or None if it is about something else.

    `phase` is what the program was doing. A MemoryError is the host's, and a text
    about compilation counts as that whoever raised it.
    """
    text = str(error)
    if isinstance(error, MemoryError) or "std::bad_alloc" in text:
        phase = "host"
    elif not _says_out_of_memory(text):
        return None
    elif "CompileTime" in text:
        phase = "compile"
    needed, available = _sizes(text)
    return OutOfMemory(phase=phase, needed_bytes=needed, available_bytes=available)


def _says_out_of_memory(text: str) -> bool:
    # gRPC and files also exhaust resources: the text must speak of memory too.
    exhausted = "RESOURCE_EXHAUSTED" in text and _MEMORY.search(text)
    return bool(exhausted or "OUT_OF_MEMORY" in text or "out of memory" in text.lower())


def _sizes(text: str) -> tuple[int | None, int | None]:
    """Returns (needed, available) of the first wording that is found."""
    for wording in _WORDINGS:
        if found := re.search(wording, text, re.DOTALL):
            numbers = found.groups()[::2]
            prefixes = found.groups()[1::2]
            sizes = [*map(_bytes, numbers, prefixes), None]
            return sizes[0], sizes[1]
    return None, None


def _bytes(number: str, prefix: str) -> int:
    return round(float(number) * 1024 ** _PREFIXES.index(prefix))
