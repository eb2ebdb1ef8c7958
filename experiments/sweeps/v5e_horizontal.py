"""One to eight Cloud TPU v5e slices: what may cross the data-centre network?

Question: with Llama 2 7B on slices of 64 chips, how many slices pay, and does it
matter whether the data or the fsdp axis crosses between them?
Command: scaling run v5e_horizontal
Takes: an hour of eight 8x8 slices, most of it compilation; it plans without them.
Expect: data across slices holds while a slice has more tokens in a step than its chips
do FLOPs for each byte they can send, 197e12 / 3.125e9 = 63 000 tokens (scaling-book,
"training"). Weak scaling with 262 144 tokens a slice pays to 8 slices; strong scaling
ends there with 65 536. fsdp across slices sends the weights too and is slower.
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
    seq_len=1024,
    remat="full",
)
_MESHES = (
    "1/fsdp=64",
    "data=2/fsdp=64",
    "data=4/fsdp=64",
    "data=8/fsdp=64",
    "fsdp=2/fsdp=64",
    "fsdp=4/fsdp=64",
    "fsdp=8/fsdp=64",
)

sweep = Sweep(
    name="v5e_horizontal",
    question="How many v5e slices pay, and which axis may cross between them?",
    points=(
        *grid(_BASE, meshes=_MESHES, global_batch_sizes=(512,)),
        *grid(_BASE, meshes=_MESHES, batches_per_device=(4,)),
    ),
    repeats=3,
)
