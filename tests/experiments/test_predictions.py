"""Stored compiled runs and their report, on texts of the real TPU compiler."""

import json
import shutil
from pathlib import Path

import pytest

from experiments import cli
from experiments import store
from experiments.predictions import predicted
from scaling.measurement import CompiledProgram
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point

GOLDEN = Path(__file__).parents[1] / "golden" / "hlo"
MESHES = {
    "1/fsdp=2,tensor=2": "v5e_fsdp2_tensor2",
    "data=2/fsdp=2,tensor=2": "v5e_data2_slices",
}
ENVIRONMENT = Environment(
    versions={"jax": "0.12.0", "libtpu": "0.0.50"},
    device_kind="TPU v5 lite",
    host_cpu_model="a core",
    flags={},
    code_hash="c",
    commit=None,
    hostname="h",
    num_cores=2,
)
PROGRAM = CompiledProgram(
    program_hash="x",
    arguments_bytes=1000,
    outputs_bytes=700,
    aliases_bytes=600,
    temporaries_bytes=50,
    code_bytes=9,
)


def a_run(mesh, number=0, **fields):
    point = Point.model_validate(
        {
            "model": "tiny",
            "chip": "v5e",
            "slice_shape": (2, 2),
            "mesh": mesh,
            "global_batch_size": 64,
            "seq_len": 256,
            "remat": "full",
        }
    )
    return Measurement(
        id=point.id,
        run=f"{number:012x}",
        sweep="mine",
        point=point,
        status="ok",
        provenance="compiled",
        started_at=f"2026-01-01T00:00:{number:02d}+00:00",
        environment=ENVIRONMENT,
        compiled=PROGRAM,
    ).model_copy(update=fields)


def keep(folder, run, golden):
    store.save(folder, run)
    program = f"{run.id}.{run.run}{store.HLO_SUFFIX}"
    shutil.copy(GOLDEN / f"{golden}.hlo.gz", folder / program)


@pytest.fixture
def results(tmp_path):
    for mesh, golden in MESHES.items():
        keep(tmp_path / "mine", a_run(mesh), golden)
    return tmp_path


def read(results):
    return predicted(results, store.load(results).measurements)


def test_a_results_folder_and_one_sweeps_give_the_same(results):
    found = read(results)
    assert len(found.predictions) == 2
    assert found.problems == ()
    assert predicted(results / "mine", store.load(results).measurements) == found
    for each in found.predictions.values():
        assert each.exposed_s is not None
        assert sum(each.exposed_s.values()) == pytest.approx(each.step_time_s)


def test_only_the_newest_run_of_a_point_is_read(results):
    newer = a_run("1/fsdp=2,tensor=2", number=1)
    keep(results / "mine", newer, MESHES["1/fsdp=2,tensor=2"])
    assert sorted(run for _, run in read(results).predictions) == [
        "000000000000",
        "000000000001",
    ]


def test_a_program_that_is_missing_or_broken_is_named_and_hides_no_other(results):
    one, two = sorted((results / "mine").glob("*.hlo.gz"))
    one.unlink()
    found = read(results)
    assert len(found.predictions) == 1
    assert found.problems == (f"{one.name} is missing, so its point has no step time",)
    two.write_bytes(b"not gzip")
    _, broken = read(results).problems
    assert broken.startswith(f"{two}: cannot be accounted for: ")


def test_what_is_not_compiled_is_not_looked_for(results):
    runs = [a_run("1/fsdp=2", provenance="measured"), a_run("1/fsdp=4", compiled=None)]
    found = predicted(results / "nowhere", runs)
    assert (dict(found.predictions), found.problems) == ({}, ())


def test_the_report_judges_compiled_runs(results, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["scaling", "report", str(results), "--json"])
    assert not caught.value.code
    captured = capsys.readouterr()
    assert "left out" not in captured.err
    document = json.loads(captured.out)
    (curve,) = document["curves"]
    assert (curve["provenance"], curve["direction"]) == ("compiled", "horizontal")
    first, second = curve["points"]
    assert first["efficiency"] == 1
    assert second["efficiency_low"] < second["efficiency"] < second["efficiency_high"]
    (verdict,) = document["verdicts"]
    assert sum(verdict["causes"].values()) == pytest.approx(verdict["lost_time_s"])
    assert document["verdict"].startswith(
        "tiny compiled for v5e, horizontal (strong): "
    )


def test_a_program_that_cannot_be_read_is_said_and_the_rest_reported(results, capsys):
    broken = sorted((results / "mine").glob("*.hlo.gz"))[0]
    broken.write_bytes(b"not gzip")
    with pytest.raises(SystemExit) as caught:
        cli.main(["scaling", "report", str(results)])
    assert not caught.value.code
    captured = capsys.readouterr()
    assert f"not predicted: {broken}: cannot be accounted for" in captured.err
    assert "undecided" in " ".join(captured.out.split())
