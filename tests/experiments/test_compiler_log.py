"""Warnings of the partitioner, from a compiler of this host and from planted lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.compiler_log import warnings_in
from scaling.measurement import CompilerWarning

# Reshards an array in a way that no collective of XLA does at once.
PROGRAM = """
import jax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
def shard(x, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))
def step(x):
    return shard(shard(x * 2, ("a", "b"), None) + 1, None, "b")
jax.jit(step).lower(jax.ShapeDtypeStruct((16, 16), "float32")).compile()
"""

LIBTPU = (
    "W1130 20:39:43.621231   11017 spmd_partitioner.cc:666] [SPMD] Involuntary full "
    "rematerialization. The compiler cannot go from sharding {mesh['a'=2,'b'=2,'c'=4], "
    "[{'a'}, {'b', 'c'}, {}]} to {mesh['a'=2,'b'=2,'c'=4], [{'c'}, {}, {'a'}]} "
    "efficiently for HLO operation %sharding_constraint.0 = f32[8,2,16]{2,1,0} "
    "copy(%mul.1), sharding={mesh['a'=2,'b'=2,'c'=4], [{'a'}, {'b', 'c'}, {}]}, "
    'metadata={op_name="jit(f)/sharding_constraint" stack_frame_id=3}. As the last '
    "resort, SPMD will replicate the tensor and then partition it.\n"
)


def test_each_tensor_is_told_once_with_both_shardings(tmp_path: Path):
    log = tmp_path / "log"
    other = LIBTPU.replace("f32[8,2,16]", "bf16[4]").replace("metadata", "nothing")
    log.write_text(f"a word\n{LIBTPU}{LIBTPU}[SPMD] something else\n{other}")
    first, second = warnings_in(log)
    assert first == CompilerWarning(
        kind="involuntary_rematerialization",
        tensor="%sharding_constraint.0 = f32[8,2,16]",
        op_name="jit(f)/sharding_constraint",
        before="{mesh['a'=2,'b'=2,'c'=4], [{'a'}, {'b', 'c'}, {}]}",
        after="{mesh['a'=2,'b'=2,'c'=4], [{'c'}, {}, {'a'}]}",
    )
    assert second.tensor == "%sharding_constraint.0 = bf16[4]"


def test_no_log_has_no_warnings(tmp_path: Path):
    assert warnings_in(tmp_path / "none") == ()


def test_the_compiler_still_says_it_so(tmp_path: Path):
    log = tmp_path / "log"
    environ = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "4",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }
    with open(log, "w") as output:
        command = [sys.executable, "-c", PROGRAM]
        subprocess.run(command, check=True, stderr=output, env=environ)
    if "Involuntary" not in log.read_text():
        pytest.fail(f"the program no longer makes it happen: {log.read_text()}")
    assert warnings_in(log)
