"""One Cloud TPU v5p slice: from one host to 512 chips of its 3-D torus.

Question: for Llama 2 7B, up to how many chips of a v5p slice does training pay, and
from where on does it pay to give some of them to the tensor axis?
Command: scaling run v5p_vertical (on a v5p slice; it plans anywhere)
Takes: about 4 hours of an 8x8x8 slice with 3 runs a point, most of it compilation.
Expect: weak scaling holds; strong scaling at 2 M tokens a step breaks at some hundred
chips on fsdp alone. Whole cubes of 4x4x4 have rings in all three dims: at 2550/3
tokens a chip they still hide the weights (scaling-book, "training"); below 64 chips
the dims are lines and need more.
"""

from collections.abc import Iterator

from experiments.sweep import Sweep
from experiments.sweep import grid
from meshes.spec import MeshSpec
from scaling.point import Point

_BASE = Point(
    model="llama2-7b",
    chip="v5p",
    mesh=MeshSpec(),
    global_batch_size=512,
    seq_len=4096,
    remat="full",
)
_CHIPS = (4, 8, 16, 32, 64, 128, 256, 512)


def _meshes() -> Iterator[str]:
    for chips in _CHIPS:
        yield f"1/fsdp={chips}"
        if chips >= 16:
            yield f"1/fsdp={chips // 4},tensor=4"


sweep = Sweep(
    name="v5p_vertical",
    question="Up to how many chips of one v5p slice does training pay?",
    points=(
        *grid(_BASE, meshes=_meshes(), global_batch_sizes=(512,)),
        *grid(_BASE, meshes=_meshes(), batches_per_device=(1,)),
    ),
    repeats=3,
)
