"""`scaling compile`: the points of a sweep through the compiler of absent hardware."""

import argparse
from typing import TYPE_CHECKING

from experiments.commands.run_flags import add_run_flags
from experiments.commands.run_flags import refuse_all_invalid
from experiments.commands.run_flags import statuses
from experiments.commands.run_flags import stopped_by_others
from experiments.commands.sweep_flags import add_sweep
from experiments.given import duration_s
from experiments.given import size_bytes
from experiments.given import whole
from experiments.usage import print_json
from experiments.usage import user_mistakes

if TYPE_CHECKING:
    from experiments.summary import RunSummary
    from experiments.sweep import Sweep

USAGE = "[SWEEP] [flags]"
SUMMARY = "what a sweep needs and takes, by the target's own compiler"
EXAMPLES = """\
The compiler of a TPU or GPU needs none: `pip install 'scaling-toolkit[tpu]'`
brings libtpu, `[cuda]` XLA's for GPUs. Each point is compiled in a process of
its own and becomes a run file, with the program's text beside it as .hlo.gz;
what is stored is not compiled again. Step times come from walking the program's
schedule; docs/compile.md lists some beside published ones.

examples:
  scaling compile v5e_vertical --only 3f2a
  scaling compile --model llama3-8b --chip v5e:4x4 --mesh 1/fsdp=4,tensor=4 \\
      --batch 16 --seq_len 2048 --set remat=full
  scaling compile v5e_vertical --jobs 2 --memory_bytes 8GiB
  scaling compile --model llama3-8b --chip v5e:4x4 --mesh 1/fsdp=16 --batch 16 \\
      --seq_len 2048 --set remat=full --largest_batch
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `scaling compile`."""
    add_sweep(parser)
    add_run_flags(parser)
    add = parser.add_argument
    add("--jobs", metavar="N", default="1", help="points at a time (default: 1)")
    add(
        "--memory_bytes",
        metavar="SIZE",
        help="limit of each compilation, as 8GiB (default: this host's memory less a "
        "tenth, by --jobs)",
    )
    add(
        "--largest_batch",
        action="store_true",
        help="for each mesh and policy the largest batch that fits and the smallest "
        "that does not, instead of the sweep's own",
    )


def run(args: argparse.Namespace) -> int:
    """Compiles, prints what came of it, and returns the exit code."""
    from experiments.compiled_rows import compiled_rows
    from experiments.compiled_rows import print_rows
    from experiments.compiling import Compiling
    from experiments.largest_batch import largest_batches
    from experiments.point_flags import sweep_from
    from experiments.runner import run_sweep
    from experiments.schedule import selected

    with user_mistakes():
        sweep = sweep_from(args)
        sweep = sweep.model_copy(update={"points": selected(sweep.points, args.only)})
        retry = statuses(args.retry)
        timeout_s = duration_s(args.timeout_s, "timeout_s")
        jobs = whole(args.jobs, "jobs")
        memory_bytes = args.memory_bytes and size_bytes(
            args.memory_bytes, "memory_bytes"
        )

    def compile_sweep(sweep: "Sweep") -> "RunSummary":
        return run_sweep(
            sweep,
            Compiling(jobs, memory_bytes),
            results=args.results,
            timeout_s=timeout_s,
            retry=retry,
        )

    with stopped_by_others():
        if args.largest_batch:
            sweep, summary = largest_batches(sweep, compile_sweep)
        else:
            summary = compile_sweep(sweep)
    rows = compiled_rows(sweep, summary)
    if args.json:
        print_json([row.model_dump(mode="json") for row in rows])
    else:
        print_rows(rows, sweep)
    refuse_all_invalid(summary, "be compiled")
    return summary.exit_code(strict=args.strict)
