"""Calibrate: a chip's figures as measured on this host, for predictions about it.

Every microbenchmark runs in processes of its own, confined to their cores; this one
imports no JAX. On CPU a chip is one core: its rates are those of one core alone, and
slices are processes joined over loopback.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from datetime import UTC
from datetime import datetime
from typing import Any

from experiments.cores import available_cores
from experiments.launch.local import free_port
from experiments.process import tethered
from meshes.chip import Chip
from meshes.hardware import chip_of_device_kind

TIMEOUT_S = 180.0


class CalibrationError(Exception):
    """A measurement failed; the message says which and how, in one sentence."""


def calibrate() -> Chip:
    """Returns the chip that is attached, with what this host measures of it.

    Raises CalibrationError where a measurement fails, ValueError for an unknown device.
    """
    kind = _measure("device_kind", cores=[()], devices=1)["device_kind"]
    base = chip_of_device_kind(kind)
    # A chip of CPU is one core; what feeds another chip is not to be held to one.
    own = available_cores()[:1] if base.platform == "cpu" else ()
    found = _measure("device", cores=[own], devices=1)
    figures: dict[str, Any] = {
        "matmul_flops_per_s": {d: found[d] for d in ("float32", "bfloat16")},
        "hbm_bytes_per_s": found["triad"],
    }
    hows = {
        "matmul_flops_per_s.float32": "square matmuls, the best size",
        "matmul_flops_per_s.bfloat16": "square matmuls, the best size",
        "hbm_bytes_per_s": "triad over 128 MiB arrays, two reads and a write",
    }
    if base.platform == "cpu" and len(available_cores()) > 1:
        figures |= _networks()
        hows |= {
            "hop_latency_s": "half a 1 KiB all-reduce of two devices of a process",
            "dcn_latency_s": "half a 1 KiB all-reduce of two processes, loopback",
            "dcn_bytes_per_s": "16 MiB all-reduce of two processes over loopback",
        }
    per_chip = _of_whole_chip(figures, base)
    sources = {**base.sources, **{name: _source(how) for name, how in hows.items()}}
    return Chip.model_validate({**base.model_dump(), **per_chip, "sources": sources})


def ring_of_two(times_s: dict[str, float]) -> tuple[float, float]:
    """Returns (latency of a step in s, bandwidth in bytes/s) of a ring of two.

    From all-reduce times by payload bytes: T(V) = 2·α + V/W, the equation that
    `meshes.collectives` predicts with. Raises CalibrationError where the times would
    make one of them zero or less.
    """
    (small, small_s), (large, large_s) = sorted((int(v), t) for v, t in times_s.items())
    seconds_per_byte = (large_s - small_s) / (large - small)
    if seconds_per_byte <= 0:
        raise CalibrationError(
            f"an all-reduce of {large} bytes took {large_s:.2g} s and one of {small} "
            f"bytes {small_s:.2g} s; the machine is too busy to calibrate"
        )
    latency_s = (small_s - small * seconds_per_byte) / 2
    if latency_s <= 0:
        raise CalibrationError(
            f"an all-reduce of {small} bytes took {small_s:.2g} s, less than its share "
            f"of the {large_s:.2g} s that one of {large} bytes took; the machine is "
            "too busy to calibrate"
        )
    return latency_s, 1 / seconds_per_byte


def _networks() -> dict[str, float]:
    one, other = available_cores()[:2]
    within = _measure("all_reduce", cores=[(one, other)], devices=2)
    between = _measure("all_reduce", cores=[(one,), (other,)], devices=1)
    latency_s, bytes_per_s = ring_of_two(between)
    return {
        "hop_latency_s": ring_of_two(within)[0],
        "dcn_latency_s": latency_s,
        "dcn_bytes_per_s": bytes_per_s,
    }


def _of_whole_chip(figures: dict[str, Any], base: Chip) -> dict[str, Any]:
    """Returns the figures of one device as those of the chip it is a part of."""
    count = base.devices_per_chip
    matmul = figures["matmul_flops_per_s"]
    return {
        **figures,
        "matmul_flops_per_s": {dtype: rate * count for dtype, rate in matmul.items()},
        "hbm_bytes_per_s": figures["hbm_bytes_per_s"] * count,
    }


def _source(how: str) -> str:
    today = datetime.now(UTC).date().isoformat()
    return f"measured by `scaling calibrate` on {socket.gethostname()}, {today}: {how}"


def _measure(
    name: str, *, cores: Sequence[tuple[int, ...]], devices: int
) -> dict[str, Any]:
    """Returns what a microbenchmark finds that runs in one process for each `cores`."""
    coordinator = f"127.0.0.1:{free_port()}"
    environ = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)}
    # None outlives this process, however that ends.
    command = tethered(_command(name))
    processes = []
    for index, own in enumerate(cores):
        peer = [coordinator, str(index), str(len(cores))] if len(cores) > 1 else []
        with _confined(own):
            processes.append(
                subprocess.Popen(
                    [*command, *peer], env=environ, stdout=subprocess.PIPE, text=True
                )
            )
    try:
        outputs = [p.communicate(timeout=TIMEOUT_S)[0] for p in processes]
    except subprocess.TimeoutExpired as error:
        raise CalibrationError(
            f"measuring {name} took more than {TIMEOUT_S:g} s"
        ) from error
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(process.returncode for process in processes):
        codes = [process.returncode for process in processes]
        raise CalibrationError(f"measuring {name} failed with exit codes {codes}")
    return json.loads(outputs[0].splitlines()[-1])


def _command(name: str) -> list[str]:
    return [sys.executable, "-P", "-m", "experiments.microbenchmarks", name]


@contextlib.contextmanager
def _confined(cores: tuple[int, ...]) -> Iterator[None]:
    """Starts what is started within on `cores`: a child inherits them."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
