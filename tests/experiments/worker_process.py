"""Workers started as the runner starts them, and heard to their end."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.protocol import EVENT
from experiments.protocol import Job
from experiments.protocol import Timing
from scaling.point import Point

SHORT = Timing(num_blocks=3, min_block_s=0.05, max_warm_up_s=2.0)


class SpawnedWorker:
    """One worker process; its events as they come."""

    def __init__(self, job: Job, *, log: Path, **environ: str):
        read, write = os.pipe()
        devices = job.point.mesh.devices_per_slice
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "experiments.worker", "--events_fd"]
                + [str(write)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[write],
                env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), **environ},
            )
        os.close(write)
        self.log = log
        self.events: list[Any] = []
        self._lines = os.fdopen(read)
        assert self.process.stdin is not None
        self.process.stdin.write(job.model_dump_json().encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Iterator[Any]:
        """Yields the events that are still to come."""
        for line in self._lines:
            self.events.append(EVENT.validate_json(line))
            yield self.events[-1]

    def hear_until(self, event: str, **fields: object) -> Any:
        """Returns the next event of that kind with those fields."""
        for heard in self.hear():
            if heard.event == event and fields.items() <= dict(heard).items():
                return heard
        raise AssertionError(f"no {event}:\n{self.log.read_text()}")

    def of_kind(self, event: str) -> list[Any]:
        """Returns the events of one kind that were heard."""
        return [heard for heard in self.events if heard.event == event]

    def losses(self) -> dict[int, float]:
        """Returns the loss of each step that was reported."""
        return {heard.step: heard.loss for heard in self.of_kind("step")}

    def end(self) -> int:
        """Hears the rest; returns the exit code."""
        for _ in self.hear():
            pass
        code = self.process.wait(timeout=60)
        self.close()
        return code

    def close(self) -> None:
        """Ends it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._lines.close()
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()


def spawn(point: Point, folder: Path, *, timing: Timing = SHORT, **environ: str):
    """Returns the workers of a run of `point`, one for each slice of its mesh."""
    count = point.mesh.num_slices
    coordinator = f"127.0.0.1:{_free_port()}" if count > 1 else None
    spawned_at_s = time.monotonic()
    return [
        SpawnedWorker(
            Job(
                point=point,
                run="0123456789ab",
                process_index=index,
                num_processes=count,
                coordinator=coordinator,
                spawned_at_s=spawned_at_s,
                data_folder=str(folder / "data"),
                checkpoint_folder=str(folder / "checkpoints"),
                timing=timing,
            ),
            log=folder / f"worker{index}.log",
            **environ,
        )
        for index in range(count)
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
