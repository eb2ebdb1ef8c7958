"""Microbenchmarks: rates of matmul, memory and all-reduce on the attached devices.

`python -P -m experiments.microbenchmarks device` (or `device_kind`, `all_reduce`)
prints one JSON object. Every figure is the median over blocks of calls, each block
waited for.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from experiments.timing import from_process_0
from experiments.timing import may_queue_steps

MATMUL_SIZES = {"cpu": (512, 1024, 2048), "gpu": (4096, 8192), "tpu": (4096, 8192)}
TRIAD_ELEMENTS = 2**25
"""Of float32: 128 MiB an array, far beyond what a core's caches hold."""
ALL_REDUCES = {2**10: 100, 2**24: 4}
"""Bytes of the array that is summed to sums in one program: one size where latency is
all, one where bandwidth is."""

_BLOCKS = 5
_BLOCK_S = 0.1


def matmul_flops_per_s(dtype: str, sizes: Sequence[int]) -> float:
    """Returns FLOP/s of square matmuls on one device, the best of `sizes`."""

    @jax.jit
    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return x @ w

    def rate(size: int) -> float:
        # Rows of w sum to about 1, so that a chain of products stays in range.
        x = jnp.ones((size, size), dtype)
        w = jnp.full((size, size), 1 / size, dtype)
        return 2 * size**3 / call_time_s(lambda x: product(x, w), x)

    return max(map(rate, sizes))


def triad_bytes_per_s(elements: int) -> float:
    """Returns the bytes per second of `a ← a + s·b`, two reads and a write."""
    triad = jax.jit(lambda a, b: a + jnp.float32(1e-6) * b, donate_argnums=0)
    b = jnp.ones(elements, jnp.float32)
    # In place: a fresh output would measure the operating system's page faults.
    return 3 * 4 * elements / call_time_s(lambda a: triad(a, b), jnp.ones_like(b))


def all_reduce_time_s(
    payload_bytes: int, devices: Sequence[Any], *, repeats: int
) -> float:
    """Returns the seconds of one all-reduce of an array over `devices`.

    A program makes `repeats` in a row, so that what is measured is not its dispatch.
    """
    mesh = jax.sharding.Mesh(np.array(devices), ("all",))
    spec = PartitionSpec("all")

    def sums(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, repeats, lambda _, x: jax.lax.pmean(x, "all"), x)

    program = jax.jit(
        jax.shard_map(sums, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )
    shape = (len(devices), payload_bytes // 4)
    sharding = jax.sharding.NamedSharding(mesh, spec)
    x = jax.jit(lambda: jnp.ones(shape, jnp.float32), out_shardings=sharding)()
    return call_time_s(program, x) / repeats


def call_time_s(call: Callable[[Any], Any], x: Any) -> float:
    """Returns the seconds of one call of a chain `x = call(x)`, the median block's.

    Over several processes all make as many calls as process 0 finds right.
    """
    queue = may_queue_steps(jax.devices()[0].platform)
    x = jax.block_until_ready(call(x))
    started_s = time.perf_counter()
    x = jax.block_until_ready(call(x))
    calls = _calls(time.perf_counter() - started_s)
    times_s = []
    for _ in range(_BLOCKS):
        started_s = time.perf_counter()
        for _ in range(calls):
            x = call(x)
            if not queue:
                jax.block_until_ready(x)
        jax.block_until_ready(x)
        times_s.append((time.perf_counter() - started_s) / calls)
    return statistics.median(times_s)


def _calls(one_s: float) -> int:
    calls = max(1, round(_BLOCK_S / max(one_s, 1e-6)))
    return from_process_0(calls) if jax.process_count() > 1 else calls


def device_kind() -> dict[str, Any]:
    """Returns the kind of the attached devices."""
    return {"device_kind": jax.devices()[0].device_kind}


def device() -> dict[str, Any]:
    """Returns rates of one of the attached devices."""
    first = jax.devices()[0]
    sizes = MATMUL_SIZES.get(first.platform, MATMUL_SIZES["gpu"])
    return {
        "float32": matmul_flops_per_s("float32", sizes),
        "bfloat16": matmul_flops_per_s("bfloat16", sizes),
        "triad": triad_bytes_per_s(TRIAD_ELEMENTS),
    }


def all_reduce() -> dict[str, float]:
    """Returns the seconds of an all-reduce over all devices, by payload bytes."""
    return {
        str(size): all_reduce_time_s(size, jax.devices(), repeats=repeats)
        for size, repeats in ALL_REDUCES.items()
    }


def _main(arguments: list[str]) -> None:
    name, *peer = arguments
    if peer:
        coordinator, index, count = peer
        jax.distributed.initialize(
            coordinator,
            int(count),
            int(index),
            cluster_detection_method="deactivate",
            initialization_timeout=60,
        )
    measured = {"device_kind": device_kind, "device": device, "all_reduce": all_reduce}
    found = measured[name]()
    # Collectives libraries print on standard output, too: ours is the last line.
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    sys.stdout.flush()
    if peer:
        jax.distributed.shutdown()


if __name__ == "__main__":
    _main(sys.argv[1:])
