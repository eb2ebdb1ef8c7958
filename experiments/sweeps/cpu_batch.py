"""The load curve: how much work must a device have before it is busy?

Question: on each small mesh of this host, at which batch does throughput saturate?
Command: scaling run cpu_batch
Takes: 12 minutes on 2 cores (18 points, 5 runs each).
Expect: tokens per second rise with the batch, then level off; the more devices and
the slower the network between them, the larger the batch where they do.
"""

from experiments.protocol import Timing
from experiments.sweep import Sweep
from experiments.sweep import grid
from meshes.spec import MeshSpec
from scaling.point import Point

_BASE = Point(
    model="tiny",
    chip="cpu",
    mesh=MeshSpec(),
    global_batch_size=2,
    seq_len=128,
    layers="unrolled",
    compute_dtype="float32",
)

sweep = Sweep(
    name="cpu_batch",
    question="From which batch on is each mesh of this machine busy?",
    points=grid(
        _BASE,
        meshes=("1/1", "1/data=2", "data=2/1"),
        global_batch_sizes=(2, 4, 8, 16, 32, 64),
    ),
    repeats=5,
    timing=Timing(num_blocks=10, min_block_s=0.2),
)
