"""Report over many stored runs: seconds and peak memory of `scaling report`.

    python benchmarks/report.py [--points 2000] [--repeats 5] [--blocks 10]

Makes that many points in a temporary folder (two models on v5e, vertically to 256
devices and horizontally to 8 slices, strong and weak, several batches, some of them
failures), each with that many runs of that many timed blocks, writes a run file for
each, and reports over them in a fresh process, reading the files included.
"""

import argparse
import itertools
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from meshes.spec import enumerate_meshes
from scaling.measurement import Block
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point

ENVIRONMENT = Environment(
    versions={"python": "3.12", "jax": "0.12.0", "jaxlib": "0.12.0"},
    device_kind="TPU v5 lite",
    host_cpu_model="made up",
    flags={},
    code_hash="0" * 16,
    commit=None,
    hostname="host",
    num_cores=112,
)
FAILURE_SHARE = 0.05
RUN_NOISE = 0.01
BLOCK_NOISE = 0.01


def main() -> None:
    """Makes the runs, reports over them, and prints what that took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = make_runs(Path(folder), args.points, args.repeats, args.blocks)
        command = [sys.executable, "-P", "-m", "experiments.cli", "report", folder]
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        seconds = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = usage.ru_utime + usage.ru_stime
    print(f"runs {made}")
    print(f"seconds {seconds:.1f}")
    print(f"processor_seconds {processor_s:.1f}")
    # Linux counts in KiB.
    print(f"peak_bytes {usage.ru_maxrss * 1024}")


def make_runs(folder: Path, num_points: int, repeats: int, num_blocks: int) -> int:
    """Writes the run files and returns how many there are."""
    rng = random.Random(0)
    number = 0
    sweep = folder / "made_up"
    sweep.mkdir()
    for point in itertools.islice(points(), num_points):
        failed = rng.random() < FAILURE_SHARE
        for _ in range(repeats):
            run = a_run(point, number, failed=failed, num_blocks=num_blocks, rng=rng)
            path = sweep / f"{run.id}.{run.run}.json"
            path.write_text(run.model_dump_json(indent=1))
            number += 1
    return number


def points() -> Iterator[Point]:
    """Yields distinct points: whole scaling curves, batch after batch."""
    for batch, model, remat, regime in itertools.product(
        (256, 512, 1024, 2048),
        ("small", "llama2-7b"),
        ("none", "full"),
        ("strong", "weak"),
    ):
        for slices, devices in itertools.product((1, 2, 4, 8), (1, 4, 8, 16, 64, 256)):
            for mesh in enumerate_meshes(
                devices_per_slice=devices, num_slices=slices, axes=("data", "fsdp")
            ):
                weak = batch // 16 * mesh.num_devices
                yield Point(
                    model=model,
                    chip="v5e",
                    mesh=mesh,
                    regime=regime,
                    global_batch_size=batch if regime == "strong" else weak,
                    seq_len=1024,
                    remat=remat,
                )


def a_run(
    point: Point, number: int, *, failed: bool, num_blocks: int, rng: random.Random
) -> Measurement:
    """Returns one run: a step that scales ever worse, or an out-of-memory failure."""
    devices = point.mesh.num_devices
    share = point.tokens_per_step / devices * 1e-6
    step_time_s = (share + 2e-3 * math.log2(2 * devices)) * rng.lognormvariate(
        0, RUN_NOISE
    )
    blocks = tuple(
        Block(
            steps=4,
            elapsed_s=(4 * step_time_s * rng.lognormvariate(0, BLOCK_NOISE),)
            * point.mesh.num_slices,
        )
        for _ in range(0 if failed else num_blocks)
    )
    day, second = divmod(number, 86_400)
    return Measurement(
        id=point.id,
        run=f"{number:012x}",
        sweep="made_up",
        point=point,
        status="out_of_memory" if failed else "ok",
        reason="needs 20.0 GiB, the device has 15.7 GiB" if failed else None,
        phase="compile" if failed else None,
        provenance="measured",
        started_at=f"2026-01-{1 + day:02}T{second // 3600:02}:{second // 60 % 60:02}:"
        f"{second % 60:02}+00:00",
        environment=ENVIRONMENT,
        blocks=blocks,
        warm_up_s=(step_time_s,) * 3,
        compilations_in_window=None if failed else 0,
    )


if __name__ == "__main__":
    main()
