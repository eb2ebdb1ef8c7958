"""Choices: one sentence for a name that is not known, with the nearest that are."""

import difflib
from collections.abc import Iterable


def unknown(noun: str, value: str, choices: Iterable[str], *, listed_by: str) -> str:
    """Returns what to tell somebody who wrote `value` where `choices` are known.

    `listed_by` is the command that shows them all.
    """
    known = sorted(choices)
    nearest = difflib.get_close_matches(value.lower(), known, n=3, cutoff=0.5)
    if nearest:
        hint = f"did you mean {' or '.join(map(repr, nearest))}?"
    else:
        hint = f"choose from {', '.join(known)}"
    return f"unknown {noun} {value!r}; {hint} (`{listed_by}` shows all)"
