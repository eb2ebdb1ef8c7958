"""A story on two cores: both directions, both regimes, a load, and failures."""

import itertools
import math
import random
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaling.measurement import Block
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Point
from scaling.report.findings import Findings
from scaling.report.findings import find
from scaling.report.write import ReportPaths
from scaling.report.write import write_report

SCRIPT = "<script>alert('owned')</script>"
"""What a reason may hold when a worker printed it."""

ENVIRONMENT = Environment(
    versions={"python": "3.11.7", "jax": "0.10.2", "jaxlib": "0.10.2"},
    device_kind="cpu",
    host_cpu_model="Test CPU @ 2.00GHz",
    flags={"XLA_FLAGS": "--xla_dump_to=<here>"},
    code_hash="0123456789abcdef",
    commit="abc1234-dirty",
    hostname="host-1",
    num_cores=2,
)

_RUNS = itertools.count()
"""No two runs have the same digits, whatever story they are of."""

FAILURES: tuple[tuple[str, Status, str], ...] = (
    ("1/tensor=2", "hang", "process 0 finished no step for 30 s"),
    ("tensor=2/1", "crash", f"process 1 ended by signal 11 {SCRIPT}"),
    ("1/fsdp=3", "invalid", "batch 16 does not divide by fsdp=3; nearest: 15 or 18"),
)


class Story:
    """Measurements in the order in which they were started."""

    def __init__(self, environment: Environment = ENVIRONMENT):
        self.environment = environment
        self.measurements: list[Measurement] = []
        self._random = random.Random(7)

    def run(
        self,
        mesh: str,
        batch: int,
        *,
        step_time_s: float | None = None,
        status: Status = "ok",
        reason: str | None = None,
        regime: str = "strong",
        provenance: Provenance = "measured",
        repeats: int = 5,
        num_processes: int = 1,
    ) -> None:
        point = Point.model_validate(
            {
                "model": "tiny",
                "chip": "cpu",
                "mesh": mesh,
                "global_batch_size": batch,
                "seq_len": 128,
                "compute_dtype": "float32",
                "regime": regime,
            }
        )
        for _ in range(repeats):
            number = next(_RUNS)
            minute, second = divmod(number % 3600, 60)
            noise = math.exp(self._random.gauss(0, 0.01))
            time_s = step_time_s and step_time_s * noise
            self.measurements.append(
                Measurement(
                    id=point.id,
                    run=f"{number:012x}",
                    sweep="cpu_story",
                    point=point,
                    status=status,
                    reason=reason,
                    phase="run" if status == "out_of_memory" else None,
                    provenance=provenance,
                    started_at=f"2025-11-03T10:{minute:02}:{second:02}+00:00",
                    environment=self.environment,
                    blocks=tuple(self._blocks(time_s, num_processes)),
                    compilations_in_window=0 if status == "ok" else None,
                )
            )

    def _blocks(self, step_time_s: float | None, num_processes: int) -> Iterator[Block]:
        for _ in range(5 if step_time_s else 0):
            slow = math.exp(self._random.gauss(0, 0.005)) * (step_time_s or 0)
            yield Block(steps=4, elapsed_s=(4 * slow,) * num_processes)


def two_cores() -> list[Measurement]:
    """Efficiency 0.86 vertically, 0.74 horizontally, in strong scaling."""
    story = Story()
    one = 0.170
    story.run("1/1", 16, step_time_s=one)
    story.run("1/data=2", 16, step_time_s=one / 2 / 0.86)
    story.run("1/fsdp=2", 16, step_time_s=one / 2 / 0.81)
    story.run("data=2/1", 16, step_time_s=one / 2 / 0.74, num_processes=2)
    story.run("1/data=4", 16, step_time_s=one / 2 / 0.80, provenance="simulated")
    story.run("1/1", 8, step_time_s=0.088, regime="weak")
    story.run("1/data=2", 16, step_time_s=0.088 / 0.93, regime="weak")
    story.run("data=2/1", 16, step_time_s=0.088 / 0.85, regime="weak", num_processes=2)
    for batch in (2, 4, 8, 32):
        story.run("1/1", batch, step_time_s=one * (batch + 2) / 18)
    story.run(
        "1/1",
        64,
        status="out_of_memory",
        reason="needs 31.0 GiB, the control group has 24.0 GiB",
        repeats=1,
    )
    story.run("1/1", 128, status="skipped", reason="batch 64 was too large", repeats=1)
    for mesh, status, reason in FAILURES:
        story.run(mesh, 16, status=status, reason=reason, repeats=1)
    return story.measurements


@pytest.fixture
def new_story() -> Callable[..., Story]:
    return Story


@pytest.fixture(scope="session")
def findings() -> Findings:
    return find(two_cores(), problems=("cpu_story/x.json: is not JSON <b>bold</b>",))


@pytest.fixture(scope="session")
def written(
    findings: Findings, tmp_path_factory: pytest.TempPathFactory
) -> ReportPaths:
    return write_report(findings, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="session")
def page(written: ReportPaths) -> str:
    return Path(written.page).read_text(encoding="utf-8")
