"""`scaling calibrate`: measures this host's rates, which predictions then use."""

import argparse

from experiments.usage import UsageError
from experiments.usage import note
from experiments.usage import print_json

USAGE = "[--results DIR] [--json]"
SUMMARY = "measure this host's rates, which predictions then use"
EXAMPLES = """\
Measures matmuls by dtype, memory bandwidth and, between processes, all-reduce.
Takes about a minute, in which nothing else should run. Writes
DIR/chips/HOST-CHIP.json, which `scaling plan` on this host then uses and names;
`scaling plan --chip PATH` uses one from elsewhere.

examples:
  scaling calibrate
  scaling calibrate --results /tmp/results --json
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `scaling calibrate`."""
    add = parser.add_argument
    add("--results", metavar="DIR", default="results", help="default: results")
    add("--json", action="store_true", help="print JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Measures, stores and prints the figures, and returns the exit code."""
    from experiments.calibrate import CalibrationError
    from experiments.calibrate import calibrate
    from experiments.calibrated import calibration_path
    from experiments.calibrated import write_chip

    note("measuring; nothing else should run meanwhile")
    try:
        chip = calibrate()
    except CalibrationError as error:
        raise UsageError(str(error)) from error
    path = calibration_path(args.results, chip.name)
    write_chip(path, chip)
    if args.json:
        print_json(chip.model_dump(mode="json"))
    else:
        from experiments.show_text import print_known

        print_known("chips", chip.model_dump(mode="json"))
    note(f"written to {path}")
    return 0
