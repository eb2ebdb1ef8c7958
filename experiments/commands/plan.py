"""`scaling plan`: the points of a sweep, feasible or why not, and what to expect."""

import argparse

from experiments.commands.sweep_flags import add_sweep
from experiments.usage import UsageError
from experiments.usage import note
from experiments.usage import print_json
from experiments.usage import user_mistakes

USAGE = "[SWEEP] [flags]"
SUMMARY = "what a sweep would run, needs and takes; touches no device"
EXAMPLES = """\
Step times are a roofline from shapes and the chip's figures: the low end
overlaps everything, the high end nothing and multiplies at 0.4 of the peak. On
cpu there are none before `scaling calibrate`.

examples:
  scaling plan cpu_quick
  scaling plan v5e_horizontal --json
  scaling plan my_sweep.py
  scaling plan --model llama2-70b --chip v5p --mesh data=2/fsdp=64,tensor=4 \\
      --batch 1024 --seq_len 4096
  scaling plan --model llama3-8b --chip v5p:4x4x8 --mesh 1/fsdp=128 \\
      --batch_per_device 1 --batch_per_device 2 --set remat=full
  scaling plan cpu_quick --chip results/chips/my_host-cpu.json
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `scaling plan`."""
    add_sweep(parser)
    parser.add_argument(
        "--results",
        metavar="DIR",
        default="results",
        help="results folder, for this host's calibration (default: results)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Prints the plan and returns the exit code."""
    from experiments.calibrated import chips_of
    from experiments.plan import plan
    from experiments.plan import print_plan
    from experiments.point_flags import chip_files
    from experiments.point_flags import sweep_from

    with user_mistakes():
        sweep = sweep_from(args)
        chips, calibrations = chips_of(sweep, args.results, files=chip_files(args))
    planned = plan(sweep, chips)
    for path in calibrations:
        note(f"calibrated figures of {path}")
    if args.json:
        print_json([row.model_dump(mode="json") for row in planned])
    else:
        print_plan(planned, sweep)
    if all(row.status == "invalid" for row in planned):
        raise UsageError(f"no point can run: {planned[0].reason}")
    return 0
