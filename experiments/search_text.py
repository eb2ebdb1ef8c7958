"""Search text: the outcome of `scaling plan --search` as tables for people."""

from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Literal

from experiments.compiled_rows import CompiledPoint
from experiments.search import relative
from experiments.sweep import chip_text
from scaling import quantity
from scaling.candidates import policy_of
from scaling.point import Point
from scaling.search import Candidate
from scaling.search import Found
from scaling.search import Refused

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SHOWN_MESHES = 10
_MESH_AND_SLICE_WIDTH = 29
"""Characters for both; a mesh that leaves the slice too few takes several lines."""
_WIDTHS = {"policy": 10, "of best": 4, "slices × devices": 8}
"""Of columns that are broken between words, so that a table fits 80 characters."""
_OBSTACLES = {
    "axis": "axis",
    "slice": "slice",
    "dim": "does not divide",
    "batch": "batch",
    "sequence": "sequence",
    "kernel": "kernel",
    "memory": "memory",
    "policy": "policy",
    "figure": "chip",
}


def print_found(
    base: Point,
    num_devices: int,
    found: Found,
    compiled: Sequence[CompiledPoint] | None,
) -> None:
    """Prints the best meshes, what is refused and the balance, at 80 columns."""
    from rich.console import Console

    # Reasons have brackets of their own.
    console = Console(highlight=False, soft_wrap=False, markup=False)
    console.print(
        f"{base.model} on {num_devices} {base.chip}, batch {base.global_batch_size} × "
        f"{base.seq_len} tokens, {base.regime} (analytic)"
    )
    console.print(
        f"{found.num_candidates:,} candidates on {_meshes(found.num_meshes)}: "
        f"{len(found.ranked):,} fit"
    )
    best = found.best_by_mesh
    if best:
        shown = best[:SHOWN_MESHES]
        title = f"fastest {len(shown)} of the {_meshes(len(best))} that fit"
        _section(console, f"{title}, each under its best policy", _best(shown, found))
    if compiled:
        _print_compiled(console, best, compiled)
    if found.refused:
        _section(console, "refused", _refused(found))
    _section(console, "slices: what is left of the best throughput", _balance(found))
    if best:
        console.print("\nwhere its time and memory go, and the nearest better mesh:")
        console.print(explain_command(best[0].point), soft_wrap=True)


def explain_command(point: Point) -> str:
    """Returns the command that explains a point, to be pasted."""
    size = point.global_batch_size
    batch = f"--batch {size}"
    if point.regime == "weak":
        batch = f"--batch_per_device {size // point.mesh.num_devices}"
    flags = {"model", "chip", "slice_shape", "mesh", "global_batch_size", "seq_len"}
    others = point.model_dump(
        mode="json", exclude_defaults=True, exclude=flags | {"regime"}
    )
    settings = "".join(f" --set {field}={value}" for field, value in others.items())
    return (
        f"scaling plan --explain --model {point.model} --chip {chip_text(point)} "
        f"--mesh {point.mesh} {batch} --seq_len {point.seq_len}{settings}"
    )


def policy_text(point: Point) -> str:
    """Returns the words of a point's policy that are not the defaults."""
    words = (
        f"accum={value}" if field == "accumulation" else str(value)
        for field, value in policy_of(point).items()
    )
    return " ".join(words) or "plain"


def _best(shown: Sequence[Candidate], found: Found) -> "Table":
    table = _columns(
        ("slice", "left"),
        ("policy", "left"),
        ("memory", "right"),
        ("step time", "right"),
        ("of best", "right"),
        ("limit", "left"),
    )
    width = _mesh_width([each.point for each in shown])
    for each in shown:
        table.add_row(
            quantity.mesh_lines(str(each.point.mesh), width),
            _shape(each.point),
            policy_text(each.point),
            quantity.bytes_(each.predicted.peak_hbm_bytes),
            quantity.seconds(each.step_time_s),
            quantity.ratio(relative(each, found)),
            each.predicted.limited_by or quantity.NOT_MEASURED,
        )
    return table


def _print_compiled(
    console: "Console", best: Sequence[Candidate], compiled: Sequence[CompiledPoint]
) -> None:
    analytic = {each.point.id: each for each in best}
    table = _columns(
        ("memory", "right"),
        ("compiled", "right"),
        ("step time", "right"),
        ("compiled", "right"),
        ("status", "left"),
    )
    width = _mesh_width([])
    for row in compiled:
        expected = analytic[row.id].predicted
        table.add_row(
            quantity.mesh_lines(row.mesh, width),
            quantity.bytes_(expected.peak_hbm_bytes),
            quantity.bytes_(row.needed_bytes),
            quantity.seconds(expected.step_time_s),
            quantity.seconds(row.predicted and row.predicted.step_time_s),
            row.status,
        )
    _section(console, "the fastest as their compiler has them", table)
    for row in compiled:
        if row.reason is not None:
            console.print(f"{row.mesh}: {row.reason}")


def _refused(found: Found) -> "Table":
    table = _table()
    table.add_column("candidates", justify="right", no_wrap=True)
    table.add_column("meshes", justify="right", no_wrap=True)
    table.add_column("obstacle", no_wrap=True)
    table.add_column("reason")
    for group in found.refused:
        table.add_row(
            f"{group.num_candidates:,}",
            f"{group.num_meshes:,}",
            _OBSTACLES[group.obstacle],
            _because(group),
        )
    return table


def _because(group: Refused) -> str:
    reason = group.reasons[0][0]
    if group.nearest is not None:
        point, excess = group.nearest
        fits = "no policy fits" if group.obstacle == "memory" else "other policies fit"
        return (
            f"{reason}, and {fits}: {quantity.bytes_(excess)} too large at best "
            f"({point.mesh}, {policy_text(point)})"
        )
    others = len(group.reasons) - 1
    return f"{reason}; and {others} more like it" if others else reason


def _balance(found: Found) -> "Table":
    table = _columns(
        ("slice", "left"),
        ("policy", "left"),
        ("step time", "right"),
        ("of best", "right"),
        first=("slices × devices",),
    )
    width = _mesh_width([row.best.point for row in found.balance if row.best])
    for row in found.balance:
        best = row.best
        table.add_row(
            f"{row.num_slices} × {row.devices_per_slice}",
            "nothing fits"
            if best is None
            else quantity.mesh_lines(str(best.point.mesh), width),
            "" if best is None else _shape(best.point),
            "" if best is None else policy_text(best.point),
            quantity.seconds(best and best.step_time_s),
            quantity.ratio(row.relative),
        )
    return table


def _meshes(number: int) -> str:
    return "1 mesh" if number == 1 else f"{number:,} meshes"


def _mesh_width(points: Iterable[Point]) -> int:
    """Returns what the slices of these points leave to their meshes."""
    shapes = (len(_shape(point)) for point in points)
    return _MESH_AND_SLICE_WIDTH - max(shapes, default=len("slice"))


def _shape(point: Point) -> str:
    return "x".join(map(str, point.slice_shape or ())) or quantity.NOT_MEASURED


def _section(console: "Console", title: str, table: "Table") -> None:
    console.print()
    console.print(title)
    console.print(table)


def _columns(
    *columns: tuple[str, Literal["left", "right"]], first: Sequence[str] = ()
) -> "Table":
    """Returns a table whose columns are `first`, a mesh, and then `columns`."""
    table = _table()
    for title in first:
        table.add_column(title, justify="right", max_width=_WIDTHS.get(title))
    table.add_column("mesh", overflow="fold")
    for title, justify in columns:
        # Figures stay with their units.
        table.add_column(
            title,
            justify=justify,
            max_width=_WIDTHS.get(title),
            no_wrap=title in ("memory", "step time", "compiled"),
        )
    return table


def _table() -> "Table":
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
