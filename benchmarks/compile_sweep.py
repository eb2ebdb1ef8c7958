"""A sweep of 24 compiled points, from its beginning to its end.

    python benchmarks/compile_sweep.py [--results DIR]

Llama 3 8B on v5p, 8 to 64 chips, every data by fsdp of 8 and more, scanned layers: what
`scaling compile benchmarks/compile_sweep.py` takes. Printed are the wall time of the
command, the sum of what the compilers took by the runs' own clocks, and the wall time
that is allowed: 1.15 times that sum and 6 s a point.
"""

import argparse
import subprocess
import sys
import tempfile
import time

from experiments.store import load
from experiments.sweep import Sweep
from experiments.sweep import grid
from meshes.spec import MeshSpec
from scaling.point import Point

_BASE = Point(
    model="llama3-8b",
    chip="v5p",
    mesh=MeshSpec(),
    global_batch_size=64,
    seq_len=4096,
    remat="full",
    attention="splash",
)
_SLICES = (8, 16, 32, 64)
_MESHES = tuple(
    f"1/data={chips // fsdp},fsdp={fsdp}" if fsdp < chips else f"1/fsdp={fsdp}"
    for chips in _SLICES
    for fsdp in (8, 16, 32, 64)
    if fsdp <= chips
)

sweep = Sweep(
    name="compile_sweep",
    question="What does a sweep of 24 compiled points take?",
    points=(
        *grid(_BASE, meshes=_MESHES, global_batch_sizes=(64, 128)),
        *grid(_BASE, meshes=_MESHES[-4:], global_batch_sizes=(256,)),
    ),
    repeats=1,
)


def main() -> None:
    """Compiles the sweep and prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", help="default: a folder that is removed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        results = args.results or scratch
        command = ["-m", "experiments.cli", "compile", __file__, "--results", results]
        began_s = time.monotonic()
        subprocess.run([sys.executable, *command], check=True)
        wall_s = time.monotonic() - began_s
        runs = load(f"{results}/{sweep.name}").measurements
    compile_s = sum(run.phases_s["compile"] for run in runs)
    allowed_s = 1.15 * compile_s + 6 * len(runs)
    print(f"{len(runs)} points, {', '.join(sorted({run.status for run in runs}))}")
    print(f"whole sweep {wall_s / 60:.1f} min, compilers {compile_s / 60:.1f} min")
    print(f"allowed {allowed_s / 60:.1f} min: {wall_s / allowed_s:.2f} of it")


if __name__ == "__main__":
    main()
