"""Environment of a run, as the parent sees it: versions, flags, sources, host.

The worker adds what only it can know, the device kind. Whether a stored run still
counts is decided on everything else, so that nothing has to start JAX to resume.
"""

import functools
import hashlib
import importlib.metadata
import os
import platform
import socket
import subprocess
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path

from scaling.measurement import POOLED_DISTRIBUTIONS
from scaling.measurement import Environment

SOURCE_ROOT = Path(__file__).resolve().parent.parent

DISTRIBUTIONS = (
    "jax",
    "jaxlib",
    "libtpu",
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "tensorflow-datasets",
    "array-record",
    "numpy",
    "scaling-toolkit",
)

FLAG_NAMES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "CUDA_VISIBLE_DEVICES")
FLAG_PREFIXES = ("JAX_", "XLA_PYTHON_", "NCCL_", "MEGASCALE_", "TPU_")
"""Of those that begin so, JAX sets some itself; see `arrived`."""
SET_BY_RUNNER = (
    "JAX_PLATFORMS",
    "JAX_NUM_CPU_DEVICES",
    "JAX_ENABLE_PREEMPTION_SERVICE",
)
"""The same for all runs or derived from the point, so they say nothing of their own."""

MEASURING_SOURCES = (
    "models/*.py",
    "meshes/spec.py",
    "meshes/rules.py",
    "meshes/build.py",
    "experiments/worker.py",
    "experiments/event_writer.py",
    "experiments/protocol.py",
    "experiments/measure.py",
    "experiments/resident.py",
    "experiments/attached.py",
    "experiments/agreement.py",
    "experiments/compilations.py",
    "experiments/train.py",
    "experiments/timing.py",
    "experiments/batches.py",
    "experiments/data.py",
    "experiments/corpora.py",
    "experiments/text_dataset.py",
    "experiments/checkpoint.py",
    "experiments/compile.py",
    "experiments/absent.py",
    "meshes/targets.py",
    # Of the runner: on which cores, in which environment and how a worker is started.
    "experiments/cores.py",
    "experiments/launch/local.py",
    "experiments/launch/tether.py",
)

COMPILING_SOURCES = (
    "models/*.py",
    "meshes/spec.py",
    "meshes/rules.py",
    "meshes/build.py",
    "meshes/targets.py",
    "meshes/topology.py",
    "experiments/train.py",
    "experiments/compile.py",
    "experiments/absent.py",
    # In which environment the compiler is started.
    "experiments/launch/local.py",
)
"""What decides the program of a point that is compiled for absent hardware."""


def parent_environment(
    *,
    num_cores: int,
    environ: Mapping[str, str],
    sources: Iterable[str] = MEASURING_SOURCES,
) -> Environment:
    """Returns the environment of a run before any worker has said what it found.

    `sources` are the patterns of the files that decide what comes out of it.
    """
    return Environment(
        versions=installed_versions(),
        device_kind=None,
        host_cpu_model=host_cpu_model(),
        flags=flags(environ),
        code_hash=code_hash(sources),
        commit=commit(),
        hostname=socket.gethostname(),
        num_cores=num_cores,
    )


def what_differs(before: Environment, now: Environment) -> str:
    """Returns in words what keeps a stored run from counting in today's environment."""
    found = [
        f"{name} {before.versions.get(name) or 'absent'}, now "
        f"{now.versions.get(name) or 'absent'}"
        for name in POOLED_DISTRIBUTIONS
        if before.versions.get(name) != now.versions.get(name)
    ]
    names = sorted({*before.flags, *now.flags})
    found += [n for n in names if before.flags.get(n) != now.flags.get(n)]
    if before.host_cpu_model != now.host_cpu_model:
        found.append(f"{before.host_cpu_model}, now {now.host_cpu_model}")
    if before.code_hash != now.code_hash:
        found.append("the toolkit's measuring code")
    return "; ".join(found)


def flags(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that reach the compiler or the runtime, by name."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if name not in SET_BY_RUNNER
        and (name in FLAG_NAMES or name.startswith(FLAG_PREFIXES))
    }


def arrived(sent: Mapping[str, str], seen: Mapping[str, str]) -> dict[str, str]:
    """Returns the flags that were sent, with the value a worker saw where it differs.

    JAX adds variables and appends to some (`LIBTPU_INIT_ARGS`) when it is imported.
    That follows from its version, and the parent, which has to know whether a stored
    run is of today's environment, cannot know it: additions are left out.
    """
    result: dict[str, str] = {}
    for name, value in sent.items():
        found = seen.get(name, "")
        result[name] = value if value in found else found
    return result


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("python", platform.python_version())]
    for name in DISTRIBUTIONS:
        try:
            found.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return tuple(found)


def installed_versions() -> dict[str, str]:
    """Returns the version of Python and of every installed one of `DISTRIBUTIONS`."""
    return dict(_versions())


@functools.cache
def host_cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Returns the processor's name, or its architecture where none is given."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "cpu model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def code_hash(
    sources: Iterable[str] = MEASURING_SOURCES, root: Path = SOURCE_ROOT
) -> str:
    """Returns the SHA-256 of the sources that decide what a run is."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in sources for path in root.glob(pattern)):
        content = path.read_bytes()
        name = path.relative_to(root).as_posix()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def commit(root: Path = SOURCE_ROOT) -> str | None:
    """Returns the commit of the checkout, `-dirty` if it has changes; None if none."""
    # An installed copy may lie inside somebody else's checkout: not our commit.
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "status", "--porcelain=v2", "--branch"]
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        lines = subprocess.run(
            [*command, "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
            env=environ,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    oid = next((line.split()[-1] for line in lines if "branch.oid" in line), None)
    changed = any(not line.startswith("#") for line in lines)
    return f"{oid}-dirty" if oid and changed else oid
