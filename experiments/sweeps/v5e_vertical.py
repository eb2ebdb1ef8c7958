"""One Cloud TPU v5e slice, from a single chip to the largest: where does ICI break?

Question: for a model of 180 M parameters, up to how many chips of a v5e slice does
training pay, and with which mesh?
Command: scaling run v5e_vertical (on a v5e slice; it plans anywhere)
Takes: about 4 hours of a 16x16 slice with 3 runs a point, most of it compilation.
Expect: weak scaling holds to 256 chips; strong scaling at half a million tokens a step
breaks where a chip has fewer tokens than the ICI needs to hide the weights: about
C/W = 197e12/90e9 = 2200 on one ring, half of that where both dims of the torus are
used (scaling-book, "training"), and twice where they do not wrap.
"""

from collections.abc import Iterator

from experiments.sweep import Sweep
from experiments.sweep import grid
from meshes.spec import MeshSpec
from scaling.point import Point

_BASE = Point(
    model="small",
    chip="v5e",
    mesh=MeshSpec(),
    global_batch_size=512,
    seq_len=1024,
)
_CHIPS = (1, 4, 8, 16, 32, 64, 128, 256)


def _meshes() -> Iterator[str]:
    yield "1/1"
    for chips in _CHIPS[1:]:
        yield f"1/data={chips}"
        yield f"1/fsdp={chips}"
        yield f"1/tensor=4,fsdp={chips // 4}"


sweep = Sweep(
    name="v5e_vertical",
    question="Up to how many chips of one v5e slice does training pay?",
    points=(
        *grid(_BASE, meshes=_meshes(), global_batch_sizes=(512,)),
        *grid(_BASE, meshes=_meshes(), batches_per_device=(8,)),
    ),
    repeats=3,
)
