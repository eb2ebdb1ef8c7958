"""The demo: does a second device pay, within a process and across two?

Question: on this machine's cores, where does training a small transformer stop
scaling, vertically (more devices in one process) and horizontally (more processes),
at a fixed batch and at a fixed batch per device?
Command: scaling run cpu_quick
Takes: 4 minutes on 2 cores (22 runs of about 10 s, half of it compilation).
Expect: on 2 cores both directions are judged from 1 to 2 devices. Devices of one
process share one pool of threads, so the first device alone is confined to one core;
two processes pay for every gradient that crosses the loopback network. `1/data=4` has
more devices than 2 cores and is shown as simulated, not judged. Batches of 8, 16 and
32 on one device show whether it is busy.
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
    global_batch_size=16,
    seq_len=128,
    layers="unrolled",
    compute_dtype="float32",
)
_ONE_AND_TWO = ("1/1", "1/data=2", "data=2/1")

sweep = Sweep(
    name="cpu_quick",
    question="Does a second device pay on this machine, in one process or in two?",
    points=(
        *grid(_BASE, meshes=(*_ONE_AND_TWO, "1/data=4"), global_batch_sizes=(16,)),
        *grid(_BASE, meshes=_ONE_AND_TWO, batches_per_device=(8,)),
        *grid(_BASE, global_batch_sizes=(32,)),
    ),
    repeats=3,
    timing=Timing(num_blocks=10, min_block_s=0.1, max_warm_up_s=5.0),
)
