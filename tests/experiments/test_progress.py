"""The status line on a terminal, and the words at the end of a sweep."""

import io
import os
import pty
import select
import threading
from collections.abc import Callable
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from experiments import progress
from experiments.progress import Progress
from experiments.schedule import Turn
from experiments.summary import RunSummary
from scaling.measurement import Block
from scaling.measurement import Measurement
from scaling.point import Point

MakePoint = Callable[..., Point]
MakeRun = Callable[..., Measurement]


class Terminal:
    def __init__(self):
        self._main, self._other = pty.openpty()
        self.stream = os.fdopen(self._other, "w")

    def shown(self, until: str) -> str:
        """Returns what is shown up to a text, which must come within ten seconds."""
        self.stream.flush()
        text = ""
        # The kernel hands on what was written in pieces.
        while until not in text and select.select([self._main], [], [], 10.0)[0]:
            text += os.read(self._main, 100_000).decode()
        return text

    def close(self) -> None:
        self.stream.close()
        os.close(self._main)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    made = Terminal()
    yield made
    made.close()


def test_a_terminal_sees_time_pass_and_no_thread_is_started(
    terminal: Terminal, make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    threads = threading.active_count()
    now_s = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0])
    monkeypatch.setattr(progress, "time", clock)
    shown = Progress(terminal.stream)
    shown.begin([make_point()], ["a note"], left_s=lambda each: 40.0 - each[0])
    shown.running(Turn(make_point(), 0), number=1, total=3)
    now_s[0] += 10.0
    shown.tick()
    text = terminal.shown(until="about 30 s left")
    assert "a note" in text
    assert "1/3  cpu  1/1  B=8" in text
    assert "for 10 s  (10 s passed, about 30 s left)" in text
    assert threading.active_count() == threads
    shown.close()
    assert "\x1b[?25h" in terminal.shown(until="\x1b[?25h"), "the cursor is back"


def test_of_several_that_go_on_the_longest_is_told(
    make_point: MakePoint, monkeypatch: pytest.MonkeyPatch
):
    now_s = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now_s[0])
    monkeypatch.setattr(progress, "time", clock)
    output = io.StringIO()
    shown = Progress(output)
    points = [make_point(batch=batch) for batch in (8, 16)]
    shown.begin(points, [], left_s=sum)
    for number, point in enumerate(points, start=1):
        shown.running(Turn(point, 0), number=number, total=2)
        now_s[0] += 25.0
    shown.tick()
    line = output.getvalue().splitlines()[-1]
    assert line.startswith("1/2  cpu  1/1  B=8   and 1 more  for 50 s  ")
    assert line.endswith("(50 s passed, about 75 s left)")


def test_labels_are_of_one_width_and_name_what_differs(make_point: MakePoint):
    points = [
        make_point("1/1", 8),
        make_point("data=2/fsdp=2", 16, seq_len=128),
        make_point("1/1", 8, model="gpt2-124m"),
    ]
    texts = progress.labels(points)
    assert [texts[point.id] for point in points] == [
        "tiny       cpu  1/1            B=8   T=64 ",
        "tiny       cpu  data=2/fsdp=2  B=16  T=128",
        "gpt2-124m  cpu  1/1            B=8   T=64 ",
    ]


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0.0, "0 s"), (4.4, "4 s"), (33.0, "about 35 s"), (284.0, "about 4 min 40 s")],
)
def test_a_forecast_is_said_as_roughly_as_it_is_known(duration_s: float, text: str):
    assert progress.about(duration_s) == text


def test_an_impossible_utilisation_is_not_shown_as_measured(
    make_point: MakePoint, make_run: MakeRun
):
    def shown(step_time_s: float) -> str:
        run = make_run(
            make_point(model="gpt2-124m", chip="v5e", seq_len=1024),
            environment={"device_kind": "TPU v5 lite"},
            blocks=(Block(steps=1, elapsed_s=(step_time_s,)),),
            compilations_in_window=0,
        )
        return progress.result(run)

    assert shown(1.0) == "1 s  3.3 % MFU"
    assert shown(1e-4) == "100 µs"


def test_the_end_tells_the_split_and_how_to_go_on():
    summary = RunSummary(
        sweep="s",
        folder="results/s",
        seed="x",
        statuses={"a": "ok", "b": None},
        stored={"ok": 3, "hang": 1},
        wall_s=200.0,
        useful_s=180.0,
        parts_s={"planning": 5.0, "exits": 15.0},
        long_warm_ups={"a": 0.5, "b": 0.4},
        num_left=2,
        interrupted_by=2,
    )
    assert progress.summary_lines(summary, {"a": "cpu  1/1  B=8 "}) == [
        "4 runs stored in results/s: 3 ok, 1 hang",
        "3 min 20 s in all, of which harness 10.0 %: planning 5 s, exits 15 s",
        "warm-up took up to 50.0 % of the timed window (cpu 1/1 B=8), and over 30.0 % "
        "at 2 of 2 points; more blocks in the sweep's `timing` would make it matter "
        "less",
        "interrupted with 2 runs still due; the same command goes on from here",
    ]


def test_a_command_with_nothing_to_do_says_so():
    summary = RunSummary(
        sweep="s",
        folder="results/s",
        seed="x",
        statuses={"a": "ok", "b": "ok", "c": "wrong_platform"},
        stored={},
        wall_s=0.1,
        useful_s=0.0,
        parts_s={"planning": 0.1},
    )
    (line,) = progress.summary_lines(summary, {})
    assert line.startswith(
        "nothing was due: results/s has all runs of 3 points (2 ok, 1 wrong_platform)"
    )
    assert "--retry STATUS" in line


def test_the_regime_is_told_where_points_differ_by_nothing_else(make_point):
    strong, weak = make_point(), make_point(regime="weak")
    found = progress.labels([strong, weak])
    assert found[strong.id].split()[-1] == "strong"
    assert found[weak.id].split()[-1] == "weak"
    assert "strong" not in progress.labels([strong])[strong.id]
