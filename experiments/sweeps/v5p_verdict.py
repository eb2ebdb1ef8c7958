"""Llama 3 8B on Cloud TPU v5p, 16 to 1,024 chips and 1 to 8 slices: what still pays?

Question: from where on do more chips stop paying, within one v5p slice of 16 to 1,024
chips and over 1 to 8 slices of 64, strong (1 M tokens a step) and weak (4,096 tokens a
chip: 4 M a step at 1,024 chips, as Llama 3 405B began, arXiv 2407.21783)?
Command: scaling compile v5p_verdict && scaling report results/v5p_verdict
Takes: one program after the other, each about a minute of one processor's work; no TPU.
Expect: strong scaling within a slice keeps 0.88 of the throughput per chip at 128 chips
and 0.71 at 512, where it surely no longer pays; weak scaling holds to 1,024 chips. Over
slices of 64 chips 4 keep 0.84 in strong scaling, whose band spans 0.8, and weak scaling
holds to 8. What is lost goes to ici: beyond 256 chips `tensor` lets chips share a
sequence. Gradients over dcn hide behind the step, as 131,000 tokens a slice are above
459e12 / 6.25e9 = 73,000 (scaling-book, "training").
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
