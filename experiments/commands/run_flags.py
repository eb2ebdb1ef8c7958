"""Run flags: what `run` and `compile` take alike, and what stops both."""

import argparse
import contextlib
from collections.abc import Iterable
from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.given import unknown
from experiments.usage import UsageError

if TYPE_CHECKING:
    from experiments.summary import RunSummary
    from scaling.measurement import Status


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Adds where runs are stored, which are made, and what is printed of them."""
    add = parser.add_argument
    add("--results", metavar="DIR", default="results", help="default: results")
    add(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="only points whose id starts with ID; repeats",
    )
    add("--timeout_s", metavar="S", default="900", help="limit of a run (default: 900)")
    add(
        "--retry",
        action="append",
        default=[],
        metavar="STATUS",
        help="run again what ended so: timeout, crash, error, …; repeats",
    )
    add("--strict", action="store_true", help="exit 3 if any point is not ok")
    add("--json", action="store_true", help="print JSON on stdout")


def statuses(texts: Iterable[str]) -> "tuple[Status, ...]":
    """Returns texts as statuses; raises ValueError for one that is none."""
    from scaling.measurement import STATUSES

    known: dict[str, Status] = {status: status for status in STATUSES}
    for text in texts:
        if text not in known:
            raise ValueError(unknown("status", text, known))
    return tuple(known[text] for text in texts)


@contextlib.contextmanager
def stopped_by_others() -> Iterator[None]:
    """Turns what the block meets in the results folder or on the cores into usage."""
    from experiments.lock import BusyError
    from experiments.store import NotStoredError

    try:
        yield
    except (BusyError, NotStoredError) as error:
        raise UsageError(str(error)) from error


def refuse_all_invalid(summary: "RunSummary", verb: str) -> None:
    """Raises UsageError with the first reason where no point can be done at all."""
    if set(summary.statuses.values()) != {"invalid"}:
        return
    from experiments.store import load

    runs = load(summary.folder).measurements
    first = next(iter(summary.statuses))
    reason = next((run.reason for run in reversed(runs) if run.id == first), None)
    raise UsageError(f"no point can {verb}: {reason}")
