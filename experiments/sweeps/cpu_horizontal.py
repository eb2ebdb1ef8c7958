"""More processes joined by a network: does the loopback transport pay?

Question: on this host's cores, where do more processes of one device each, joined by
gloo over the loopback network, stop scaling, and which axis may cross it?
Command: scaling run cpu_horizontal
Takes: 6 minutes on 2 cores, where meshes above 2 devices are simulated and run once;
about 10 minutes on 8 cores.
Expect: data, which sends gradients once a step, loses least; fsdp sends three times
as much; tensor waits for the network in every block and breaks at once.
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
    global_batch_size=32,
    seq_len=128,
    layers="unrolled",
    compute_dtype="float32",
)
_MESHES = (
    "1/1",
    "data=2/1",
    "fsdp=2/1",
    "tensor=2/1",
    "data=4/1",
    "fsdp=4/1",
    "data=8/1",
)

sweep = Sweep(
    name="cpu_horizontal",
    question="How far do more processes over loopback pay on this machine?",
    points=(
        *grid(_BASE, meshes=_MESHES, global_batch_sizes=(32,)),
        *grid(_BASE, meshes=_MESHES, batches_per_device=(16,)),
    ),
    repeats=5,
    timing=Timing(num_blocks=10, min_block_s=0.2),
)
