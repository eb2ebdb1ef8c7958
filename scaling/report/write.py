"""Write: the report's files, from findings to a folder.

`report.html`, `points.csv`, `samples.csv`, and `pictures/` with each figure as SVG and
as PNG. A report written before into the same folder is replaced.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass

from etils import epath

from scaling.report import figures
from scaling.report import svg
from scaling.report.families import Family
from scaling.report.families import families
from scaling.report.findings import Findings
from scaling.report.page import Drawn
from scaling.report.page import render_page
from scaling.report.panels import Figure
from scaling.report.panels import load_figure
from scaling.report.panels import scaling_figure
from scaling.report.projection import project
from scaling.report.tables import write_points
from scaling.report.tables import write_samples

MAX_FIGURES = 3
"""Drawn of each kind, those where scaling breaks first; one takes about a second."""
_PICTURE = re.compile(r"(analytic_)?(strong|weak|load)(_\d+)?\.(svg|png)")


@dataclass(frozen=True, kw_only=True)
class ReportPaths:
    """What was written."""

    page: epath.Path
    points: epath.Path
    samples: epath.Path
    pictures: tuple[epath.Path, ...]


def write_report(findings: Findings, folder: str | os.PathLike[str]) -> ReportPaths:
    """Writes every file of the report into `folder`, which is made if need be."""
    root = epath.Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    found = families(findings.judged, findings.points)
    shown = _shown(found)
    projection = project(findings.threshold)
    projected = families(projection.judged, projection.points)
    drawn = [_drawn(each) for each in _figures(shown, findings)]
    analytic = [_drawn(each) for each in _figures(projected, findings, "analytic_")]
    page = render_page(
        findings,
        figures=drawn,
        projected=analytic,
        projection=projection,
        left_out=len(found) - len(shown),
    )
    (root / "report.html").write_bytes(page.encode())
    with (root / "points.csv").open("w", encoding="utf-8") as file:
        write_points(findings, file)
    with (root / "samples.csv").open("w", encoding="utf-8") as file:
        write_samples(findings.measurements, file)
    return ReportPaths(
        page=root / "report.html",
        points=root / "points.csv",
        samples=root / "samples.csv",
        pictures=_save_pictures(root / "pictures", (*drawn, *analytic)),
    )


def _shown(found: Sequence[Family]) -> list[Family]:
    """Returns what is drawn of each kind, in the order found."""
    kept: list[Family] = []
    for kind in ("scaling", "load"):
        of_kind = [each for each in found if each.kind == kind]
        kept += sorted(of_kind, key=lambda each: (each.part, not each.breaks))[
            :MAX_FIGURES
        ]
    return [each for each in found if each in kept]


def _figures(
    shown: Sequence[Family], findings: Findings, prefix: str = ""
) -> Iterator[Figure]:
    seen: Counter[str] = Counter()
    for family in shown:
        stem = f"{prefix}{family.regime if family.kind == 'scaling' else family.kind}"
        seen[stem] += 1
        name = stem if seen[stem] == 1 else f"{stem}_{seen[stem]}"
        if family.kind == "load":
            yield load_figure(family, name=name, reasons=findings.reasons)
        else:
            yield scaling_figure(
                family,
                name=name,
                reasons=findings.reasons,
                threshold=findings.threshold,
            )


def _drawn(figure: Figure) -> Drawn:
    rows = [
        [svg.render(figures.draw_panel(figure, panel)) for panel in row]
        for row in figure.rows
    ]
    return Drawn(figure=figure, rows=rows)


def _save_pictures(
    folder: epath.Path, drawn: Sequence[Drawn]
) -> tuple[epath.Path, ...]:
    """Writes the pictures; those of an earlier report, which may be more, go first."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if _PICTURE.fullmatch(path.name):
            path.unlink()
    return tuple(
        path for each in drawn for path in svg.save(each.figure, each.rows, folder)
    )
