"""Measurements made up for the statistics: known step times, no clock."""

import datetime as dt
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import pytest

from meshes.spec import MeshSpec
from scaling.compiled import CompiledPrediction
from scaling.measurement import Block
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
ENVIRONMENT = Environment(
    versions={"python": "3.11", "jax": "0.10.2", "jaxlib": "0.10.2"},
    device_kind="TPU v5 lite",
    host_cpu_model="some CPU",
    flags={},
    code_hash="0" * 64,
    commit=None,
    hostname="host",
    num_cores=8,
)


def a_point(**fields: Any) -> Point:
    mesh = fields.pop("mesh", "1/1")
    return Point(
        mesh=MeshSpec.parse(mesh),
        **{
            "model": "tiny",
            "chip": "v5e",
            "global_batch_size": 64,
            "seq_len": 128,
            **fields,
        },
    )


def a_prediction(
    point: Point, exposed_s: dict[str, float], *, low: float, high: float
) -> CompiledPrediction:
    seconds = {**dict.fromkeys(("compute", "hbm", "ici", "dcn"), 0.0), **exposed_s}
    step_time_s = sum(seconds.values())
    return CompiledPrediction(
        step_time_s=step_time_s,
        step_time_low_s=low * step_time_s,
        step_time_high_s=high * step_time_s,
        tokens_per_s=point.tokens_per_step / step_time_s,
        mfu=0.5,
        mfu_full_attention=0.6,
        hfu=0.7,
        peak_hbm_bytes=2**30,
        available_hbm_bytes=2**34,
        limited_by="compute",
        times_s=seconds,
        arguments_bytes=2**29,
        temporaries_bytes=2**29,
        executed_flops=1e15,
        exposed_s=seconds,
        hidden_s={"ici": 0.0, "dcn": 0.0},
        collectives=(),
        unpriced=(),
        differences=(),
    )


class Lab:
    """Makes measurements; every one is a minute younger than the one before."""

    def __init__(self) -> None:
        self.made = 0
        self.predictions: dict[tuple[str, str], CompiledPrediction] = {}
        """Of every compiled run that was made."""
        self.environment = ENVIRONMENT

    def run(
        self,
        point: Point,
        step_times_s: float | Sequence[float] = 0.1,
        **fields: Any,
    ) -> Measurement:
        """Returns a run whose blocks of two steps took `step_times_s` per step."""
        self.made += 1
        times = step_times_s if isinstance(step_times_s, Sequence) else [step_times_s]
        blocks = tuple(Block(steps=2, elapsed_s=(2 * time,)) for time in times)
        defaults = {
            "id": point.id,
            "run": f"{self.made:012x}",
            "sweep": "made_up",
            "point": point,
            "status": "ok",
            "provenance": "measured",
            "started_at": (START + self.made * MINUTE).isoformat(),
            "environment": self.environment,
            "blocks": blocks,
            "compilations_in_window": 0,
        }
        return Measurement(**{**defaults, **fields})

    def failed(self, point: Point, status: str, **fields: Any) -> Measurement:
        return self.run(
            point,
            (),
            status=status,
            reason="planted",
            compilations_in_window=None,
            **fields,
        )

    def compiled(
        self,
        exposed_s: dict[str, dict[str, float]],
        *,
        low: float = 0.9,
        high: float | None = None,
        **fields: Any,
    ) -> list[Measurement]:
        """Returns compiled runs whose steps wait these seconds by cause, by mesh.

        `low` and `high` times their sum are the ends of the band.
        """
        made: list[Measurement] = []
        for mesh, seconds in exposed_s.items():
            point = a_point(**{"mesh": mesh, **fields})
            run = self.failed(point, "ok", provenance="compiled", phase=None)
            run = run.model_copy(update={"reason": None})
            self.predictions[run.id, run.run] = a_prediction(
                point, seconds, low=low, high=high or 1 / low
            )
            made.append(run)
        return made

    def scaled(
        self,
        efficiencies: dict[str, float],
        *,
        runs: int = 5,
        noise: float = 0.01,
        base_s: float = 1.0,
        provenance: str = "measured",
        **fields: Any,
    ) -> list[Measurement]:
        """Returns runs with these efficiencies, by mesh.

        `base_s` is a step of the usual batch on one device.

        The log step times of a point's runs spread evenly by `noise`, so their mean
        is exact and their standard deviation known.
        """
        made: list[Measurement] = []
        for mesh, efficiency in efficiencies.items():
            point = a_point(**{"mesh": mesh, **fields})
            batch = point.global_batch_size / a_point().global_batch_size
            time_s = base_s * batch / (efficiency * point.mesh.num_devices)
            made += [
                self.run(point, time_s * math.exp(offset), provenance=provenance)
                for offset in even(runs, noise)
            ]
        return made


def even(runs: int, deviation: float) -> list[float]:
    """Returns evenly spread numbers of mean 0 and sample standard deviation given."""
    if runs == 1:
        return [0.0]
    steps = [i - (runs - 1) / 2 for i in range(runs)]
    scale = math.sqrt(sum(step * step for step in steps) / (runs - 1))
    return [deviation * step / scale for step in steps]


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


@pytest.fixture(scope="session")
def point() -> Callable[..., Point]:
    return a_point
