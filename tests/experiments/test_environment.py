"""The parent's view of a run's environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from experiments import environment


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in ("models/a.py", "meshes/spec.py", "meshes/hardware.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {name}\n")
    return tmp_path


def test_flags_are_those_that_reach_compiler_or_runtime():
    environ = {
        "XLA_FLAGS": "--xla_a",
        "JAX_ENABLE_X64": "1",
        "NCCL_ALGO": "Ring",
        "LIBTPU_INIT_ARGS": "--b",
        "HOME": "/home/me",
        "PATH": "/bin",
        "SCALING_RUN": "x:y",
    }
    kept = ("JAX_ENABLE_X64", "LIBTPU_INIT_ARGS", "NCCL_ALGO", "XLA_FLAGS")
    assert environment.flags(environ) == {name: environ[name] for name in kept}


def test_what_the_runner_derives_from_the_point_is_no_flag():
    """Otherwise no two meshes could be on one curve."""
    environ = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    assert environment.flags(environ) == {}


def test_a_flag_that_does_not_arrive_is_recorded_as_the_worker_saw_it():
    sent = {"XLA_FLAGS": "--a", "LIBTPU_INIT_ARGS": "--b", "NCCL_ALGO": "Ring"}
    seen = {"XLA_FLAGS": "--c", "LIBTPU_INIT_ARGS": "--b --set_by_jax", "TPU_X": "1"}
    assert environment.arrived(sent, seen) == {
        "XLA_FLAGS": "--c",
        "LIBTPU_INIT_ARGS": "--b",
        "NCCL_ALGO": "",
    }


def test_versions_are_those_of_what_is_installed():
    versions = environment.installed_versions()
    assert {"python", "jax", "jaxlib", "flax", "optax"} <= versions.keys()


def test_the_hash_follows_what_measures_and_nothing_else(sources: Path):
    before = environment.code_hash(root=sources)
    (sources / "meshes/hardware.py").write_text("# a chip more\n")
    (sources / "README.md").write_text("hello\n")
    assert environment.code_hash(root=sources) == before
    (sources / "models/a.py").write_text("# changed\n")
    changed = environment.code_hash(root=sources)
    assert changed != before
    (sources / "models/b.py").write_text("")
    assert environment.code_hash(root=sources) not in (before, changed)


MEASURES_NOTHING = {
    # What a run is called, looked up as, and told in; not what is timed.
    "experiments/environment.py",
    "experiments/memory_errors.py",
    "meshes/chip.py",
    "meshes/gpu_chips.py",
    "meshes/hardware.py",
    "meshes/tpu_chips.py",
    "scaling/measurement.py",
    "scaling/point.py",
}


def imported_by(*statements: str) -> set[str]:
    """Returns the files of ours that a process has loaded after the statements."""
    root = environment.SOURCE_ROOT
    program = "\n".join(
        [
            "import sys",
            *statements,
            "for module in list(sys.modules.values()):",
            "    print(getattr(module, '__file__', None))",
        ]
    )
    command = [sys.executable, "-P", "-c", program]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    loaded = {Path(line) for line in printed.splitlines() if line != "None"}
    return {
        path.relative_to(root).as_posix()
        for path in loaded
        if path.is_relative_to(root)
        and path.relative_to(root).parts[0]
        in ("experiments", "meshes", "models", "scaling")
        and path.name != "__init__.py"
    }


def test_the_hash_covers_everything_of_ours_that_a_worker_imports():
    root = environment.SOURCE_ROOT
    ours = imported_by(
        "import experiments.worker, experiments.measure, experiments.checkpoint",
        "import experiments.batches, experiments.data",
    )
    hashed = {
        path.relative_to(root).as_posix()
        for pattern in environment.MEASURING_SOURCES
        for path in root.glob(pattern)
    }
    assert "experiments/timing.py" in ours
    assert ours - hashed == MEASURES_NOTHING & ours


MAKES_NO_PROGRAM = MEASURES_NOTHING | {
    # How a worker is told and heard, and what is known of a chip beside its name.
    "experiments/attached.py",
    "experiments/event_writer.py",
    "experiments/protocol.py",
    "experiments/resident.py",
    "meshes/collectives.py",
    "meshes/divisors.py",
    "meshes/subtorus.py",
}


def test_the_hash_of_compiled_runs_covers_what_makes_the_program():
    ours = imported_by("import experiments.compile")
    hashed = {
        path.relative_to(environment.SOURCE_ROOT).as_posix()
        for pattern in environment.COMPILING_SOURCES
        for path in environment.SOURCE_ROOT.glob(pattern)
    }
    assert "meshes/targets.py" in ours
    left_out = {name for name in ours - hashed if not name.startswith("scaling/")}
    # Nothing of `scaling` but the point reaches a compiler.
    assert left_out == {
        name for name in MAKES_NO_PROGRAM & ours if not name.startswith("scaling/")
    }


@pytest.mark.parametrize(
    "name",
    [
        "experiments/cores.py",
        "experiments/launch/local.py",
        "experiments/launch/tether.py",
    ],
)
def test_the_hash_follows_what_places_and_starts_a_worker(sources: Path, name: str):
    (sources / "experiments/launch").mkdir(parents=True)
    before = environment.code_hash(root=sources)
    (sources / name).write_text("# changed\n")
    assert environment.code_hash(root=sources) != before


def test_every_measuring_source_is_there():
    for pattern in environment.MEASURING_SOURCES:
        assert list(environment.SOURCE_ROOT.glob(pattern)), pattern


def test_the_commit_says_whether_the_checkout_has_changes(sources: Path):
    git(sources, "init", "-q")
    git(sources, "add", ".")
    git(sources, "commit", "-q", "-m", "first")
    head = git(sources, "rev-parse", "HEAD")
    assert environment.commit(sources) == head
    (sources / "results").mkdir()
    (sources / "results" / "new.json").write_text("{}")
    assert environment.commit(sources) == head
    (sources / "models/a.py").write_text("# changed\n")
    assert environment.commit(sources) == f"{head}-dirty"


def test_an_installed_copy_has_no_commit_even_within_a_checkout(sources: Path):
    git(sources, "init", "-q")
    inner = sources / "site-packages"
    inner.mkdir()
    assert environment.commit(inner) is None


def test_the_processor_s_name(tmp_path: Path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: A Fast One @ 3 GHz\n")
    assert environment.host_cpu_model(cpuinfo) == "A Fast One @ 3 GHz"
    assert environment.host_cpu_model(tmp_path / "none")


def test_what_differs_is_named_by_what_it_is():
    before = environment.parent_environment(num_cores=2, environ={})
    now = before.model_copy(
        update={
            "versions": before.versions | {"jax": "99"},
            "flags": before.flags | {"XLA_FLAGS": "--new"},
            "host_cpu_model": "another",
            "code_hash": "another",
        }
    )
    said = environment.what_differs(before, now)
    assert f"jax {before.versions['jax']}, now 99" in said
    assert "XLA_FLAGS" in said
    assert "now another" in said
    assert said.endswith("the toolkit's measuring code")
    assert environment.what_differs(before, before) == ""
