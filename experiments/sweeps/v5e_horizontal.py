"""One to eight Cloud TPU v5e slices: what may cross the data-centre network?

Question: with Llama 2 7B on slices of 64 chips, how many slices pay, and does it
matter whether the data or the fsdp axis crosses between them?
Command: scaling run v5e_horizontal (on v5e slices; it plans anywhere)
Takes: about 2 hours of 8 slices 8x8 with 3 runs a point.
Expect: data across slices holds while a slice has more tokens in a step than its chips
do FLOPs for each byte they can send (197e12 / 3.125e9 = 63 000 tokens, scaling-book
"training"), so weak scaling at 262 144 tokens a slice pays to 8 slices and strong
scaling breaks; fsdp across slices sends the weights too and is slower everywhere.
"""

from experiments.sweep import Sweep
from experiments.sweep import grid
from meshes.spec import MeshSpec
from scaling.point import Point

_BASE = Point(
    model="llama2-7b",
    chip="v5e",
    mesh=MeshSpec(),
    global_batch_size=512,
    seq_len=2048,
    remat="full",
)
_MESHES = (
    "1/fsdp=64",
    *(f"{axis}={slices}/fsdp=64" for slices in (2, 4, 8) for axis in ("data", "fsdp")),
)

sweep = Sweep(
    name="v5e_horizontal",
    question="How many v5e slices pay, and which axis may cross between them?",
    points=(
        *grid(_BASE, meshes=_MESHES, global_batch_sizes=(512,)),
        *grid(_BASE, meshes=_MESHES, batches_per_device=(2,)),
    ),
    repeats=3,
)
