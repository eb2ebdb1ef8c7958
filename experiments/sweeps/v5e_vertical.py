"""One Cloud TPU v5e slice, from a single chip to the largest: where does ICI break?

Question: for a model of 180 M parameters, up to how many chips of a v5e slice does
training pay, and with which mesh?
Command: scaling run v5e_vertical
Takes: two hours of a 16x16 slice, most of it compilation; it plans without one.
Expect: weak scaling holds to 256 chips. Strong scaling at 262 144 tokens a step starts
at 8 chips, where the activations first fit, and breaks where a chip has fewer tokens
than the links need to carry the weights: about C/W = 197e12 / 90e9 = 2200 on one ring,
half of that on both rings of 16x16, twice that on the lines of smaller slices
(scaling-book, "training"). Four chips on the tensor axis only pay beyond that.
"""

from collections.abc import Iterable
from collections.abc import Iterator

from experiments.sweep import Sweep
from experiments.sweep import grid
from meshes.spec import MeshSpec
from scaling.point import Point

_BASE = Point(
    model="small",
    chip="v5e",
    mesh=MeshSpec(),
    global_batch_size=256,
    seq_len=1024,
    remat="full",
)


def _meshes(counts: Iterable[int]) -> Iterator[str]:
    for chips in counts:
        yield f"1/data={chips}"
        yield f"1/fsdp={chips}"
        if chips >= 16:
            yield f"1/fsdp={chips // 4},tensor=4"


sweep = Sweep(
    name="v5e_vertical",
    question="Up to how many chips of one v5e slice does training pay?",
    points=(
        *grid(
            _BASE,
            meshes=_meshes((8, 16, 32, 64, 128, 256)),
            global_batch_sizes=(256,),
        ),
        *grid(
            _BASE,
            meshes=_meshes((1, 4, 8, 16, 32, 64, 128, 256)),
            batches_per_device=(8,),
        ),
    ),
    repeats=3,
)
