"""The dense products of a training step on CPU, by XLA and by PyTorch: FLOP/s of each.

    python benchmarks/matmul_vs_torch.py --torch_python PATH [--rounds 5] [--cores 1]

Forward, input gradient and weight gradient of [2048, 512] x [512, 2048], float32, the
MLP of `training_step_vs_torch.py`. The two sides alternate as fresh processes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

ROWS, INPUTS, OUTPUTS = 2048, 512, 2048
WARM_UP, STEPS = 3, 15
FLOPS = 2 * ROWS * INPUTS * OUTPUTS
PRODUCTS = ("forward", "input gradient", "weight gradient")


def main() -> None:
    """Runs the rounds and prints a table, or one side's rates as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch_python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--side", choices=["jax", "torch"])
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    if args.side:
        print(json.dumps(jax_rates() if args.side == "jax" else torch_rates()))
        return
    pythons = {"jax": sys.executable, "torch": args.torch_python}
    rates: dict[str, list[list[float]]] = {side: [] for side in pythons}
    for _ in range(args.rounds):
        for side, python in pythons.items():
            rates[side].append(one_process(python, side))
    print("GFLOP/s         " + "".join(f"{name:>17}" for name in PRODUCTS))
    for side, each in rates.items():
        medians = (statistics.median(column) for column in zip(*each, strict=True))
        print(f"{side:16}" + "".join(f"{rate / 1e9:17.0f}" for rate in medians))


def one_process(python: str, side: str) -> list[float]:
    """Returns the rates of one fresh process."""
    command = [python, __file__, "--side", side]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def jax_rates() -> list[float]:
    """Returns FLOP/s of the products as XLA's CPU backend compiles them."""
    import jax

    x, kernel, g = (
        jax.random.normal(jax.random.key(0), shape)
        for shape in ((ROWS, INPUTS), (INPUTS, OUTPUTS), (ROWS, OUTPUTS))
    )
    forward = jax.jit(lambda a, b: a @ b)
    by_kernel = jax.jit(lambda a, b: a @ b.T)
    by_input = jax.jit(lambda a, b: a.T @ b)
    return [
        rate(lambda: forward(x, kernel).block_until_ready()),
        rate(lambda: by_kernel(g, kernel).block_until_ready()),
        rate(lambda: by_input(x, g).block_until_ready()),
    ]


def torch_rates() -> list[float]:
    """Returns FLOP/s of the products as PyTorch runs them."""
    import torch

    x, g = torch.randn(ROWS, INPUTS), torch.randn(ROWS, OUTPUTS)
    kernel = torch.randn(OUTPUTS, INPUTS)
    return [
        rate(lambda: x @ kernel.T),
        rate(lambda: g @ kernel),
        rate(lambda: g.T @ x),
    ]


def rate(product: Callable[[], object]) -> float:
    """Returns FLOP/s from the median time of a product."""
    times = []
    for _ in range(WARM_UP + STEPS):
        started = time.perf_counter()
        product()
        times.append(time.perf_counter() - started)
    return FLOPS / statistics.median(times[WARM_UP:])


if __name__ == "__main__":
    main()
