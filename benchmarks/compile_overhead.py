"""What `scaling compile` takes beyond the compiler, as a ratio of whole processes.

    python benchmarks/compile_overhead.py [--rounds 3] [--chip v5e:4x4] [--model tiny]

One side is `scaling compile` with one point. The other is a fresh process that imports
what the step needs, builds it and calls `lower().compile()`. Both alternate; printed
are the median of each and their ratio.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence


def main() -> None:
    """Runs the rounds and prints both medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--chip", default="v5e:4x4")
    parser.add_argument("--mesh", default="1/fsdp=16")
    parser.add_argument("--batch", default="64")
    parser.add_argument("--seq_len", default="256")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    flags = [
        *("--model", args.model, "--chip", args.chip, "--mesh", args.mesh),
        *("--batch", args.batch, "--seq_len", args.seq_len),
    ]
    if args.bare:
        compile_bare(flags)
        return
    walls_s: dict[str, list[float]] = {"scaling compile": [], "bare compile": []}
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as results:
            ours = ["-m", "experiments.cli", "compile", *flags, "--results", results]
            walls_s["scaling compile"].append(wall_s(ours))
        walls_s["bare compile"].append(wall_s([__file__, "--bare", *flags]))
    medians_s = {side: statistics.median(each) for side, each in walls_s.items()}
    for side, median_s in medians_s.items():
        each = " ".join(f"{wall:.1f}" for wall in walls_s[side])
        print(f"{side:16} {median_s:7.1f} s  ({each})")
    print(f"ratio {medians_s['scaling compile'] / medians_s['bare compile']:.3f}")


def wall_s(arguments: Sequence[str]) -> float:
    """Returns how long a process takes from its start to its end."""
    began_s = time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.monotonic() - began_s


def compile_bare(flags: Sequence[str]) -> None:
    """Compiles the point of the flags in this process, and does nothing else."""
    from experiments.cli import parsed
    from experiments.launch import local
    from experiments.point_flags import sweep_from

    args = parsed(["compile", *flags])
    (point,) = sweep_from(args).points
    os.environ.update(local.worker_environ(point, task="compile", mark=""))

    from experiments.absent import absent_devices
    from experiments.train import build_step
    from meshes.build import build_mesh

    mesh = build_mesh(point.mesh, absent_devices(point))
    build_step(point, mesh).lower().compile()


if __name__ == "__main__":
    main()
