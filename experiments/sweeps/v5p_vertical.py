"""One Cloud TPU v5p slice, from one host to 512 chips: when does tensor pay?

Question: for Llama 2 7B, up to how many chips of a v5p slice does training pay, and
from where on does it pay to give four of them to the tensor axis?
Command: scaling run v5p_vertical
Takes: two hours of an 8x8x8 slice, half of it compilation; it plans without one.
Expect: weak scaling holds. Strong scaling at 128 sequences of 4096 tokens cannot
use more than 128 chips without the tensor axis, and with it goes on to 512. Slices of
whole 4x4x4 cubes have rings in all three dims, so fsdp hides its weights down to
459e12 / 180e9 / 3 = 850 tokens a chip (scaling-book, "training"); below 64 chips the
dims are lines and need twice as many.
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
    global_batch_size=128,
    seq_len=4096,
    remat="full",
)


def _meshes(most_fsdp: int) -> Iterator[str]:
    for chips in (4, 8, 16, 32, 64, 128, 256, 512):
        if chips <= most_fsdp:
            yield f"1/fsdp={chips}"
        if chips >= 16:
            yield f"1/fsdp={chips // 4},tensor=4"


sweep = Sweep(
    name="v5p_vertical",
    question="Up to how many chips of one v5p slice does training pay?",
    points=(
        *grid(_BASE, meshes=_meshes(128), global_batch_sizes=(128,)),
        *grid(_BASE, meshes=_meshes(512), batches_per_device=(1,)),
    ),
    repeats=3,
)
