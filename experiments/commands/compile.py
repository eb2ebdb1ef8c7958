"""`scaling compile`: the points of a sweep through the compiler of absent hardware."""

import argparse
from typing import TYPE_CHECKING

from experiments.commands.sweep_flags import add_sweep
from experiments.given import duration_s
from experiments.usage import UsageError
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
schedule; they have not been held against a machine yet.

examples:
  scaling compile v5e_vertical --only 3f2a
  scaling compile --model llama3-8b --chip v5e:4x4 --mesh 1/fsdp=4,tensor=4 \\
      --batch 16 --seq_len 2048 --set remat=full
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `scaling compile`."""
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
    add("--timeout_s", metavar="S", default="900", help="limit of one (default: 900)")
    add(
        "--retry",
        action="append",
        default=[],
        metavar="STATUS",
        help="compile again what ended so: timeout, crash, error, …; repeats",
    )
    add("--strict", action="store_true", help="exit 3 if any point is not ok")
    add("--json", action="store_true", help="print JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Compiles, prints what came of it, and returns the exit code."""
    from experiments.commands.run import statuses
    from experiments.compiled_rows import compiled_rows
    from experiments.compiled_rows import print_rows
    from experiments.point_flags import sweep_from
    from experiments.schedule import selected

    with user_mistakes():
        sweep = sweep_from(args)
        sweep = sweep.model_copy(update={"points": selected(sweep.points, args.only)})
        retry = statuses(args.retry)
        timeout_s = duration_s(args.timeout_s, "timeout_s")
    summary = _compile(sweep, args.results, retry=retry, timeout_s=timeout_s)
    rows = compiled_rows(sweep, summary)
    if args.json:
        print_json([row.model_dump(mode="json") for row in rows])
    else:
        print_rows(rows, sweep)
    if rows and set(summary.statuses.values()) == {"invalid"}:
        raise UsageError(f"no point can be compiled: {rows[0].reason}")
    return summary.exit_code(strict=args.strict)


def _compile(sweep: "Sweep", results: str, **options: object) -> "RunSummary":
    from experiments.lock import BusyError
    from experiments.runner import run_sweep
    from experiments.store import NotStoredError

    try:
        return run_sweep(sweep, results=results, task="compile", **options)  # type: ignore[arg-type]
    except (BusyError, NotStoredError) as error:
        raise UsageError(str(error)) from error
