"""Training step on CPU against PyTorch eager: the ratio of tokens per second.

    python benchmarks/training_step_vs_torch.py --torch_python PATH [--rounds 5] \
        [--dtype bfloat16] [--cores 1]

Shape: 4 layers, width 512, 8 heads, MLP 2048 (tanh GELU), vocabulary 1024, RMSNorm,
learned positions, untied head, 8 sequences of 256 tokens, AdamW. PyTorch runs eagerly
with scaled_dot_product_attention and fused AdamW, in an interpreter that has torch
(`pip install torch==2.13.0 numpy`). The two sides alternate as fresh processes on the
same cores, so that drift of the machine meets both; the ratio is taken within a round.
One core is what `scaling run` gives a device.
Each side starts itself as `... --side jax` or `--side torch` and prints step times.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

LAYERS, WIDTH, HEADS, MLP, VOCAB, SEQ, BATCH = 4, 512, 8, 2048, 1024, 256, 8
WARM_UP, STEPS = 3, 9


def main() -> None:
    """Runs the rounds and prints a table, or one side's step times as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch_python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--side", choices=["jax", "torch"])
    args = parser.parse_args()
    # Before either library counts them; the processes that are started inherit it.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    if args.side:
        run = jax_steps if args.side == "jax" else torch_steps
        print(json.dumps(run(args.dtype)))
        return
    ratios = []
    print("round  jax tokens/s  torch tokens/s  jax/torch")
    for number in range(1, args.rounds + 1):
        rates = {
            side: tokens_per_s(python, side, args.dtype)
            for side, python in (("jax", sys.executable), ("torch", args.torch_python))
        }
        ratios.append(rates["jax"] / rates["torch"])
        print(
            f"{number:5}  {rates['jax']:12.0f}  {rates['torch']:14.0f}  "
            f"{ratios[-1]:9.2f}",
            flush=True,
        )
    median = statistics.median(ratios)
    print(f"median jax/torch, {args.dtype}, {args.cores} cores: {median:.2f}")


def tokens_per_s(python: str, side: str, dtype: str) -> float:
    """Returns the rate of one fresh process, from its median step."""
    command = [python, __file__, "--side", side, "--dtype", dtype]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return BATCH * SEQ / statistics.median(json.loads(done.stdout.splitlines()[-1]))


def jax_steps(dtype: str) -> list[float]:
    """Times the project's own training step, in its CPU form."""
    import jax
    import numpy as np

    from experiments.train import build_step
    from meshes.build import build_mesh
    from meshes.spec import MeshSpec
    from models.config import ModelConfig
    from models.presets import MODELS
    from scaling.point import Point

    MODELS["benchmark"] = ModelConfig(
        name="benchmark",
        source="the shape of this benchmark",
        num_layers=LAYERS,
        embed_dim=WIDTH,
        num_heads=HEADS,
        num_kv_heads=HEADS,
        head_dim=WIDTH // HEADS,
        mlp_dim=MLP,
        vocab_size=VOCAB,
        max_seq_len=SEQ,
        positions="learned",
        activation="gelu",
    )
    point = Point.model_validate(
        {
            "model": "benchmark",
            "chip": "cpu",
            "mesh": "1/1",
            "global_batch_size": BATCH,
            "seq_len": SEQ,
            "layers": "unrolled",
            "compute_dtype": dtype,
        }
    )
    mesh = build_mesh(MeshSpec(), jax.devices()[:1])
    tokens = np.random.default_rng(0).integers(0, VOCAB, (BATCH, SEQ + 1), "int32")
    step = build_step(point, mesh)
    state = step.init()
    batch = jax.device_put(tokens, step.abstract_batch.sharding)
    compiled = step.compile()
    times = []
    for _ in range(WARM_UP + STEPS):
        started = time.perf_counter()
        state, loss = compiled(state, batch)
        jax.block_until_ready((state, loss))
        times.append(time.perf_counter() - started)
    return times[WARM_UP:]


def torch_steps(dtype: str) -> list[float]:
    """Times the same model written in plain PyTorch modules."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.out = nn.Linear(WIDTH, WIDTH, bias=False)
            self.up = nn.Linear(WIDTH, MLP, bias=False)
            self.down = nn.Linear(MLP, WIDTH, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            qkv = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, HEADS, -1)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).reshape(x.shape))
            hidden = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
            return x + self.down(hidden)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.positions = nn.Parameter(torch.randn(SEQ, WIDTH) * 0.02)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm = nn.RMSNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCAB, bias=False)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embed(tokens) + self.positions
            return self.head(self.norm(self.blocks(x)))

    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
    times = []
    for _ in range(WARM_UP + STEPS):
        started = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1), tokens[:, 1:].flatten()
        )
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - started)
    return times[WARM_UP:]


if __name__ == "__main__":
    main()
