"""`scaling plan --search`: what is asked, what is printed, and the JSON document."""

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from experiments import cli
from experiments.calibrated import calibration_path
from experiments.calibrated import write_chip
from experiments.commands import plan as plan_command
from experiments.point_flags import sweep_from
from experiments.runner import run_sweep
from experiments.usage import UsageError
from meshes.hardware import chip

if TYPE_CHECKING:
    from conftest import Fake

TINY = ("--model", "tiny", "--chip", "v5e", "--batch", "16")
ON_8 = (*TINY, "--devices", "8", "--seq_len", "128", "--set", "attention=xla")


@pytest.fixture
def searching(capsys, tmp_path, monkeypatch):
    """Returns what `scaling plan --search` prints with these flags, as 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*flags):
        given = ["plan", "--search", "--results", str(tmp_path), *flags]
        assert plan_command.run(cli.parsed(given)) == 0
        return capsys.readouterr().out

    return run


def on(chip_text, devices, *flags):
    fixed = ("--search", "--model", "tiny", "--batch", "16")
    return (*fixed, "--chip", chip_text, "--devices", str(devices), *flags)


def complaint(*flags):
    with pytest.raises(UsageError) as caught:
        plan_command.run(cli.parsed(["plan", *flags]))
    return str(caught.value)


def test_the_document_has_every_candidate_once(searching):
    found = json.loads(searching(*ON_8, "--json"))
    # 10 meshes of one slice, 18 of two, 10 of eight; v5e has no slice of two chips.
    assert found["num_meshes"] == 38
    refused = sum(group["num_candidates"] for group in found["refused"])
    assert len(found["ranked"]) + refused == found["num_candidates"]
    assert found["ranked"][0]["relative"] == 1
    times = [row["predicted"]["step_time_s"] for row in found["ranked"]]
    assert times == sorted(times)
    assert len({row["id"] for row in found["ranked"]}) == len(times)
    assert {row["num_devices"] for row in found["ranked"]} == {8}
    assert [row["num_slices"] for row in found["balance"]] == [1, 2, 8]
    for group in found["refused"]:
        assert group["num_candidates"] == sum(
            reason["num_candidates"] for reason in group["reasons"]
        )
    assert found["confirmed"] is None


def test_the_tables_fit_a_terminal_and_end_in_the_command_that_explains(searching):
    text = searching(*ON_8)
    *lines, command = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert command.startswith("scaling plan --explain --model tiny --chip v5e:")
    # The command means the best of the ranked points.
    best = json.loads(searching(*ON_8, "--json"))["ranked"][0]["id"]
    flags = command.split()[3:]
    (point,) = sweep_from(cli.parsed(["plan", *flags])).points
    assert point.id == best
    assert "kv_heads 2 does not divide over tensor=4" in " ".join(text.split())


def test_set_fixes_what_the_search_would_vary(searching):
    given = ("--set", "remat=full", "--set", "accumulation=2", "--set", "seed=3")
    found = json.loads(searching(*ON_8, *given, "--json"))
    assert {row["remat"] for row in found["ranked"]} == {"full"}
    assert {row["accumulation"] for row in found["ranked"]} == {2}
    assert {row["layers"] for row in found["ranked"]} == {"scanned", "unrolled"}


def test_slices_and_the_slice_shape_can_be_fixed(searching):
    one = json.loads(searching(*ON_8, "--slices", "2", "--json"))
    assert {row["num_slices"] for row in one["ranked"]} == {2}
    flags = ("--model", "tiny", "--chip", "v5e:2x2", "--batch", "16", "--seq_len", "64")
    shape = json.loads(searching(*flags, "--devices", "8", "--json"))
    assert {tuple(row["slice_shape"]) for row in shape["ranked"]} == {(2, 2)}


def test_a_batch_per_device_grows_with_the_devices(searching):
    flags = ("--model", "tiny", "--chip", "v5e", "--batch_per_device", "2")
    found = json.loads(searching(*flags, "--devices", "8", "--json"))
    assert (found["regime"], found["global_batch_size"]) == ("weak", 16)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--search", *TINY), ("--search needs --devices",)),
        ((*TINY, "--devices", "8"), ("--devices is a flag of --search",)),
        ((*TINY, "--slices", "2"), ("--slices is a flag of --search",)),
        (("--search", *ON_8, "--mesh", "1/1"), ("--mesh 1/1", "every mesh")),
        (("--search", *ON_8, "--model", "small"), ("given 2 times", "tiny, small")),
        (("--search", "cpu_quick", *ON_8), ("SWEEP 'cpu_quick' and --search",)),
        (("--search", *ON_8, "--batch_per_device", "1"), ("are both given",)),
        (("--search", *ON_8, "--slices", "3"), ("8 devices", "3 slices")),
        # 4 slices of two chips: v5e has none.
        (("--search", *ON_8, "--slices", "4"), ("no v5e slice has 2 chips", "1 or 4")),
        (("--search", *ON_8, "--devices", "0"), ("--devices '0'",)),
        (("--search", *ON_8, "--chip", "v5e:3x3"), ("given 2 times",)),
        (
            ("--search", *TINY[2:], "--devices", "8"),
            ("--model is missing", "--model tiny"),
        ),
        (on("v5e:3x3", 9), ("no slice 3x3",)),
        (on("v5e:2x2", 8, "--slices", "1"), ("8 devices in 1 slice", "v5e:2x2 has 4")),
        (on("h100-sxm:16", 16), ("NVLink joins 8",)),
        (on("h100-sxm", 16, "--slices", "1"), ("NVLink joins 8",)),
        (on("v7x", 3), ("whole number of v7x chips",)),
    ],
)
def test_mistakes_are_one_sentence_with_the_cure(flags, words):
    said = complaint(*flags)
    assert "\n" not in said
    for word in words:
        assert word in said


def test_cpu_is_ranked_by_calibrated_figures_alone(searching, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.search.num_cores", lambda: 4)
    flags = ("--model", "tiny", "--chip", "cpu", "--batch", "16", "--seq_len", "64")
    search = ("--search", *flags, "--results", str(tmp_path))
    assert "scaling calibrate" in complaint(*search, "--devices", "4")
    assert "take turns on 4 cores" in complaint(*search, "--devices", "8")
    calibrated = chip("cpu").model_copy(
        update={
            "matmul_flops_per_s": {"bfloat16": 40e9, "float32": 40e9},
            "hbm_bytes_per_s": 8e9,
            "dcn_bytes_per_s": 1e9,
        }
    )
    write_chip(calibration_path(str(tmp_path), "cpu"), calibrated)
    found = json.loads(searching(*flags, "--devices", "4", "--json"))
    # 6 meshes of 4 = 2² in one process, 3·3 of two and 6 of four.
    assert found["num_meshes"] == 21
    monkeypatch.setattr("experiments.search.host_memory_bytes", lambda: 10**6)
    assert "no mesh fits" in complaint(*search, "--devices", "4")


def test_confirmed_meshes_are_compiled_and_shown_beside(
    searching, fake: "Fake", monkeypatch
):
    ours = {"worker_command": fake.command, "cores_folder": fake.cores_folder}
    monkeypatch.setattr("experiments.search.run_sweep", partial(run_sweep, **ours))
    flags = (*TINY, "--seq_len", "128", "--devices", "16", "--slices", "1")
    flags = (*flags, "--results", str(fake.results))
    found = json.loads(searching(*flags, "--confirm", "2", "--json"))
    meshes = list(dict.fromkeys(row["mesh"] for row in found["ranked"]))
    assert [row["mesh"] for row in found["confirmed"]] == meshes[:2]
    assert found["confirmed"][0]["id"] == found["ranked"][0]["id"]
    for row in found["confirmed"]:
        assert (row["status"], row["provenance"]) == ("ok", "compiled")
        # What the fake worker's program needs.
        assert row["needed_bytes"] == 2000
    assert len(fake.stored()) == 2
    # Stored, so not compiled again.
    text = searching(*flags, "--confirm", "2")
    assert len(fake.stored()) == 2
    assert "1.95 KiB" in text
    assert max(map(len, text.splitlines()[:-1])) <= 80


def test_a_whole_pod_is_searched_where_it_is_named_and_said_not_to_be_had(
    capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    pod = ["--model", "llama3-8b", "--chip", "v5p:16x20x28", "--devices", "8960"]
    one = ["--batch", "8960", "--slices", "1"]
    fixed = [f"--set={text}" for text in ("remat=full", "attention=splash")]
    given = cli.parsed(["plan", "--search", *pod, *one, *fixed])
    assert plan_command.run(given) == 0
    out, err = capsys.readouterr()
    assert "1/data=70,fsdp=128" in out
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert "the largest slice that can be had has 6,144" in err
