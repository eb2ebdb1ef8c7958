"""Terminal: the verdict and the judged points, readable at 80 columns."""

from typing import TYPE_CHECKING

from scaling import quantity
from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.report import sections
from scaling.report.findings import Findings
from scaling.report.plain import plain
from scaling.report.words import efficiency_text
from scaling.report.words import load_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MAX_CURVES = 12
MAX_FAILURES = 8
MAX_DOUBTS = 8
COLUMNS = (
    ("devices", 7),
    ("mesh", 14),
    ("tokens/s", 8),
    ("step", 7),
    ("efficiency", 17),
    ("runs", 4),
    ("status", 13),
)
"""With a blank after each, 77 columns."""
COMPILED_COLUMNS = (
    ("devices", 7),
    ("mesh", 17),
    ("step (band)", 20),
    ("efficiency", 17),
    ("MFU", 6),
    ("waits", 6),
)
"""`waits` is the part of a step that waits for a network. 79 columns; a point without
a step says its status instead."""
LEFT = ("mesh", "status")
"""Columns of words."""


def print_report(findings: Findings, console: "Console | None" = None) -> None:
    """Prints what was found curve by curve, what failed, the doubts, the verdict."""
    from rich.console import Console
    from rich.text import Text

    out = console or Console(highlight=False)
    shown = [curve for curve in findings.curves if curve.kind == "scaling"]
    headed: bool | None = None
    for curve in shown[:MAX_CURVES]:
        compiled = curve.provenance == "compiled"
        environment = _environment(findings, curve.series)
        header = compiled != headed
        out.print(_table(curve, environment=environment, show_header=header))
        headed = compiled
    if len(shown) > MAX_CURVES:
        out.print(f"… and {len(shown) - MAX_CURVES} more curves, in points.csv")
    for line in (*_loads(findings), *_failures(findings), *_doubts(findings)):
        out.print(Text(plain(line)))
    for sentence in sections.sentences(findings.verdict):
        about = Text(
            f"{plain(sentence.about)}: " if sentence.about else "", style="bold"
        )
        out.print()
        out.print(about + Text(plain(sentence.says)))


def _environment(findings: Findings, series: str) -> str:
    """Returns the name of an environment where there are several to tell apart."""
    several = len({each.series for each in findings.curves}) > 1
    return f", environment {series}" if several else ""


def _table(curve: Curve, *, environment: str, show_header: bool) -> "Table":
    from rich.table import Table
    from rich.text import Text

    judged = "" if curve.provenance != "simulated" else ", not judged"
    title = (
        f"{curve.direction}, {curve.regime}, {curve.growth}: {curve.model} on "
        f"{curve.chip} ({curve.provenance}{judged}{environment})"
    )
    table = Table(
        title=Text(plain(title), style="bold"),
        title_justify="left",
        show_header=show_header,
        box=None,
        padding=(0, 1, 0, 0),
    )
    compiled = curve.provenance == "compiled"
    for name, width in COMPILED_COLUMNS if compiled else COLUMNS:
        justify = "left" if name in LEFT else "right"
        table.add_column(name, width=width, overflow="fold", justify=justify)
    for point in curve.points:
        cells = _compiled_cells(point) if compiled else _cells(point)
        failed = "" if point.status == "ok" else "red"
        styles = (failed if cell == point.status else "" for cell in cells)
        table.add_row(*(Text(*each) for each in zip(cells, styles, strict=True)))
    return table


def _cells(point: CurvePoint) -> tuple[str, ...]:
    return (
        str(point.num_devices),
        quantity.mesh_lines(point.mesh, dict(COLUMNS)["mesh"]),
        quantity.count(point.tokens_per_s),
        quantity.seconds(point.step_time_s),
        efficiency_text(point),
        str(point.num_runs),
        point.status,
    )


def _compiled_cells(point: CurvePoint) -> tuple[str, ...]:
    band = (point.step_time_low_s, point.step_time_high_s)
    step = quantity.seconds_band(point.step_time_s, *band)
    return (
        str(point.num_devices),
        quantity.mesh_lines(point.mesh, dict(COMPILED_COLUMNS)["mesh"]),
        step if point.status == "ok" else point.status,
        efficiency_text(point),
        quantity.percent(point.mfu),
        quantity.percent(point.exposed_fraction),
    )


def _loads(findings: Findings) -> list[str]:
    return [
        f"load on {row.mesh} ({row.model} on {row.chip}"
        f"{_environment(findings, row.series)}): {load_text(row)}"
        for row in sections.load_rows(findings.curves)
    ][:MAX_CURVES]


def _failures(findings: Findings) -> list[str]:
    failed = [runs for runs in findings.runs if runs.status != "ok"]
    lines = [
        f"{runs.status}: {runs.point.mesh}, batch {runs.point.global_batch_size}: "
        f"{runs.reason or 'no reason given'}"
        for runs in failed[:MAX_FAILURES]
    ]
    if len(failed) > MAX_FAILURES:
        lines.append(f"… and {len(failed) - MAX_FAILURES} more points without a result")
    return lines


def _doubts(findings: Findings) -> list[str]:
    # One point for each kind: a screen has less room than the page.
    found = sections.doubts(findings, most=1)
    lines = [f"doubt: {doubt}" for doubt in found[:MAX_DOUBTS]]
    if len(found) > MAX_DOUBTS:
        more = quantity.counted(len(found) - MAX_DOUBTS, "more doubt")
        lines.append(f"… and {more}, in --json")
    return lines
