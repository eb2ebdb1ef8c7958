"""Compare text: a comparison of two results folders, as a table for people."""

from rich.console import Console
from rich.table import Table

from scaling import quantity
from scaling.compare import Comparison
from scaling.compare import Difference
from scaling.compare import PointComparison


def print_comparison(comparison: Comparison) -> None:
    """Prints point by point how B compares with A, and what differs around them."""
    console = Console(highlight=False)
    console.print(_table(comparison.points))
    for name, ids in (("A", comparison.only_in_a), ("B", comparison.only_in_b)):
        if ids:
            console.print(f"only in {name}: {', '.join(ids)}")
    console.print()
    if not comparison.differences:
        console.print("The environments do not differ.")
        return
    console.print("What differs between the environments, A → B:")
    for difference in comparison.differences:
        console.print(f"  {_change(difference)}", soft_wrap=True, markup=False)


def verdict(point: PointComparison) -> str:
    """Returns how B compares with A at a point, in a few words."""
    if "ok" not in (point.status_a, point.status_b) or point.ratio is None:
        return f"{point.status_a} → {point.status_b}"
    if point.ratio_low is None or point.ratio_high is None:
        return "one run is too few"
    if not point.distinguishable:
        return "not distinguishable"
    return "B is faster" if point.ratio > 1 else "B is slower"


def _table(points: tuple[PointComparison, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("model", "mesh", "batch"):
        table.add_column(name, overflow="fold")
    for name in ("A", "B", "B/A throughput", ""):
        table.add_column(name, no_wrap=True)
    for point in points:
        table.add_row(
            point.model,
            point.mesh,
            f"{point.global_batch_size}{' weak' if point.regime == 'weak' else ''}",
            quantity.seconds(point.step_time_a_s),
            quantity.seconds(point.step_time_b_s),
            _ratio(point),
            verdict(point),
        )
    return table


def _ratio(point: PointComparison) -> str:
    text = quantity.ratio(point.ratio)
    if point.ratio_low is None or point.ratio_high is None:
        return text
    low, high = quantity.ratio(point.ratio_low), quantity.ratio(point.ratio_high)
    return f"{text} [{low}, {high}]"


def _change(difference: Difference) -> str:
    a, b = (", ".join(values) or "none" for values in (difference.a, difference.b))
    return f"{difference.field}: {a} → {b}"
