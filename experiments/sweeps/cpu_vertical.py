"""More devices in one process: does a second, fourth, eighth core pay, and how?

Question: on this host's cores, where does one process with more devices stop
scaling, and which axis grows best: data, fsdp or tensor?
Command: scaling run cpu_vertical
Takes: 6 minutes on 2 cores, where meshes above 2 devices are simulated and run once;
about 12 minutes on 8 cores.
Expect: data and fsdp lose little at 2 devices, tensor more, since it exchanges
activations four times a block; strong scaling ends first, when the batch of a device
no longer fills a core. `1/tensor=4` is invalid: tiny has 2 key and value heads.
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
    "1/data=2",
    "1/fsdp=2",
    "1/tensor=2",
    "1/data=4",
    "1/fsdp=4",
    "1/tensor=4",
    "1/data=8",
    "1/fsdp=8",
)

sweep = Sweep(
    name="cpu_vertical",
    question="How far do more devices in one process pay on this machine?",
    points=(
        *grid(_BASE, meshes=_MESHES, global_batch_sizes=(32,)),
        *grid(_BASE, meshes=_MESHES, batches_per_device=(16,)),
    ),
    repeats=5,
    timing=Timing(num_blocks=10, min_block_s=0.2),
)
