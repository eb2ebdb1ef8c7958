"""`scaling compare`: the same points in two results folders."""

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.usage import UsageError
from experiments.usage import note
from experiments.usage import print_json

if TYPE_CHECKING:
    from rich.table import Table

    from scaling.compare import Comparison
    from scaling.compare import PointComparison
    from scaling.compare import Unmatched
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

COLUMNS = (
    ("mesh", 18),
    ("batch", 6),
    ("A", 7),
    ("B", 7),
    ("B/A throughput", 17),
    ("", 19),
)
"""With a blank between them, 79 columns."""
MAX_UNMATCHED = 20
"""Points without a counterpart listed for each side."""


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
        raise UsageError(_nothing_in_common(args.a, args.b, comparison))
    if args.json:
        print_json(comparison.model_dump(mode="json"))
    else:
        print_comparison(comparison)
    return 0


def print_comparison(comparison: "Comparison") -> None:
    """Prints point by point how B compares with A, and what differs around them."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    groups: dict[str, list[PointComparison]] = {}
    for point in comparison.points:
        groups.setdefault(_group(point), []).append(point)
    for number, (title, points) in enumerate(groups.items()):
        console.print(Text(title, style="bold"))
        room = console.width - sum(width + 1 for _, width in COLUMNS[1:])
        console.print(_table(points, show_header=number == 0, room=room))
    for line in _unmatched(comparison):
        console.print(Text(line))
    console.print()
    if not comparison.differences:
        console.print("The environments do not differ.")
        return
    console.print("What differs between the environments, A → B:")
    for each in comparison.differences:
        a, b = (", ".join(values) or "none" for values in (each.a, each.b))
        console.print(f"  {each.field}: {a} → {b}", soft_wrap=True, markup=False)


def verdict(point: "PointComparison") -> str:
    """Returns how B compares with A at a point, in a few words."""
    if "ok" not in (point.status_a, point.status_b) or point.ratio is None:
        return f"{point.status_a} → {point.status_b}"
    if point.ratio_low is None or point.ratio_high is None:
        return "one run is too few"
    if not point.distinguishable:
        return "not distinguishable"
    return "B is faster" if point.ratio > 1 else "B is slower"


def _runs(folder: str) -> "tuple[Measurement, ...]":
    from experiments.store import load

    if os.path.isfile(folder):
        raise UsageError(f"{folder!r} is a file; it takes a results folder")
    loaded = load(folder)
    for problem in loaded.problems:
        note(f"not read: {problem}")
    if not loaded.measurements:
        raise UsageError(f"there are no runs in {folder!r}; it takes a results folder")
    return loaded.measurements


def _nothing_in_common(a: str, b: str, comparison: "Comparison") -> str:
    kinds = {
        (each.provenance, *each.other_provenances)
        for each in comparison.unmatched
        if each.side == "A" and each.other_provenances
    }
    if not kinds:
        return (
            f"{a!r} and {b!r} have no point in common; `scaling run` the same sweep "
            "into both with --results"
        )
    how = ", ".join(" against ".join(each) for each in sorted(kinds))
    return (
        f"the points that {a!r} and {b!r} have in common are {how}, which are not "
        "compared; run both on machines with enough cores"
    )


def _group(point: "PointComparison | Unmatched") -> str:
    """Returns what many points share, in words."""
    from scaling.report.plain import plain

    return plain(
        f"{point.model} on {point.chip}, {point.seq_len} tokens, {point.regime}, "
        f"{point.provenance}"
    )


def _table(points: "list[PointComparison]", *, show_header: bool, room: int) -> "Table":
    from rich.table import Table

    from scaling import quantity

    table = Table(
        box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=show_header
    )
    meshes = _mesh_texts(points, max(room, COLUMNS[0][1]))
    for name, width in COLUMNS:
        # Wider than its name only where a longer mesh has the room.
        lines = [line for text in meshes for line in text.split("\n")]
        wide = max(width, *map(len, lines)) if name == "mesh" else width
        table.add_column(
            name, width=wide, justify="left" if name in ("mesh", "") else "right"
        )
    for point, mesh in zip(points, meshes, strict=True):
        table.add_row(
            mesh,
            str(point.global_batch_size),
            quantity.seconds(point.step_time_a_s),
            quantity.seconds(point.step_time_b_s),
            _ratio(point),
            verdict(point),
        )
    return table


def _mesh_texts(points: "list[PointComparison]", room: int) -> list[str]:
    """Returns the meshes, broken between axes; points that look alike with their id."""
    alike = Counter((point.mesh, point.global_batch_size) for point in points)
    return [
        _broken(point.mesh, room)
        + (f"\n{point.id}" if alike[point.mesh, point.global_batch_size] > 1 else "")
        for point in points
    ]


def _broken(mesh: str, room: int) -> str:
    """Returns `mesh` on lines of at most `room`, never broken within an axis."""
    lines = [""]
    for part in re.findall(r"[^/,]+[/,]?", mesh):
        if lines[-1] and len(lines[-1]) + len(part) > room:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _ratio(point: "PointComparison") -> str:
    from scaling import quantity

    text = quantity.ratio(point.ratio)
    if point.ratio_low is None or point.ratio_high is None:
        return text
    low, high = quantity.ratio(point.ratio_low), quantity.ratio(point.ratio_high)
    return f"{text} [{low}, {high}]"


def _unmatched(comparison: "Comparison") -> Iterator[str]:
    for side, other in (("A", "B"), ("B", "A")):
        mine = [each for each in comparison.unmatched if each.side == side]
        for each in mine[:MAX_UNMATCHED]:
            line = (
                f"only in {side}: mesh {each.mesh}, batch {each.global_batch_size}: "
                f"{_group(each)} ({each.id})"
            )
            if each.other_provenances:
                has = " and ".join(each.other_provenances)
                line += f"; {other} has it {has}, which is not compared"
            yield line
        if len(mine) > MAX_UNMATCHED:
            more = len(mine) - MAX_UNMATCHED
            yield f"only in {side}: {more} more points, in --json"
