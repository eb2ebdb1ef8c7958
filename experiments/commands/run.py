"""`scaling run`: measures the points of a sweep and stores every run."""

import argparse
import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping
from typing import TYPE_CHECKING

from experiments.commands.sweep_flags import add_sweep
from experiments.given import duration_s
from experiments.given import unknown
from experiments.given import whole
from experiments.usage import UsageError
from experiments.usage import print_json
from experiments.usage import user_mistakes

if TYPE_CHECKING:
    from experiments.summary import RunSummary
    from scaling.measurement import Status

USAGE = "[SWEEP] [flags]"
SUMMARY = "measure a sweep; the same command goes on after a stop"
EXAMPLES = """\
Every run is a fresh process and becomes one file, DIR/SWEEP/POINT.RUN.json.
What is stored is not measured again, so a stopped sweep goes on where it was.
Exit code 0 once every point has a final status, whatever it is, or --max_time_s
is over; with --strict 3 unless every point is ok.

examples:
  scaling run cpu_quick
  scaling run cpu_vertical --max_time_s 600 --results /tmp/results
  scaling run cpu_quick --only 3f2a --retry timeout --retry hang
  scaling run --model tiny --chip cpu --mesh 1/1 --mesh data=2/1 --batch 16 \\
      --set layers=unrolled --set compute_dtype=float32
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `scaling run`."""
    add_sweep(parser)
    add = parser.add_argument
    add("--results", metavar="DIR", default="results", help="default: results")
    add(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="only points whose id starts with ID; repeats",
    )
    add("--repeats", metavar="N", help="runs of each point (default: the sweep's)")
    add("--timeout_s", metavar="S", default="900", help="limit of a run (default: 900)")
    add(
        "--hang_s",
        metavar="S",
        default="120",
        help="limit of a single step (default: 120)",
    )
    add("--max_time_s", metavar="S", help="start no further run after this time")
    add(
        "--retry",
        action="append",
        default=[],
        metavar="STATUS",
        help="measure again what ended so: timeout, hang, error, …; repeats",
    )
    add("--strict", action="store_true", help="exit 3 if any point is not ok")
    add("--json", action="store_true", help="print JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Measures, prints what came of it, and returns the exit code."""
    from experiments.lock import BusyError
    from experiments.point_flags import sweep_from
    from experiments.runner import run_sweep
    from experiments.schedule import selected
    from experiments.store import NotStoredError

    with user_mistakes():
        sweep = sweep_from(args)
        selected(sweep.points, args.only)
        repeats = (
            sweep.repeats if args.repeats is None else whole(args.repeats, "repeats")
        )
        timeout_s = duration_s(args.timeout_s, "timeout_s")
        hang_s = duration_s(args.hang_s, "hang_s")
        max_time_s = args.max_time_s and duration_s(args.max_time_s, "max_time_s")
        retry = statuses(args.retry)
    try:
        summary = run_sweep(
            sweep,
            results=args.results,
            repeats=repeats,
            timeout_s=timeout_s,
            hang_s=hang_s,
            max_time_s=max_time_s,
            only=args.only,
            retry=retry,
        )
    except (BusyError, NotStoredError) as error:
        raise UsageError(str(error)) from error
    if args.json:
        print_json(_document(summary))
    if set(summary.statuses.values()) == {"invalid"}:
        raise UsageError(f"no point can run: {_first_reason(summary)}")
    return summary.exit_code(strict=args.strict)


def statuses(texts: Iterable[str]) -> "tuple[Status, ...]":
    """Returns texts as statuses; raises ValueError for one that is none."""
    from scaling.measurement import STATUSES

    known: dict[str, Status] = {status: status for status in STATUSES}
    for text in texts:
        if text not in known:
            raise ValueError(unknown("status", text, known))
    return tuple(known[text] for text in texts)


def _document(summary: "RunSummary") -> Mapping[str, object]:
    return dataclasses.asdict(summary) | {
        "overhead_s": summary.overhead_s,
        "overhead_fraction": summary.overhead_fraction,
    }


def _first_reason(summary: "RunSummary") -> str | None:
    """Returns the stored reason of the first point, all being invalid."""
    from experiments.store import load

    runs = load(summary.folder).measurements
    first = next(iter(summary.statuses))
    return next((run.reason for run in reversed(runs) if run.id == first), None)
