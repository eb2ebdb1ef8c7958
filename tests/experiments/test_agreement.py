import jax
import numpy as np
import pytest

from experiments.agreement import program_hash
from scaling.point import Point

POINT = Point.model_validate(
    {
        "model": "tiny",
        "chip": "cpu",
        "mesh": "1/data=2",
        "global_batch_size": 8,
        "seq_len": 32,
    }
)


def mesh_of(order: slice) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:2])[order], ("data",))


FORWARD, BACKWARD = slice(None), slice(None, None, -1)


def test_the_same_is_the_same():
    first = program_hash(POINT, mesh_of(FORWARD), "program")
    assert first == program_hash(POINT, mesh_of(FORWARD), "program")
    assert len(bytes.fromhex(first)) == 32


@pytest.mark.parametrize(
    ("point", "order", "program"),
    [
        (POINT.model_copy(update={"seed": 1}), FORWARD, "program"),
        (POINT, BACKWARD, "program"),
        (POINT, FORWARD, "program with a constant 2"),
    ],
)
def test_each_part_counts(point, order, program):
    expected = program_hash(POINT, mesh_of(FORWARD), "program")
    assert program_hash(point, mesh_of(order), program) != expected
