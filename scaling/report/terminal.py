"""Terminal: the verdict and the judged points, readable at 80 columns."""

from typing import TYPE_CHECKING

from scaling import quantity
from scaling.curve import Curve
from scaling.report import sections
from scaling.report.findings import Findings
from scaling.report.panels import efficiency_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MAX_CURVES = 12
MAX_FAILURES = 8


def print_report(findings: Findings, console: "Console | None" = None) -> None:
    """Prints curve by curve what was found, what has no result, then the verdict."""
    from rich.console import Console
    from rich.markup import escape

    out = console or Console(highlight=False)
