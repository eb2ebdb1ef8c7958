"""Forecast: how long the runs that are still due will take."""

from collections.abc import Iterable
from collections.abc import Sequence
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

    def __init__(self, timing: Timing, jobs: int = 1):
        """Takes how long runs are and how many go on at a time."""
        timed_s = timing.num_blocks * timing.min_block_s
        self._guessed_steps_s = timed_s * (1 + _GUESSED_WARM_UP_FRACTION)
        self._jobs = jobs
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

    def left_s(
        self, turns: Sequence[Turn], *, elapsed_s: Sequence[float] = ()
    ) -> float:
        """Returns the time of `turns`, the first of which have run for `elapsed_s`.

        As long as nothing is known, a run that takes longer than was guessed says the
        same of those to come.
        """
        expected_s = [self.run_s(turn.point) for turn in turns]
        begun_s, others_s = expected_s[: len(elapsed_s)], expected_s[len(elapsed_s) :]
        pairs = list(zip(begun_s, elapsed_s, strict=False))
        slower = 1.0
        if not self._durations_s:
            slower = max([1.0, *(taken_s / run_s for run_s, taken_s in pairs)])
        rests_s = [max(0.0, run_s - taken_s) for run_s, taken_s in pairs]
        total_s = sum(rests_s) + slower * sum(others_s)
        return max([total_s / self._jobs, *rests_s])
