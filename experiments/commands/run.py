"""`scaling run`: measures the points of a sweep and stores every run."""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from experiments.commands.run_flags import add_run_flags
from experiments.commands.run_flags import refuse_all_invalid
from experiments.commands.run_flags import statuses
from experiments.commands.run_flags import stopped_by_others
from experiments.commands.sweep_flags import add_sweep
from experiments.given import duration_s
from experiments.given import whole
from experiments.usage import print_json
from experiments.usage import user_mistakes

if TYPE_CHECKING:
    from experiments.summary import RunSummary

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
    add_run_flags(parser)
    add = parser.add_argument
    add("--repeats", metavar="N", help="runs of each point (default: the sweep's)")
    add(
        "--hang_s",
        metavar="S",
        default="120",
        help="limit of a single step (default: 120)",
    )
    add("--max_time_s", metavar="S", help="start no further run after this time")


def run(args: argparse.Namespace) -> int:
    """Measures, prints what came of it, and returns the exit code."""
    from experiments.point_flags import sweep_from
    from experiments.runner import run_sweep
    from experiments.schedule import selected

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
    with stopped_by_others():
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
    if args.json:
        print_json(_document(summary))
    refuse_all_invalid(summary, "run")
    return summary.exit_code(strict=args.strict)


def _document(summary: "RunSummary") -> Mapping[str, object]:
    return dataclasses.asdict(summary) | {
        "overhead_s": summary.overhead_s,
        "overhead_fraction": summary.overhead_fraction,
    }
