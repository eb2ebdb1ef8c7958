"""`scaling plan --explain`: which point, what is printed, and the JSON document."""

import json

import pytest

from experiments import cli
from experiments.commands import plan as plan_command
from experiments.usage import UsageError

FLAGS = ("--model", "llama3-8b", "--chip", "v5p:4x4x8", "--seq_len", "4096")
POINT = (*FLAGS, "--batch", "256", "--mesh", "data=2/fsdp=32,tensor=4")


@pytest.fixture
def explaining(capsys, tmp_path, monkeypatch):
    """Returns what `scaling plan --explain` prints with these flags, as 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*flags):
        given = ["plan", *flags, "--results", str(tmp_path)]
        assert plan_command.run(cli.parsed(given)) == 0
        return capsys.readouterr().out

    return run


def complaint(*flags):
    with pytest.raises(UsageError) as caught:
        plan_command.run(cli.parsed(["plan", *flags]))
    return str(caught.value)


def test_the_document_sums_to_the_plan_of_the_point(explaining):
    found = json.loads(explaining("--explain", *POINT, "--json"))
    (planned,) = json.loads(explaining(*POINT, "--json"))
    assert found["id"] == planned["id"]
    assert found["predicted"] == planned["predicted"]
    peak = sum(part["bytes"] for part in found["memory"])
    assert peak == pytest.approx(planned["predicted"]["peak_hbm_bytes"], abs=1)
    assert sum(p["share_fraction"] for p in found["memory"]) == pytest.approx(1)
    for cause, seconds in planned["predicted"]["times_s"].items():
        parts = [part["time_s"] for part in found["times"] if part["cause"] == cause]
        assert sum(parts) == pytest.approx(seconds)
    assert {(a["axis"], a["network"]) for a in found["axes"]} == {
        ("fsdp", "ici"),
        ("tensor", "ici"),
        ("data", "dcn"),
    }
    # 3 meshes of two slices times C(9, 2) of 2⁷ devices.
    assert found["num_meshes"] == 3 * 36
    better = found["nearest_better"]
    assert better["predicted"]["step_time_s"] * (1 + better["gain_fraction"]) == (
        pytest.approx(planned["predicted"]["step_time_s"])
    )


def test_the_text_says_tensors_collectives_links_and_the_better_mesh(explaining):
    text = explaining("--explain", *POINT, "--set", "remat=full")
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    for part in (
        "of 95.7 GiB",
        "residual stream",
        "moments of AdamW",
        "blocks.mlp.gate.kernel",
        "all_reduce tensor ici",
        "dims 2 and 3 of 4x4x8: ring of 4 × ring of 8, 4",
        "data=2 dcn the network between slices 6.25 GB/s",
        "Nearest better mesh: ",
        "Limited by compute.",
    ):
        assert part in words


def test_a_point_of_a_sweep_is_named_by_the_beginning_of_its_id(explaining):
    rows = json.loads(explaining("v5p_vertical", "--json"))
    wanted = next(row for row in rows if row["status"] == "ok")
    text = explaining("v5p_vertical", "--explain", wanted["id"][:8], "--json")
    assert json.loads(text)["id"] == wanted["id"]


def test_what_does_not_fit_is_explained_and_what_would_fit(explaining):
    flags = ("--model", "llama3-8b", "--chip", "v5e:4x4", "--batch", "16")
    flags = (*flags, "--seq_len", "4096", "--set", "remat=full", "--mesh", "1/data=16")
    text = " ".join(explaining("--explain", *flags).split())
    assert ": does not fit" in text
    assert "Nearest mesh that fits: 1/" in text


def test_without_figures_memory_alone_is_explained(explaining):
    flags = ("--model", "tiny", "--chip", "cpu", "--batch", "4", "--mesh", "1/1")
    text = explaining("--explain", *flags)
    assert "moments of AdamW" in text
    assert "no times: peak in bfloat16 and memory bandwidth is not known" in text


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("cpu_quick", "--explain"), ("is of one point, and these are 8", "id")),
        (("cpu_quick", "--explain", "zzz"), ("'zzz'",)),
        (
            ("--explain", *FLAGS, "--batch", "7", "--mesh", "1/fsdp=128"),
            ("the point cannot run", "batch 7"),
        ),
        (("--explain", "--search", *FLAGS, "--devices", "8"), ("use one",)),
        (("--explain",), ("no points",)),
    ],
)
def test_mistakes_are_one_sentence_with_the_cure(flags, words):
    said = complaint(*flags)
    assert "\n" not in said
    for word in words:
        assert word in said
