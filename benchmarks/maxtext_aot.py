"""`scaling compile` and MaxText's ahead-of-time tool: the ratio of whole processes.

    python benchmarks/maxtext_aot.py --maxtext_python PATH [--rounds 3]

Llama-2-7B on 16 chips of v5p, parameters sharded over all of them: 64 sequences of 4096
tokens, scanned layers recomputed in full, splash attention, AdamW in float32, compute
in bfloat16. MaxText runs in an interpreter that has it and this one's JAX and libtpu
(`pip install 'maxtext[tpu]==0.2.5' jax==… libtpu==…`), with its own defaults but for
the flags below: no cache of compilations, which could skip the work, and no file for
the program, which it writes only when asked. Both alternate as fresh processes in the
environment that `scaling compile` gives a compiler.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from collections.abc import Sequence

from experiments import store
from experiments.cli import parsed
from experiments.launch import local
from experiments.point_flags import sweep_from
from scaling.measurement import Measurement

OURS = [
    *("compile", "--model", "llama2-7b", "--chip", "v5p:2x2x4"),
    *("--mesh", "1/fsdp=16", "--batch", "64", "--seq_len", "4096"),
    *("--set", "remat=full", "--set", "attention=splash", "--set", "data=synthetic"),
]
MAXTEXT = [
    # MaxText counts the two cores of a chip: v5p-32 is 2x2x4 chips.
    *("compile_topology=v5p-32", "compile_topology_num_slices=1"),
    *("model_name=llama2-7b", "ici_fsdp_parallelism=16"),
    *("per_device_batch_size=4", "max_target_length=4096"),
    *("remat_policy=full", "attention=flash", "scan_layers=true"),
    *("dataset_type=synthetic", "enable_checkpointing=false"),
    *("base_output_directory=output", "run_name=aot", "jax_cache_dir="),
]
VERSIONS = """
from importlib.metadata import version
print(", ".join(f"{name} {version(name)}" for name in ("jax", "jaxlib", "libtpu")))
"""


def main() -> None:
    """Runs the rounds and prints each, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--maxtext_python", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for python in (sys.executable, args.maxtext_python):
        print(output([python, "-c", VERSIONS]).strip())
    (point,) = sweep_from(parsed(OURS)).points
    environ = local.worker_environ(point, task="compile", mark="")
    # Modules of this project must not come before MaxText's own.
    environ.pop("PYTHONPATH", None)
    walls_s: list[tuple[float, float]] = []
    print("round  scaling  MaxText  ratio", flush=True)
    for number in range(1, args.rounds + 1):
        ours_s, run = scaling_compile()
        theirs_s, theirs_bytes = maxtext_compile(args.maxtext_python, environ)
        assert run.compiled is not None
        ours_bytes = run.compiled.arguments_bytes
        # The same parameters, optimizer state and batch, or it is another step.
        if abs(ours_bytes / theirs_bytes - 1) > 0.01:
            sys.exit(f"arguments take {ours_bytes} and {theirs_bytes} bytes")
        walls_s.append((ours_s, theirs_s))
        phases = " ".join(f"{name} {each:.1f}" for name, each in run.phases_s.items())
        ratio = ours_s / theirs_s
        print(f"{number:5}  {ours_s:5.1f} s  {theirs_s:5.1f} s  {ratio:5.2f}  {phases}")
    ours, theirs = (statistics.median(each) for each in zip(*walls_s, strict=True))
    print(f"medians: scaling {ours:.1f} s, MaxText {theirs:.1f} s")
    ratio = statistics.median(ours_s / theirs_s for ours_s, theirs_s in walls_s)
    print(f"median of the ratios within a round: {ratio:.2f}")


def scaling_compile() -> tuple[float, Measurement]:
    """Returns the seconds of `scaling compile`, and the run it stored."""
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, "-m", "experiments.cli", *OURS, "--strict"]
        began_s = time.monotonic()
        output([*command, "--results", results])
        wall_s = time.monotonic() - began_s
        (run,) = store.load(results).measurements
    return wall_s, run


def maxtext_compile(python: str, environ: Mapping[str, str]) -> tuple[float, int]:
    """Returns the seconds of MaxText's tool, and its program's argument bytes.

    Raises SystemExit where its log does not say that it compiled.
    """
    command = [python, "-m", "maxtext.trainers.pre_train.train_compile", *MAXTEXT]
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.monotonic()
        log = output(command, environ=environ, folder=folder)
        wall_s = time.monotonic() - began_s
    found = re.search(r"Memory analysis: .*\bargument_size_in_bytes=(\d+)", log)
    if "Jitting and compilation complete!" not in log or found is None:
        sys.exit(f"MaxText did not compile:\n{log}")
    return wall_s, int(found[1])


def output(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> str:
    """Returns what a process prints; one that fails ends this one, with its errors."""
    done = subprocess.run(
        command, capture_output=True, text=True, env=environ, cwd=folder, check=False
    )
    if done.returncode:
        sys.exit(f"{command} exited {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
