"""Usage: what all commands do alike with mistakes of the user and with JSON."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any


class UsageError(Exception):
    """The command cannot be done as it was given; one sentence, with the cure."""


@contextlib.contextmanager
def user_mistakes() -> Iterator[None]:
    """Turns a ValueError of the block, which checks what the user gave, into usage."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def print_json(document: Any) -> None:
    """Prints the one JSON document of a command on stdout."""
    json.dump(document, sys.stdout, indent=1, allow_nan=False, ensure_ascii=False)
    sys.stdout.write("\n")


def note(text: str) -> None:
    """Prints a line that is not the command's result, on stderr."""
    sys.stderr.write(f"{text}\n")
