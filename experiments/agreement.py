"""Agreement: that all processes of a run are about to run the same program.

Different programs or device orders do not fail: they hang, or give wrong numbers. So
what will run is hashed in every process, and compared before it is compiled.
"""

import hashlib

import jax
import numpy as np
from jax.experimental import multihost_utils

from scaling.point import Point


def program_hash(point: Point, mesh: jax.sharding.Mesh, program: str) -> str:
    """Returns the SHA-256 over point, device order and the text of the program."""
    digest = hashlib.sha256()
    order = [(device.process_index, device.id) for device in mesh.devices.flat]
    for part in (point.model_dump_json(), repr(order), program):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def check_same(own: str) -> None:
    """Waits for all processes; raises RuntimeError if one has another hash."""
    digest = np.frombuffer(bytes.fromhex(own), np.uint8)
    digests = multihost_utils.process_allgather(digest).reshape(-1, len(digest))
    others = [i for i, row in enumerate(digests) if (row != digests[0]).any()]
    if others:
        raise RuntimeError(
            f"processes {others} would run another program than process 0: the point, "
            "the order of the devices or the lowered step differs"
        )
