"""Llama 3 8B on Cloud TPU v5p, 16 to 1,024 chips and 1 to 8 slices: what still pays?

Question: from where on do more chips stop paying, within one v5p slice of 16 to 1,024
chips and over 1 to 8 slices of 64, strong (1 M tokens a step) and weak (4,096 tokens a
chip: 4 M a step at 1,024 chips, as Llama 3 405B began, arXiv 2407.21783)?
Command: scaling compile v5p_verdict && scaling report results/v5p_verdict
Takes: one program after the other, each about a minute of one processor's work; no TPU.
Expect: weak scaling holds in both directions. Strong scaling holds while a chip has a
sequence of its own, up to 256 chips; beyond, `tensor` lets chips share one and a step
waits for ici. Over slices it is data whose gradients cross, which hide behind the step
down to 459e12 / 6.25e9 = 73,000 tokens a slice in bfloat16, twice that in float32
(scaling-book, "training"): 8 slices with 131,000 each are at that limit.
"""

from experiments.sweep import Sweep
from experiments.sweep import grid
from meshes.spec import MeshSpec
from scaling.point import Point

_BASE = Point(
    model="llama3-8b",
    chip="v5p",
    mesh=MeshSpec(),
    global_batch_size=256,
    seq_len=4096,
    remat="full",
    attention="splash",
    # Between the layers a sequence lies over the chips that share it.
    residual="seq",
)
_BOTH = ("1/fsdp=16", "1/fsdp=32", "1/fsdp=64", "1/fsdp=128", "data=2/fsdp=64")

sweep = Sweep(
    name="v5p_verdict",
    question="Where does training Llama 3 8B on v5p stop paying?",
    points=(
        *grid(
            _BASE,
            meshes=(
                *_BOTH,
                "1/fsdp=256",
                "data=4/fsdp=64",
                "1/fsdp=256,tensor=2",
                "1/fsdp=256,tensor=4",
                "data=8/fsdp=32,tensor=2",
            ),
            global_batch_sizes=(256,),
        ),
        *grid(
            _BASE,
            # On 256 chips the weak program would be the strong one.
            meshes=(*_BOTH, "1/fsdp=512", "1/fsdp=1024", "data=8/fsdp=64"),
            batches_per_device=(1,),
        ),
    ),
    repeats=1,
)
