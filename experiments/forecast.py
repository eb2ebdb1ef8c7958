"""Forecast: how long the runs that are still due will take."""

from collections.abc import Iterable
from statistics import fmean

from experiments.plan import RUN_OVERHEAD_S
from experiments.protocol import Timing
from experiments.schedule import Turn
from meshes import hardware
from scaling.measurement import Measurement
from scaling.point import Point

_GUESSED_WARM_UP_FRACTION = 0.3


class Forecast:
    """Learns from runs as they end; before the first it is a guess from the timing."""

    def __init__(self, timing: Timing):
        timed_s = timing.num_blocks * timing.min_block_s
        self._guessed_steps_s = timed_s * (1 + _GUESSED_WARM_UP_FRACTION)
        self._durations_s: dict[str, list[float]] = {}

    def learn(self, runs: Iterable[Measurement]) -> None:
        """Takes in how long these runs took."""
        for run in runs:
            if run.phases_s:
                took_s = sum(run.phases_s.values())
                self._durations_s.setdefault(run.id, []).append(took_s)

    def run_s(self, point: Point) -> float:
        """Returns what a run of a point will take: as before, or as others did."""
        known_s = self._durations_s.get(point.id)
        if known_s is None:
            known_s = [d for each in self._durations_s.values() for d in each]
        if known_s:
            return fmean(known_s)
        platform = hardware.chip(point.chip).platform
        return RUN_OVERHEAD_S[platform] + self._guessed_steps_s

    def left_s(self, turns: Iterable[Turn], *, elapsed_s: float = 0.0) -> float:
        """Returns the time of `turns`, the first of which has run for `elapsed_s`.

        As long as nothing is known, a run that takes longer than was guessed says the
        same of the others.
        """
        expected_s = [self.run_s(turn.point) for turn in turns]
        if not expected_s:
            return 0.0
        first_s, *others_s = expected_s
        slower = 1.0 if self._durations_s else max(1.0, elapsed_s / first_s)
        return max(0.0, first_s - elapsed_s) + slower * sum(others_s)
