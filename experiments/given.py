"""Given: what people write as text, checked, and one sentence where it is wrong."""

import difflib
import math
import re
from collections.abc import Iterable

_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{kind}": size**power
    for kind, size in (("iB", 1024), ("B", 1000))
    for power, prefix in enumerate("KMGT", start=1)
}
_SIZE = re.compile(rf"(?P<number>\d+(\.\d+)?) ?(?P<unit>{'|'.join(_UNITS)})")


def unknown(noun: str, value: str, choices: Iterable[str]) -> str:
    """Returns what to tell somebody who wrote `value` where `choices` are known."""
    known = tuple(choices)
    nearest = difflib.get_close_matches(value.lower(), known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
    return f"unknown {noun} {value!r}; choose from {', '.join(known)}{hint}"


def whole(text: str, flag: str) -> int:
    """Returns a whole number from 1; raises ValueError naming the flag."""
    # isascii as well: '²'.isdigit() is true and int('²') is not.
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(f"--{flag} {text!r} is not a whole number from 1")
    return int(text)


def duration_s(text: str, flag: str) -> float:
    """Returns a positive number of seconds; raises ValueError naming the flag."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"--{flag} {text!r} is not a positive number of seconds")
    return value


def size_bytes(text: str, flag: str) -> int:
    """Returns a positive number of bytes, as `8GiB`, `500 MB` or `1073741824`.

    Raises ValueError naming the flag.
    """
    found = _SIZE.fullmatch(text.strip())
    value = float(found["number"]) * _UNITS[found["unit"]] if found else 0.0
    if value < 1:
        raise ValueError(
            f"--{flag} {text!r} is not a size; write bytes, or as 8GiB with a unit of "
            f"{', '.join(filter(None, _UNITS))}"
        )
    return int(value)


def fraction(text: str, flag: str) -> float:
    """Returns a number above 0 and below 1; raises ValueError naming the flag."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise ValueError(f"--{flag} {text!r} is not a number between 0 and 1")
    return value
