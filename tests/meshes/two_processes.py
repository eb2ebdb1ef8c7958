"""One of two processes that build a mesh together; started by test_build_processes.py.

Prints, as one JSON line, what this process sees of the mesh and of a sum over it.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec

from meshes.build import build_mesh
from meshes.spec import AXES
from meshes.spec import MeshSpec


def main() -> None:
    port, process, text = sys.argv[1:]
    jax.distributed.initialize(
        f"127.0.0.1:{port}",
        num_processes=2,
        process_id=int(process),
        initialization_timeout=60,
        heartbeat_timeout_seconds=20,
    )
    mesh = build_mesh(MeshSpec.parse(text))
    sharded = NamedSharding(mesh, PartitionSpec(AXES))
    ones = jax.make_array_from_callback(
        (8,), sharded, lambda index: np.arange(8.0)[index]
    )
    whole = NamedSharding(mesh, PartitionSpec())
    total = jax.jit(jnp.sum, out_shardings=whole)(ones)
    seen = {
        "shape": dict(mesh.shape),
        "processes": [device.process_index for device in mesh.devices.flat],
        "ids": sorted(device.id for device in mesh.devices.flat),
        "slices": sorted({device.slice_index for device in mesh.devices.flat}),
        "total": float(total),
        "refused": _refusal("1/fsdp=8"),
    }
    sys.stdout.write(json.dumps(seen) + "\n")


def _refusal(text: str) -> str:
    try:
        build_mesh(MeshSpec.parse(text))
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
