"""Log: what a worker printed, read for people's sake where it could say no more.

Results are never parsed from it but what `experiments.compiler_log` finds; the reason
of a failure may be quoted from it.
"""

import re
from pathlib import Path

_EXCERPT_BYTES = 2**16
_MAX_REASON = 300

_EXCEPTION = re.compile(r"^(\w+\.)*\w*(Error|Exception|Exit|Interrupt|Warning)\b.*")
_FATAL = re.compile(r"^F\d{4} [\d:.]+\s+\d+ \S+\] (?P<text>.*)")
_BAD_FLAGS = (
    re.compile(r"Unknown flags? in (?:XLA_FLAGS|\w+): (?P<flag>.+)"),
    re.compile(r"Unknown command line flag '?(?P<flag>[^'\s.]+)"),
    re.compile(r"Couldn't interpret value \S+ for flag (?P<flag>[\w-]+)"),
    re.compile(r'Could not open file "(?P<flag>[^"]+)" to read flags'),
)
_PORT_TAKEN = ("address already in use", "failed to start rpc server")


def excerpt(path: Path) -> str:
    """Returns the beginning and the end of a log; empty if there is none."""
    try:
        with open(path, "rb") as log:
            head = log.read(_EXCERPT_BYTES)
            end = log.seek(0, 2)
            log.seek(max(len(head), end - _EXCERPT_BYTES))
            content = head + log.read(_EXCERPT_BYTES)
    except OSError:
        return ""
    return content.decode(errors="replace")


def last_words(text: str) -> str | None:
    """Returns the last fatal or exception line of a log, else its last line."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if match := _FATAL.match(line):
            return one_line(match["text"])
        if _EXCEPTION.match(line):
            return one_line(line)
    return one_line(lines[-1]) if lines else None


def refused_flag(text: str) -> str | None:
    """Returns the compiler or runtime flag that a log says was refused."""
    for pattern in _BAD_FLAGS:
        if match := pattern.search(text):
            return one_line(match["flag"].strip())
    return None


def says_port_taken(text: str) -> bool:
    """Returns whether a text says that the coordinator's port was not free."""
    return any(phrase in text.lower() for phrase in _PORT_TAKEN)


def one_line(text: str) -> str:
    """Returns `text` as one printable line that is not too long for a table."""
    words = " ".join(text.split())
    printable = "".join(char if char.isprintable() else "?" for char in words)
    if len(printable) <= _MAX_REASON:
        return printable
    return printable[: _MAX_REASON - 1] + "…"
