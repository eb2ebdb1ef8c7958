"""Words: one point of a curve as people read it, in tooltips, tables and terminal."""

from scaling import quantity
from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.load import Load


def point_text(curve: Curve, point: CurvePoint, reason: str | None) -> str:
    """Returns one point of a curve in words, with how its numbers were obtained."""
    where = f"{point.mesh}, {quantity.counted(point.num_devices, 'device')}"
    where += f", global batch {point.global_batch_size}"
    if point.status != "ok":
        parts = [f"{where}: {point.status}", curve.provenance, reason]
        return ", ".join(filter(None, parts))
    step = quantity.seconds(point.step_time_s)
    if curve.provenance == "compiled":
        bounds = (point.step_time_low_s, point.step_time_high_s)
        step = quantity.seconds_band(point.step_time_s, *bounds)
    parts = [f"{where}: {quantity.rate(point.tokens_per_s)}", f"step {step}"]
    if point.efficiency is not None:
        parts.append(f"efficiency {efficiency_text(point)}")
    if point.exposed_fraction is not None:
        waits = quantity.percent(point.exposed_fraction)
        parts.append(f"MFU {quantity.percent(point.mfu)}, {waits} waiting for networks")
    runs = quantity.counted(point.num_runs, "run")
    parts.append(f"{curve.provenance}, {runs}" if point.num_runs else curve.provenance)
    return ", ".join(parts)


def load_text(found: Load) -> str:
    """Returns in words from which batch on a mesh is busy, and where memory ends."""
    full = found.limit_batch_size
    ends = f"out of memory at batch {full}" if full else "no batch ran out of memory"
    return f"{_busy_text(found)}; {ends}"


def _busy_text(found: Load) -> str:
    busy, largest = found.saturation_batch_size, found.largest_batch_size
    word = found.provenance
    if largest is None:
        return "no batch has a result"
    if not found.bounded:
        return (
            f"{word} up to batch {largest}, busy or not is not known: it takes two "
            f"batches{' with 2 runs each (--repeats 5)' if word == 'measured' else ''}"
        )
    if busy is None:
        return f"not surely saturated up to batch {largest}"
    if busy == largest:
        return f"not surely saturated below batch {largest}, the largest {word}"
    return f"busy from batch {busy} on"


def efficiency_text(point: CurvePoint) -> str:
    """Returns the efficiency with its bounds, as `0.86 [0.84, 0.88]`."""
    value = quantity.ratio(point.efficiency)
    if point.efficiency_low is None or point.efficiency_high is None:
        return value
    low, high = (
        quantity.ratio(each) for each in (point.efficiency_low, point.efficiency_high)
    )
    return f"{value} [{low}, {high}]"
