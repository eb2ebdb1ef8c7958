"""`scaling compare`: the same points in two results folders."""

import argparse
from typing import TYPE_CHECKING

from experiments.usage import UsageError
from experiments.usage import note
from experiments.usage import print_json

if TYPE_CHECKING:
    from scaling.measurement import Measurement

USAGE = "A B [--json]"
SUMMARY = "the same points in two results folders"
EXAMPLES = """\
The ratio is throughput of B over A. Its interval holds with 90 % for all points
at once; where it contains 1 the two are not distinguishable, and more repeats
would narrow it.

examples:
  scaling compare results results_new_jax
  scaling compare results/cpu_quick other_machine/cpu_quick --json
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `scaling compare`."""
    add = parser.add_argument
    add("a", metavar="A", help="a results folder, or one sweep's in it")
    add("b", metavar="B", help="the folder to compare with it")
    add("--json", action="store_true", help="print JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Prints the comparison and returns the exit code."""
    from scaling.compare import compare

    comparison = compare(_runs(args.a), _runs(args.b))
    if not comparison.points:
        raise UsageError(
            f"{args.a!r} and {args.b!r} have no point in common; `scaling run` the "
            "same sweep into both with --results"
        )
    if args.json:
        print_json(comparison.model_dump(mode="json"))
        return 0
    from experiments.compare_text import print_comparison

    print_comparison(comparison)
    return 0


def _runs(folder: str) -> "tuple[Measurement, ...]":
    from experiments.store import load

    loaded = load(folder)
    for problem in loaded.problems:
        note(f"not read: {problem}")
    if not loaded.measurements:
        raise UsageError(f"there are no runs in {folder!r}; it takes a results folder")
    return loaded.measurements
