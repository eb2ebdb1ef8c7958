"""Verdict: the judgements over all curves in plain sentences.

One curve speaks for each model, chip, direction and regime: that of the newest
environment, of the best meshes where there were several, from the smallest baseline.
What was compiled speaks for itself, after what was measured.
"""

import math
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass

from meshes.hardware import CHIPS
from scaling import quantity
from scaling.breakdown import Breakdown
from scaling.breakdown import beginning
from scaling.breakdown import ending
from scaling.breakdown import falls
from scaling.breakdown import is_judged
from scaling.breakdown import unsure
from scaling.curve import Curve
from scaling.curve import CurvePoint
from scaling.curve import batch_text

NO_CURVE = (
    "No verdict: a scaling curve takes at least two device counts of one model and "
    "batch, measured or compiled in one environment."
)
NOTHING_COMPARED = "No verdict: no curve has a result to compare with."
MANY_RUNS = 100
"""More of them for each point are not worth proposing."""

_Subject = tuple[str, str, bool, str, str]
"""Model, chip, whether it was compiled, direction, regime."""


@dataclass(frozen=True, kw_only=True)
class _Speaker:
    """The curve that speaks for a subject, with its judgement."""

    curve: Curve
    found: Breakdown


def verdict(
    breakdowns: Sequence[Breakdown],
    *,
    curves: Sequence[Curve],
    num_cores: int | None = None,
) -> str:
    """Returns a sentence or two for each model, chip, direction and regime.

    Those over compiled points name model and chip, and that nothing was measured.

    Where no curve has as much as a baseline, that stands before them.
    `breakdowns` are those of the `curves` for which `is_judged` holds, in the same
    order; the simulated ones tell what lies beyond. `num_cores` of the machine that
    measured bound what a curve on `cpu` can reach.
    """
    judged = [curve for curve in curves if is_judged(curve)]
    pairs = [
        _Speaker(curve=curve, found=found)
        for curve, found in zip(judged, breakdowns, strict=True)
    ]
    simulated = [c for c in curves if c.kind == "scaling" and not is_judged(c)]
    subjects = dict.fromkeys(map(_subject, (*judged, *simulated)))
    named = len({subject[:3] for subject in subjects}) > 1
    sentences: list[str] = []
    for subject in sorted(subjects, key=_order):
        mine = [each for each in pairs if _subject(each.curve) == subject]
        beyond = [curve for curve in simulated if _subject(curve) == subject]
        body = _body(mine, beyond=beyond, num_cores=num_cores)
        sentences.append(f"{_title(subject, mine, named=named)}: {body}.")
    if sentences and not any(_compared(curve) for curve in judged):
        sentences.insert(0, NOTHING_COMPARED)
    return " ".join(sentences) or NO_CURVE


def _subject(curve: Curve) -> _Subject:
    compiled = curve.provenance == "compiled"
    return (curve.model, curve.chip, compiled, str(curve.direction), str(curve.regime))


def _order(subject: _Subject) -> tuple[object, ...]:
    model, chip, compiled, direction, regime = subject
    return (compiled, model, chip, direction != "vertical", regime != "strong")


def _title(subject: _Subject, mine: Sequence[_Speaker], *, named: bool) -> str:
    model, chip, compiled, direction, regime = subject
    details = [regime]
    if len({batch_text(each.curve) for each in mine}) > 1:
        details.append(batch_text(_speaker(mine).curve))
    title = f"{direction} ({', '.join(details)})"
    if compiled:
        return f"{model} compiled for {chip}, {title}"
    return f"{model} on {chip}, {title}" if named else title.capitalize()


def _speaker(mine: Sequence[_Speaker]) -> _Speaker:
    """Returns the curve to speak; `mine` has those of the newest environment first.

    An environment in which every run failed, as on a platform that is not the one asked
    for, does not silence an older one that has results.
    """
    heard = next((each for each in mine if _compared(each.curve)), mine[0])
    newest = [each for each in mine if each.curve.series == heard.curve.series]

    def preference(each: _Speaker) -> tuple[object, ...]:
        first = each.curve.points[0]
        return (
            not _compared(each.curve),
            first.num_devices,
            each.curve.growth != "best",
            -len(each.curve.points),
            -first.global_batch_size,
        )

    return min(newest, key=preference)


def _body(
    mine: Sequence[_Speaker], *, beyond: Sequence[Curve], num_cores: int | None
) -> str:
    if not mine:
        return (
            f"not measurable here{_cores(beyond[0].chip, num_cores)}; devices that "
            "share cores are simulated, which is shown and not judged"
        )
    speaker = _speaker(mine)
    parts = [
        _claim(speaker),
        _lost(speaker),
        _start(speaker.curve),
        _end(speaker.curve),
        _horizon(speaker.curve, beyond=beyond, num_cores=num_cores),
        _others(speaker, mine),
    ]
    return "; ".join(filter(None, parts))


def _claim(speaker: _Speaker) -> str:
    curve, found = speaker.curve, speaker.found
    if fallen := falls(curve):
        earlier, later = (_size(curve, point) for point in fallen)
        claim = f"total throughput falls from {earlier} to {later}"
        return f"{claim}: {_kept(curve, fallen[1])}; {_good_up_to(speaker)}"
    if found.outcome == "breaks":
        bad = _at(curve, found.first_bad_devices)
        claim = f"stops paying at {_size(curve, bad)}: {_kept(curve, bad)}"
        return f"{claim}, below {found.threshold:g}; {_good_up_to(speaker)}"
    if found.outcome == "none_in_range":
        return f"no break in range: {_kept(curve, _compared(curve)[-1])}"
    return _undecided(speaker)


def _good_up_to(speaker: _Speaker) -> str:
    curve, found = speaker.curve, speaker.found
    last_good = found.last_good_devices
    if last_good is None or last_good == _compared(curve)[0].num_devices:
        return f"nothing above {_size(curve, _compared(curve)[0])} surely pays"
    bad = found.first_bad_devices or math.inf
    between = [p for p in unsure(curve, found.threshold) if p.num_devices < bad]
    undecided = ", undecided between" if between and found.first_bad_devices else ""
    return f"pays up to {_size(curve, _at(curve, last_good))}{undecided}"


def _undecided(speaker: _Speaker) -> str:
    curve, threshold = speaker.curve, speaker.found.threshold
    open_points = unsure(curve, threshold)
    known = [point for point in open_points if point.efficiency is not None]
    if not _compared(curve):
        return "undecided, no point has a result"
    if len(_compared(curve)) < 2 or not open_points:
        return f"undecided, no larger mesh than the baseline was {_done(curve)}"
    parts = [f"undecided at {threshold:g}"]
    if (speaker.found.last_good_devices or 0) > _compared(curve)[0].num_devices:
        parts.append(_good_up_to(speaker))
    if known:
        parts[0] += f": {_kept(curve, known[0])}"
        parts.append(_cure(curve, known, threshold))
    parts.extend(
        f"at {_size(curve, point)} there is no figure ({_words(point.status)})"
        for point in open_points
        if point.efficiency is None
    )
    return "; ".join(parts)


def _cure(curve: Curve, known: Sequence[CurvePoint], threshold: float) -> str:
    """Returns what would settle the points, if their estimates stay as they are."""
    if curve.provenance != "measured":
        return f"the band of the prediction spans {threshold:g}"
    needed = [_more_runs(point, threshold) for point in known]
    if None in needed:
        return (
            "a single run gives no interval, a claim takes 2 runs of every point at "
            "least and 5 usually (--repeats 5)"
        )
    # Only half of the runs estimate a point of best meshes.
    most = max(filter(None, needed)) * (2 if curve.growth == "best" else 1)
    if most > MANY_RUNS:
        return f"too close to {threshold:g} for {MANY_RUNS} more runs a point to settle"
    plural = "run" if most == 1 else "runs"
    return f"about {most:.0f} more {plural} a point would settle it"


def _more_runs(point: CurvePoint, threshold: float) -> float | None:
    """Returns how many more runs shrink the half-width to the distance from threshold.

    Half-widths go with one over the root of the number of runs. None without one.
    """
    if not point.efficiency or not point.efficiency_high:
        return None
    distance = abs(math.log(point.efficiency / threshold))
    half_width = math.log(point.efficiency_high / point.efficiency)
    if distance == 0:
        return math.inf
    factor = (half_width / distance) ** 2
    return max(1, math.ceil(point.num_runs * (factor - 1)))


def _lost(speaker: _Speaker) -> str | None:
    """Returns what most of the time goes to that a step loses, where that is known."""
    curve, found = speaker.curve, speaker.found
    if found.causes is None or found.first_cause is None:
        return None
    at = found.first_bad_devices or _compared(curve)[-1].num_devices
    lost = quantity.seconds(found.lost_time_s)
    size = _size(curve, _at(curve, at))
    return f"at {size} a step loses {lost}, most of it to {found.first_cause}"


def _start(curve: Curve) -> str | None:
    full = beginning(curve)
    return full and f"{_size(curve, full)} {_are(curve, full)} too few, out of memory"


def _end(curve: Curve) -> str | None:
    end = ending(curve)
    return end and f"ends at {_size(curve, end)}: {_words(end.status)}"


def _horizon(
    curve: Curve, *, beyond: Iterable[Curve], num_cores: int | None
) -> str | None:
    """Returns that the machine has no more to measure with, where that is so."""
    last = (_compared(curve) or curve.points)[-1]
    simulated = any(
        point.num_devices > last.num_devices for c in beyond for point in c.points
    )
    full = num_cores is not None and last.num_devices >= num_cores
    if not simulated and not (full and _on_cpu(curve.chip)):
        return None
    figure = last.num_slices if curve.direction == "horizontal" else last.num_devices
    return f"beyond {figure} not measurable here{_cores(curve.chip, num_cores)}"


def _others(speaker: _Speaker, mine: Sequence[_Speaker]) -> str | None:
    """Returns how many other curves break where the speaker's does not."""
    if speaker.found.outcome in ("breaks", "retrograde"):
        return None
    series = speaker.curve.series
    others = [e for e in mine if e is not speaker and e.curve.series == series]
    breaking = [e for e in others if e.found.outcome in ("breaks", "retrograde")]
    if not breaking:
        return None
    return f"{len(breaking)} of {len(others)} other curves of this kind do break"


def _kept(curve: Curve, point: CurvePoint) -> str:
    """Returns `1 → 2 devices keeps 0.86 [0.84, 0.88] of the throughput per device`."""
    first = _compared(curve)[0]
    if curve.direction == "horizontal":
        grown = f"{first.num_slices} → {_size(curve, point)}"
    else:
        grown = f"{first.num_devices} → {_size(curve, point)}"
    mesh = f" (mesh {point.mesh})" if curve.growth == "best" else ""
    bounds = (point.efficiency_low, point.efficiency_high)
    low, high = (quantity.ratio(bound) for bound in bounds)
    interval = f" [{low}, {high}]" if None not in bounds else ""
    kept = f"{quantity.ratio(point.efficiency)}{interval}"
    return f"{grown}{mesh} keeps {kept} of the throughput per device"


def _size(curve: Curve, point: CurvePoint) -> str:
    """Returns `4 devices`, or horizontally `4 slices of 8 devices`."""
    if curve.direction == "vertical":
        return quantity.counted(point.num_devices, "device")
    each = point.num_devices // point.num_slices
    slices = quantity.counted(point.num_slices, "slice")
    return slices if each == 1 else f"{slices} of {quantity.counted(each, 'device')}"


def _cores(chip: str, num_cores: int | None) -> str:
    if num_cores is None or not _on_cpu(chip):
        return ""
    return f" ({quantity.counted(num_cores, 'core')})"


def _on_cpu(chip: str) -> bool:
    return chip in CHIPS and CHIPS[chip].platform == "cpu"


def _are(curve: Curve, point: CurvePoint) -> str:
    return "is" if _size(curve, point).startswith("1 ") else "are"


def _done(curve: Curve) -> str:
    return "compiled" if curve.provenance == "compiled" else "measured"


def _words(status: str) -> str:
    return status.replace("_", " ")


def _compared(curve: Curve) -> list[CurvePoint]:
    return [point for point in curve.points if point.efficiency is not None]


def _at(curve: Curve, num_devices: int | None) -> CurvePoint:
    return next(point for point in curve.points if point.num_devices == num_devices)
