"""A sweep run by the fake worker, in this process or in one of its own."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from experiments import cores
from experiments import store
from experiments.compiling import Compiling
from experiments.progress import Progress
from experiments.protocol import Timing
from experiments.runner import run_sweep
from experiments.summary import RunSummary
from experiments.sweep import Sweep
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point

FAKE_WORKER = Path(__file__).parent.parent / "fake_worker.py"


def point_of(mesh: str = "1/1", batch: int = 8, **fields: Any) -> Point:
    usual = {
        "model": "tiny",
        "chip": "cpu",
        "seq_len": 64,
        "data": "synthetic",
        "compute_dtype": "float32",
    }
    return Point.model_validate(
        {"mesh": mesh, "global_batch_size": batch, **usual, **fields}
    )


# A test run in the background of a shell inherits an ignored SIGINT, and so would the
# runner, which rightly leaves an ignored signal alone.
_PROGRAM = """
import json, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
from experiments.compiling import Compiling
from experiments.measuring import Measuring
from experiments.runner import run_sweep
from experiments.sweep import Sweep
sweep = Sweep.model_validate_json(sys.argv[1])
works = {"measuring": Measuring, "compiling": Compiling}
work = works[sys.argv[2]](**json.loads(sys.argv[3]))
sys.exit(run_sweep(sweep, work, **json.loads(sys.argv[4])).exit_code())
"""


@pytest.fixture(autouse=True, scope="module")
def _environment_as_jax_never_was_here():
    # JAX leaves these behind in any process that imports it, as tests before may have;
    # the runner never imports JAX, so its environment must not have them.
    for name in ("TPU_SKIP_MDS_QUERY", "TPU_LIBRARY_PATH"):
        os.environ.pop(name, None)


class Fake:
    """Runs points with the fake worker under one results folder."""

    def __init__(self, folder: Path):
        self.results = folder / "results"
        self.script = folder / "script.json"
        self.output = io.StringIO()
        # Not the host's: another test run on the same cores is none of its business.
        self.cores_folder = folder / "cores"

    @property
    def folder(self) -> Path:
        return self.results / "fake"

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-S", str(FAKE_WORKER), str(self.script)]

    def behave(self, behaviours: dict[str, Any]) -> None:
        self.script.write_text(json.dumps(behaviours))

    def sweep(self, points: tuple[Point, ...], repeats: int = 1) -> Sweep:
        return Sweep(
            name="fake",
            question="Does the runner do as it says?",
            points=points,
            repeats=repeats,
            timing=Timing(num_blocks=3, min_block_s=0.01),
        )

    def run(self, *points: Point, repeats: int = 1, **options: Any) -> RunSummary:
        return run_sweep(
            self.sweep(points, repeats),
            **{
                "results": self.results,
                "worker_command": self.command,
                "progress": Progress(self.output),
                "timeout_s": 60.0,
                "cores_folder": self.cores_folder,
                **options,
            },
        )

    def compile(self, *points: Point, **options: Any) -> RunSummary:
        """Compiles with the fake worker; `work` has the arguments of Compiling."""
        work = Compiling(**options.pop("work", {}))
        return self.run(*points, work=work, **options)

    def start(
        self,
        *points: Point,
        repeats: int = 1,
        kind: str = "measuring",
        work: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Starts the same in a process of its own, whose output can be read.

        `work` has the arguments of the work of this kind.
        """
        sweep = self.sweep(points, repeats).model_dump_json()
        given = {
            "results": str(self.results),
            "worker_command": self.command,
            "cores_folder": str(self.cores_folder),
            **options,
        }
        return subprocess.Popen(
            [
                *(sys.executable, "-c", _PROGRAM, sweep, kind),
                *(json.dumps(dict(work)), json.dumps(given)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stored(self) -> tuple[Measurement, ...]:
        loaded = store.load(self.results)
        assert loaded.problems == ()
        return loaded.measurements

    def only_run(self) -> Measurement:
        (run,) = self.stored()
        return run


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    # Two cores wherever the tests run; the fake worker is confined to none.
    monkeypatch.setattr(cores, "available_cores", lambda: (0, 1))
    made = Fake(tmp_path)
    made.behave({})
    return made


@pytest.fixture
def make_point() -> Callable[..., Point]:
    """Returns `(mesh="1/1", batch=8, **fields) -> Point`: tiny, on CPU."""
    return point_of


@pytest.fixture
def make_run() -> Callable[..., Measurement]:
    """Returns `(point=tiny on CPU, **fields) -> Measurement`: an `ok` run, no samples.

    `environment` takes fields of its own.
    """

    def run(
        point: Point | None = None,
        environment: Mapping[str, Any] = MappingProxyType({}),
        **fields: Any,
    ) -> Measurement:
        point = point_of() if point is None else point
        where = Environment(
            versions={},
            device_kind="cpu",
            host_cpu_model="a processor",
            flags={},
            code_hash="0",
            commit=None,
            hostname="here",
            num_cores=1,
        )
        usual = {
            "id": point.id,
            "run": "0" * 12,
            "sweep": "s",
            "point": point,
            "status": "ok",
            "provenance": "measured",
            "started_at": "2026-01-01",
            "environment": where.model_copy(update=dict(environment)),
        }
        return Measurement.model_validate({**usual, **fields})

    return run
