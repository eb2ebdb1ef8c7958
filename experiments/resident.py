"""Resident: the memory of this host that processes hold, now and at most."""

import os
import resource
import sys
from collections.abc import Container
from pathlib import Path

PROC = Path("/proc")

_GROUP, _PAGES = 2, 21
"""Places in `/proc/PID/stat` after the name: process group, pages in memory."""


def resident_bytes(groups: Container[int], proc: Path = PROC) -> int:
    """Returns the resident bytes of all processes in `groups`, shared pages each time.

    0 where the system has no `/proc`.
    """
    pages = sum(_pages(entry, groups) for entry in proc.glob("[0-9]*/stat"))
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_host_bytes() -> int:
    """Returns the largest resident set this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _pages(stat: Path, groups: Container[int]) -> int:
    try:
        # A name may hold blanks and brackets of its own.
        fields = stat.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[_PAGES]) if int(fields[_GROUP]) in groups else 0
