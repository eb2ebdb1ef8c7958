"""`scaling report`: the verdict over stored runs, a page, tables and pictures."""

import argparse
import os

from experiments.given import fraction
from experiments.usage import UsageError
from experiments.usage import note
from experiments.usage import print_json
from experiments.usage import user_mistakes

USAGE = "RESULTS [--out DIR] [--threshold X] [--json]"
SUMMARY = "the verdict over stored runs, a page, tables and pictures"
EXAMPLES = """\
Writes report.html, which opens offline, points.csv, samples.csv and pictures/.
Below the threshold of efficiency a further device does not pay.
Compiled runs have curves of their own, predicted from their programs.

examples:
  scaling report results                  everything that was measured
  scaling report results/cpu_quick        one sweep
  scaling report results --threshold 0.9 --out /tmp/report
  scaling report results --json           verdicts and curves for a script
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `scaling report`."""
    add = parser.add_argument
    add("results", metavar="RESULTS", help="the results folder, or one sweep's in it")
    add("--out", metavar="DIR", help="where to write (default: RESULTS/report)")
    add(
        "--threshold",
        metavar="X",
        default="0.8",
        help="efficiency below which scaling does not pay (default: 0.8)",
    )
    add("--json", action="store_true", help="print JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Writes the report, prints the verdict, and returns the exit code."""
    from experiments.predictions import predicted
    from experiments.store import load
    from scaling.report.document import report_json
    from scaling.report.findings import find
    from scaling.report.terminal import print_report
    from scaling.report.write import write_report

    with user_mistakes():
        threshold = fraction(args.threshold, "threshold")
    if os.path.isfile(args.results):
        raise UsageError(
            f"{args.results!r} is a file; it takes the results folder, or one sweep's "
            "in it"
        )
    loaded = load(args.results)
    for problem in loaded.problems:
        note(f"not read: {problem}")
    if not loaded.measurements:
        raise UsageError(
            f"there are no runs in {args.results!r}; `scaling run cpu_quick` makes "
            "some in 'results'"
        )
    programs = predicted(args.results, loaded.measurements)
    for problem in programs.problems:
        note(f"not predicted: {problem}")
    findings = find(
        loaded.measurements,
        predictions=programs.predictions,
        problems=(*loaded.problems, *programs.problems),
        threshold=threshold,
    )
    out = args.out or f"{args.results.rstrip('/')}/report"
    try:
        paths = write_report(findings, out)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {out!r}: {error.strerror or error}; "
            "choose another folder with --out"
        ) from error
    if args.json:
        print_json(report_json(findings))
    else:
        print_report(findings)
    note(f"the page with all curves: {paths.page}")
    return 0
