"""`scaling plan`: the points of a sweep, feasible or why not, and what to expect."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from experiments.commands.sweep_flags import add_sweep
from experiments.usage import UsageError
from experiments.usage import note
from experiments.usage import print_json
from experiments.usage import user_mistakes

if TYPE_CHECKING:
    from scaling.point import Point

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
  scaling plan v5p_vertical --explain 3f2a
  scaling plan --search --model llama3-8b --chip v5p --devices 256 --batch 512
  scaling plan --search --model llama3-8b --chip v5e --devices 64 --batch 64 \\
      --seq_len 4096 --slices 1 --slices 2 --set remat=full --confirm 3
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
    _add_search(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "the best mesh, and why",
        "--search tries every mesh, slice shape and policy (remat, accumulation,\n"
        "residual, layers; --set fixes one) for one --model, --chip and --batch",
    )
    add = group.add_argument
    add(
        "--explain",
        metavar="ID",
        nargs="?",
        const="",
        help="one point in parts: memory, time, where its axes lie, the nearest "
        "better mesh; ID begins its id, and is needed where there are several",
    )
    add("--search", action="store_true", help="rank all meshes of --devices")
    add("--devices", metavar="N", help="JAX devices over all slices")
    add(
        "--slices",
        action="append",
        default=[],
        metavar="N",
        help="slices to make of them; repeats (default: every number there is)",
    )
    add(
        "--confirm",
        metavar="K",
        help="compile the K fastest meshes, as `scaling compile` does: a minute or "
        "so each, stored in --results (default: none)",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the plan and returns the exit code."""
    with user_mistakes():
        _check_flags(args)
    if args.search:
        return _search(args)
    return _plan(args) if args.explain is None else _explain(args)


def _check_flags(args: argparse.Namespace) -> None:
    if args.search and args.devices is None:
        raise ValueError("--search needs --devices; write for example --devices 256")
    if args.search and args.explain is not None:
        raise ValueError("--search and --explain are both given; use one")
    for flag in ("devices", "slices", "confirm"):
        if getattr(args, flag) and not args.search:
            raise ValueError(f"--{flag} is a flag of --search; give that too")


def _search(args: argparse.Namespace) -> int:
    from experiments.calibrated import chips_of
    from experiments.commands.run_flags import stopped_by_others
    from experiments.given import whole
    from experiments.point_flags import ADHOC
    from experiments.point_flags import chip_files
    from experiments.point_flags import searched_from
    from experiments.search import chosen_splits
    from experiments.search import confirmed
    from experiments.search import document
    from experiments.search import found_on
    from experiments.search_text import print_found
    from experiments.sweep import Sweep

    with user_mistakes():
        base, fixed = searched_from(args)
        num_devices = whole(args.devices, "devices")
        asked = Sweep(name=ADHOC, question="The best mesh.", points=(base,))
        chips, calibrations = chips_of(asked, args.results, files=chip_files(args))
        chip = chips[base.chip]
        numbers = tuple(whole(text, "slices") for text in args.slices)
        among = chosen_splits(base, chip, num_devices, numbers)
        _note(calibrations, [base])
        confirm = whole(args.confirm, "confirm") if args.confirm else 0
        found = found_on(base, chip, among, fixed)
    compiled = None
    if confirm and found.ranked:
        with stopped_by_others():
            compiled = confirmed(found, confirm, results=args.results)
    if args.json:
        shown = document(base, num_devices, found, compiled)
        print_json(shown.model_dump(mode="json"))
    else:
        print_found(base, num_devices, found, compiled)
    if not found.ranked:
        raise UsageError("no mesh fits; see what is refused")
    return 0


def _explain(args: argparse.Namespace) -> int:
    from experiments.calibrated import chips_of
    from experiments.explain import document
    from experiments.explain import explanation_of
    from experiments.explain import print_explanation
    from experiments.point_flags import chip_files
    from experiments.point_flags import sweep_from
    from experiments.schedule import selected
    from scaling.feasibility import why_infeasible

    with user_mistakes():
        sweep = sweep_from(args)
        points = selected(sweep.points, [args.explain] if args.explain else [])
        if len(points) > 1:
            ids = ", ".join(point.id for point in points[:3])
            raise ValueError(
                f"--explain is of one point, and these are {len(points)}; say which "
                f"by the beginning of its id: {ids}, …"
            )
        point = next(iter(points))
        if (reason := why_infeasible(point)) is not None:
            raise ValueError(f"the point cannot run: {reason}")
        chips, calibrations = chips_of(sweep, args.results, files=chip_files(args))
    _note(calibrations, [point])
    found = explanation_of(point, chips[point.chip])
    if args.json:
        print_json(document(found).model_dump(mode="json"))
    else:
        print_explanation(found)
    return 0


def _plan(args: argparse.Namespace) -> int:
    from experiments.calibrated import chips_of
    from experiments.plan import plan
    from experiments.plan import print_plan
    from experiments.point_flags import chip_files
    from experiments.point_flags import sweep_from

    with user_mistakes():
        sweep = sweep_from(args)
        chips, calibrations = chips_of(sweep, args.results, files=chip_files(args))
    planned = plan(sweep, chips)
    _note(calibrations, sweep.points)
    if args.json:
        print_json([row.model_dump(mode="json") for row in planned])
    else:
        print_plan(planned, sweep)
    if all(row.status == "invalid" for row in planned):
        raise UsageError(f"no point can run: {planned[0].reason}")
    return 0


def _note(calibrations: Iterable[object], points: "Iterable[Point]") -> None:
    from experiments.sweep import slices_not_offered

    for path in calibrations:
        note(f"calibrated figures of {path}")
    for sentence in slices_not_offered(points):
        note(sentence)
