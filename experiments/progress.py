"""Progress: what a person sees while a sweep runs, always with the time left.

One line a run, on stderr. On a terminal a status line below it counts up; elsewhere a
run that takes long says so in a line of its own now and then.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import NamedTuple
from typing import TextIO

from experiments.schedule import Turn
from experiments.summary import RunSummary
from scaling import quantity
from scaling.measurement import Measurement
from scaling.point import Point
from scaling.samples import LONG_WARM_UP_FRACTION
from scaling.samples import run_statistic
from scaling.samples import usable
from scaling.utilisation import mfu

if TYPE_CHECKING:
    from rich.live import Live

_PLAIN_EVERY_S = 20.0
_LIVE_EVERY_S = 1.0

LeftS = Callable[[Sequence[float]], float]


class _Running(NamedTuple):
    text: str
    since_s: float


class Progress:
    """Writes the progress of one sweep to a stream, by default stderr."""

    def __init__(self, stream: TextIO | None = None):
        self._stream = sys.stderr if stream is None else stream
        self._live: Live | None = None
        self._labels: dict[str, str] = {}
        self._running: dict[str, _Running] = {}
        """By point id, the longest first."""
        self._left_s: LeftS = lambda elapsed_s: 0.0
        self._began_s = self._shown_s = time.monotonic()

    def begin(
        self, points: Sequence[Point], notes: Sequence[str], *, left_s: LeftS
    ) -> None:
        """Says what is about to happen.

        `left_s` returns the time left for all from the times that the runs which go on
        have taken.
        """
        self._left_s = left_s
        self._began_s = time.monotonic()
        self._labels = labels(points)
        for note in notes:
            self._line(note)
        if self._stream.isatty():
            self._start_live()

    def running(self, turn: Turn, *, number: int, total: int) -> None:
        """Says that a run goes on from now."""
        id_ = turn.point.id
        self._shown_s = time.monotonic()
        self._running[id_] = _Running(
            f"{number}/{total}  {self._labels[id_]}", self._shown_s
        )
        self._show_live()

    def tick(self) -> None:
        """Shows that time passes; cheap, and called about once a second."""
        now_s = time.monotonic()
        every_s = _PLAIN_EVERY_S if self._live is None else _LIVE_EVERY_S
        if now_s - self._shown_s < every_s:
            return
        self._shown_s = now_s
        if self._live is None and self._running:
            self._line(self._status())
        else:
            self._show_live()

    def ended(self, run: Measurement, *, number: int, total: int) -> None:
        """Writes the line of a run, with the time passed and the time left."""
        self._running.pop(run.id, None)
        place = f"{number:>{len(str(total))}}/{total}"
        text = f"{place}  {self._labels[run.id]}  {result(run)}"
        self._line(f"{text}  ({self._times()})")

    def note(self, text: str) -> None:
        """Writes a line of something that is worth knowing and stops nothing."""
        self._line(text)

    def settled(self, run: Measurement) -> None:
        """Writes the line of a point that no process was started for."""
        self._line(f"{self._labels[run.id]}  {result(run)}")

    def finish(self, summary: RunSummary) -> None:
        """Writes what the sweep came to."""
        self.close()
        for line in summary_lines(summary, self._labels):
            self._line(line)

    def close(self) -> None:
        """Leaves the terminal as it was; may be called again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _elapsed(self) -> str:
        return f"{whole(time.monotonic() - self._began_s)} passed"

    def _times(self) -> str:
        now_s = time.monotonic()
        elapsed_s = [now_s - each.since_s for each in self._running.values()]
        return f"{self._elapsed()}, {about(self._left_s(elapsed_s))} left"

    def _status(self) -> str:
        """Returns what is said of the run that has gone on for longest."""
        first, *others = self._running.values()
        more = f"and {len(others)} more  " if others else ""
        since_s = time.monotonic() - first.since_s
        return f"{first.text}  {more}for {whole(since_s)}  ({self._times()})"

    def _line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(
                text, markup=False, highlight=False, soft_wrap=True
            )
        else:
            print(text, file=self._stream, flush=True)

    def _start_live(self) -> None:
        from rich.console import Console
        from rich.live import Live

        # No thread of its own: it would take a core from what is measured, and the
        # runner starts processes.
        live = Live(
            console=Console(file=self._stream),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        self._live = live

    def _show_live(self) -> None:
        if self._live is not None and self._running:
            from rich.text import Text

            self._live.update(Text(self._status(), style="dim"), refresh=True)


def labels(points: Sequence[Point]) -> dict[str, str]:
    """Returns one text of equal width for each point: chip, mesh, batch, and the
    model, sequence length and regime where these differ between the points."""
    columns = [
        [point.chip for point in points],
        [str(point.mesh) for point in points],
        [f"B={point.global_batch_size}" for point in points],
    ]
    if len({point.model for point in points}) > 1:
        columns.insert(0, [point.model for point in points])
    if len({point.seq_len for point in points}) > 1:
        columns.append([f"T={point.seq_len}" for point in points])
    if len({point.regime for point in points}) > 1:
        columns.append([point.regime for point in points])
    widths = [max(map(len, column)) for column in columns]
    return {
        point.id: "  ".join(
            column[row].ljust(width)
            for column, width in zip(columns, widths, strict=True)
        )
        for row, point in enumerate(points)
    }


def result(run: Measurement) -> str:
    """Returns the step time of a run, or why there is none."""
    if run.status != "ok":
        return f"{run.status}: {run.reason}"
    if not usable(run):
        return "ok"
    step_time_s = math.exp(run_statistic(run))
    texts = [quantity.seconds(step_time_s)]
    if (fraction := mfu(run.point, step_time_s)) is not None:
        texts.append(f"{quantity.percent(fraction)} MFU")
    if run.provenance == "simulated":
        texts.append("simulated")
    return "  ".join(texts)


def summary_lines(summary: RunSummary, labels: Mapping[str, str]) -> list[str]:
    """Returns what is said at the end of a sweep; `labels` are the points' by id."""
    if not summary.stored and not summary.num_left:
        return [_nothing_was_due(summary)]
    runs = ", ".join(f"{number} {status}" for status, number in summary.stored.items())
    lines = [
        f"{quantity.counted(sum(summary.stored.values()), 'run')} stored in "
        f"{summary.folder}"
        f"{f': {runs}' if runs else ''}"
    ]
    parts = ", ".join(
        f"{name} {quantity.seconds(part_s)}" for name, part_s in summary.parts_s.items()
    )
    lines.append(
        f"{whole(summary.wall_s)} in all, of which harness "
        f"{quantity.percent(summary.overhead_fraction)}: {parts}"
    )
    if summary.long_warm_ups:
        lines.append(_long_warm_ups(summary, labels))
    if summary.interrupted_by is not None:
        lines.append(
            f"interrupted with {quantity.counted(summary.num_left, 'run')} still due; "
            "the same command goes on from here"
        )
    elif summary.num_left:
        lines.append(
            f"stopped with {quantity.counted(summary.num_left, 'run')} still due; "
            "the same command goes on from here"
        )
    return lines


def _nothing_was_due(summary: RunSummary) -> str:
    statuses = Counter(status or "not run" for status in summary.statuses.values())
    found = ", ".join(f"{number} {status}" for status, number in statuses.items())
    return (
        f"nothing was due: {summary.folder} has all runs of "
        f"{quantity.counted(len(summary.statuses), 'point')} ({found}); --retry STATUS "
        "makes those of a status again"
    )


def _long_warm_ups(summary: RunSummary, labels: Mapping[str, str]) -> str:
    """Returns one sentence; a dozen points that warm up long are one fact, not twelve.

    What can be done is the sweep's: its `timing` says how many blocks are timed.
    """
    longest = max(summary.long_warm_ups, key=summary.long_warm_ups.__getitem__)
    where = " ".join(labels.get(longest, longest).split())
    return (
        f"warm-up took up to {quantity.percent(summary.long_warm_ups[longest])} of the "
        f"timed window ({where}), and over {quantity.percent(LONG_WARM_UP_FRACTION)} "
        f"at {len(summary.long_warm_ups)} of "
        f"{quantity.counted(len(summary.statuses), 'point')}; more blocks in the "
        "sweep's `timing` would make it matter less"
    )


def whole(duration_s: float) -> str:
    """Returns a duration without fractions of a second."""
    return quantity.seconds(float(round(duration_s)))


def about(duration_s: float) -> str:
    """Returns a forecast as roughly as it is known."""
    if duration_s < 10:
        return whole(duration_s)
    step_s = 5 if duration_s < 120 else 10
    return f"about {whole(step_s * round(duration_s / step_s))}"
