"""Quantity: the one place where numbers are written for people.

Data holds SI base units; a table, a page or a sentence turns them into text here.
Three significant digits at most, a unit that keeps the figure between 1 and 1000,
and `–` for what was not measured, which is never zero.
"""

import math
import re
from collections.abc import Sequence

NOT_MEASURED = "–"

_Units = Sequence[tuple[float, str]]

_SECONDS = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_DECIMAL = tuple((1000.0**n, prefix) for n, prefix in enumerate(("", *"kMGTPEZY")))
_THINGS = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "B"), (1e12, "T"))
_BINARY = tuple(
    (1024.0**n, f"{prefix}B")
    for n, prefix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
)


def seconds(value: float | None) -> str:
    """Returns a duration as `4.2 ms`, `12.5 s`, `3 min 20 s` or `2 h 5 min`."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    if round(abs(value)) < 120:
        return _scaled(value, _SECONDS if value else (_SECONDS[-1],))
    minutes, rest_s = divmod(round(abs(value)), 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if value < 0 else ""
    if hours:
        return f"{sign}{hours} h {minutes} min"
    return f"{sign}{minutes} min {rest_s} s"


def seconds_band(value: float | None, low: float | None, high: float | None) -> str:
    """Returns a duration with its band in one unit, as `412 (210–812) ms`."""
    if value is None or low is None or high is None:
        return seconds(value)
    size, unit = _fitting(value, _SECONDS)
    value, low, high = value / size, low / size, high / size
    return f"{_figure(value)} ({_figure(low)}–{_figure(high)}) {unit}"


def bytes_(value: float | None) -> str:
    """Returns an amount of memory in binary units, as `1.5 GiB`."""
    return _scaled(value, _BINARY)


def count(value: float | None) -> str:
    """Returns a number of things as `512` or, in billions, as `6.74 B`."""
    return _scaled(value, _THINGS)


def counted(number: int, noun: str) -> str:
    """Returns `1 device`, `2 devices`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def flops(value: float | None) -> str:
    """Returns an amount of floating-point operations, as `40.1 GFLOP`."""
    return _with_unit(value, "FLOP")


def flops_per_s(value: float | None) -> str:
    """Returns a rate of floating-point operations, as `197 TFLOP/s`."""
    return _with_unit(value, "FLOP/s")


def bytes_per_s(value: float | None) -> str:
    """Returns a bandwidth in decimal units, as vendors state them: `819 GB/s`."""
    return _with_unit(value, "B/s")


def rate(value: float | None, unit: str = "tokens/s") -> str:
    """Returns a rate of `unit`, as `12.3 k tokens/s`."""
    text = _scaled(value, _DECIMAL)
    return text if text == NOT_MEASURED else f"{text} {unit}"


def percent(fraction: float | None) -> str:
    """Returns a fraction (0..1) as `38.1 %`."""
    if fraction is None or not math.isfinite(fraction):
        return NOT_MEASURED
    return f"{fraction * 100:.1f} %"


def ratio(value: float | None) -> str:
    """Returns a plain quotient with two decimals, as `0.86`."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    return f"{value:.2f}"


def _with_unit(value: float | None, unit: str) -> str:
    text = _scaled(value, _DECIMAL)
    if text == NOT_MEASURED:
        return text
    figure, _, prefix = text.partition(" ")
    return f"{figure} {prefix}{unit}"


def _scaled(value: float | None, units: _Units) -> str:
    """Returns `value` with three digits in the unit that fits it."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    size, unit = _fitting(value, units)
    return f"{_figure(value / size)} {unit}".strip()


def _fitting(value: float, units: _Units) -> tuple[float, str]:
    """Returns the largest of `units` (ascending) that `value` reaches."""
    # Just below a unit, three digits round up to it: 999.7 reads 1 k, not 1000.
    reached = [unit for unit in units if unit[0] <= abs(value) * 1.0005]
    return reached[-1] if reached else units[0]


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def mesh_lines(mesh: str, width: int) -> str:
    """Returns the mesh on lines of `width`, broken after commas where that can be."""
    lines = [""]
    for part in re.findall("[^,]+,?", mesh):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
