import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from experiments import cli

pytestmark = pytest.mark.fast

GOLDEN = Path(__file__).parents[1] / "golden"
PREDICTED_KEYS = {
    "step_time_s",
    "step_time_low_s",
    "step_time_high_s",
    "tokens_per_s",
    "mfu",
    "mfu_full_attention",
    "hfu",
    "peak_hbm_bytes",
    "available_hbm_bytes",
    "limited_by",
    "times_s",
}
PLAN_KEYS = {
    "id",
    "model",
    "chip",
    "slice_shape",
    "mesh",
    "num_devices",
    "num_slices",
    "regime",
    "global_batch_size",
    "seq_len",
    "status",
    "phase",
    "reason",
    "provenance",
    "predicted",
}
MODEL_KEYS = {
    "num_parameters",
    "num_non_embedding_parameters",
    "num_active_parameters",
    "forward_flops_per_token",
    "training_flops_per_token",
    "seq_len",
    "flops_convention",
    "source",
}
TINY = ("--model", "tiny", "--chip", "cpu")


@pytest.fixture
def scaling(capsys):
    """Runs a command in this process and returns exit code, stdout and stderr."""

    def run(*arguments):
        with pytest.raises(SystemExit) as caught:
            cli.main(["scaling", *arguments])
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return run


def process(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "experiments.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        **kwargs,
    )


@pytest.mark.parametrize("command", ["", *cli.COMMANDS])
def test_help_is_golden_and_fits_a_terminal(scaling, monkeypatch, command):
    # UPDATE_GOLDEN=1 writes what the command prints now.
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = scaling(*filter(None, (command, "--help")))
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    path = GOLDEN / f"help{f'_{command}' if command else ''}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(out)
    assert out == path.read_text()


def test_help_teaches_no_command_that_does_not_exist(scaling):
    texts = [scaling(*filter(None, (c, "--help")))[1] for c in ("", *cli.COMMANDS)]
    for absent in ("scaling reproduce", "--launcher"):
        assert not any(absent in text for text in texts)


def test_every_example_of_the_help_is_understood():
    for command in cli.COMMANDS:
        text = cli.command_module(command).EXAMPLES.replace("\\\n", " ")
        lines = [line.strip() for line in text.splitlines()]
        examples = [line for line in lines if line.startswith("scaling ")]
        assert examples
        for example in examples:
            arguments = example.partition("  ")[0].split()[1:]
            assert cli.parsed(arguments).command == command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        # value, choices and cure, in one sentence
        ((), ("COMMAND", "scaling --help")),
        (("plna",), ("'plna'", "show, plan, compile, run", "did you mean 'plan'")),
        (("plan",), ("no points", "scaling show sweeps", "--mesh")),
        (("plan", "cpu_quik"), ("'cpu_quik'", "did you mean 'cpu_quick'")),
        (("plan", "cpu_quick", "x"), ("unexpected argument 'x'",)),
        (("plan", "--jsn"), ("unknown flag '--jsn'", "did you mean '--json'")),
        (("plan", "--launcher=x"), ("unknown flag '--launcher'",)),
        (("plan", "no/such.py"), ("no sweep file 'no/such.py'",)),
        (("plan", "cpu_quick", "--batch", "8"), ("'cpu_quick'", "--batch")),
        (("show", "modles"), ("'modles'", "did you mean 'models'")),
        (("show", "models", "lama2-7b"), ("'lama2-7b'", "llama2-7b")),
        (("show", "chips", "v5"), ("'v5'", "'v5e'", "'v5p'")),
        (("show", "curves", "mpt"), ("'mpt'", "mpt-30b-h100")),
        (("show", "models", "tiny", "--seq_len", "0"), ("--seq_len '0'",)),
        (("show", "chips", "--seq_len", "4"), ("--seq_len 4", "is for models")),
        (("run", "cpu_quick", "--repeats", "-1"), ("--repeats '-1'",)),
        (("run", "cpu_quick", "--timeout_s", "soon"), ("--timeout_s 'soon'",)),
        (("run", "cpu_quick", "--hang_s", "nan"), ("--hang_s 'nan'",)),
        (("run", "cpu_quick", "--only", "zz"), ("'zz'",)),
        (("run", "cpu_quick", "--retry", "hung"), ("'hung'", "did you mean 'hang'")),
        (("report", "no/such/folder"), ("'no/such/folder'", "scaling run")),
        (("report", "x", "--threshold", "2"), ("--threshold '2'",)),
        (("compare", "no/a", "no/b"), ("'no/a'",)),
    ],
)
def test_mistakes_are_one_sentence_on_stderr(scaling, arguments, words):
    code, out, err = scaling(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("scaling: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mesh", "1/1"), ("--batch is missing", "--batch 16")),
        (("--batch", "8"), ("--mesh is missing", "--mesh 1/data=2")),
        (("--mesh", "data=2", "--batch", "8"), ("'data=2'", "slash")),
        (("--mesh", "1/tp=2", "--batch", "8"), ("'tp'", "tensor")),
        (("--mesh", "1/data=-2", "--batch", "8"), ("'data=-2'",)),
        (("--mesh", "1/data=0", "--batch", "8"), ("'data'", "size 0")),
        (("--mesh", "1/1", "--batch", "-8"), ("--batch '-8'", "from 1")),
        (("--mesh", "1/1", "--batch", "8.5"), ("--batch '8.5'",)),
        (("--mesh", "1/1", "--batch", "²"), ("--batch '²'",)),
        (
            ("--mesh", "1/1", "--batch", "8", "--batch_per_device", "4"),
            ("--batch 8", "--batch_per_device 4", "strong", "weak"),
        ),
        (("--mesh", "1/1", "--batch", "8", "--set", "remat"), ("'remat'", "=")),
        (
            ("--mesh", "1/1", "--batch", "8", "--set", "remta=full"),
            ("'remta'", "did you mean 'remat'"),
        ),
        (
            ("--mesh", "1/1", "--batch", "8", "--set", "remat=all"),
            ("remat 'all'", "none, dots, full"),
        ),
        (
            ("--mesh", "1/1", "--batch", "8", "--set", "attention=spalsh"),
            ("attention 'spalsh'", "xla, splash, cudnn", "did you mean 'splash'?"),
        ),
        (
            ("--mesh", "1/1", "--batch", "8", "--set", "seed=1", "--set", "seed=2"),
            ("'seed' twice",),
        ),
        (
            ("--mesh", "1/1", "--batch", "8", "--set", "seq_len=-1"),
            ("--seq_len '-1'",),
        ),
        (
            ("--mesh", "1/1", "--batch", "8", "--set", "model=small"),
            ("--model tiny", "--set model=small"),
        ),
    ],
)
def test_mistakes_in_points_by_flags(scaling, arguments, words):
    code, out, err = scaling("plan", "--json", *TINY, *arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_a_slice_and_a_mesh_that_differ_are_named_with_both_numbers(scaling):
    code, out, err = scaling(
        *("plan", "--json", "--model", "llama2-7b", "--chip", "v5p:4x4x8"),
        *("--mesh", "1/fsdp=64", "--batch", "512"),
    )
    assert (code, out) == (2, "")
    assert "128" in err
    assert "64" in err


def test_plan_prints_exactly_the_documented_keys(scaling):
    code, out, err = scaling(
        *("plan", "--json", "--model", "llama2-70b", "--chip", "v5p"),
        *("--mesh", "data=2/fsdp=64,tensor=4", "--batch", "1024"),
        *("--set", "remat=full"),
    )
    assert (code, err) == (0, "")
    (row,) = json.loads(out)
    assert set(row) == PLAN_KEYS
    assert set(row["predicted"]) == PREDICTED_KEYS
    assert set(row["predicted"]["times_s"]) == {"compute", "hbm", "ici", "dcn"}
    assert row["slice_shape"] == [4, 8, 8]
    assert row["mesh"] == "data=2/fsdp=64,tensor=4"
    assert (row["num_devices"], row["num_slices"]) == (512, 2)
    assert (row["status"], row["provenance"]) == ("ok", "analytic")
    # The model's own context where no length is given.
    assert row["seq_len"] == 4096


def test_flags_repeat_and_every_combination_is_a_point(scaling):
    code, out, _ = scaling(
        *("plan", "--json", *TINY, "--mesh", "1/1", "--mesh", "1/data=2"),
        *("--batch", "8", "--batch", "16", "--set", "remat=full"),
    )
    assert code == 0
    rows = json.loads(out)
    assert [(row["mesh"], row["global_batch_size"]) for row in rows] == [
        ("1/1", 8),
        ("1/1", 16),
        ("1/data=2", 8),
        ("1/data=2", 16),
    ]
    assert len({row["id"] for row in rows}) == 4


def test_set_reaches_fields_with_flags_of_their_own(scaling):
    by_flags = scaling(
        *("plan", "--json", "--chip", "v5p:4x4x8", "--model", "llama2-7b"),
        *("--mesh", "1/fsdp=128", "--batch_per_device", "1", "--seq_len", "2048"),
    )
    by_set = scaling(
        *("plan", "--json", "--set", "chip=v5p", "--set", "slice_shape=4x4x8"),
        *("--set", "model=llama2-7b", "--set", "mesh=1/fsdp=128"),
        *("--set", "global_batch_size=128", "--set", "regime=weak"),
        *("--set", "seq_len=2048"),
    )
    assert by_flags[0] == by_set[0] == 0
    assert json.loads(by_flags[1]) == json.loads(by_set[1])
    assert json.loads(by_set[1])[0]["regime"] == "weak"


def test_batch_per_device_is_weak(scaling):
    _, out, _ = scaling(
        *("plan", "--json", *TINY, "--mesh", "data=2/data=2"),
        *("--batch_per_device", "8"),
    )
    (row,) = json.loads(out)
    assert (row["regime"], row["global_batch_size"]) == ("weak", 32)


def test_an_infeasible_point_is_a_row_among_others(scaling):
    code, out, err = scaling(
        *("plan", "--json", *TINY, "--batch", "8"),
        *("--mesh", "1/tensor=4", "--mesh", "1/data=2"),
    )
    assert (code, err) == (0, "")
    invalid, fine = json.loads(out)
    assert invalid["status"] == "invalid"
    assert "kv_heads 2" in invalid["reason"]
    assert invalid["predicted"] is None
    assert fine["status"] == "ok"
    # Nothing is known of a CPU before it is calibrated, and that is not zero.
    assert fine["predicted"]["step_time_s"] is None
    assert fine["predicted"]["times_s"] is None


def test_without_a_feasible_point_the_json_is_printed_and_the_exit_is_2(scaling):
    code, out, err = scaling(
        *("plan", "--json", *TINY, "--batch", "8"),
        *("--mesh", "1/tensor=4", "--mesh", "1/context=2"),
    )
    assert code == 2
    assert [row["status"] for row in json.loads(out)] == ["invalid", "invalid"]
    assert "kv_heads 2" in err
    assert "context" not in err


def test_too_little_memory_is_a_status_with_both_numbers(scaling):
    code, out, _ = scaling(
        *("plan", "--json", "--model", "llama2-70b", "--chip", "v5e"),
        *("--mesh", "1/fsdp=16", "--mesh", "1/fsdp=256", "--batch", "256"),
        *("--set", "remat=full", "--seq_len", "2048"),
    )
    assert code == 0
    small, large = json.loads(out)
    assert (small["status"], small["phase"]) == ("out_of_memory", "compile")
    assert "15.8 GiB" in small["reason"]
    predicted = small["predicted"]
    assert predicted["peak_hbm_bytes"] > predicted["available_hbm_bytes"]
    assert large["status"] == "ok"


def test_a_point_that_is_only_predicted_not_to_fit_is_no_mistake(scaling):
    code, out, err = scaling(
        *("plan", "--json", "--model", "llama2-70b", "--chip", "v5e"),
        *("--mesh", "1/1", "--batch", "1"),
    )
    assert (code, err) == (0, "")
    assert json.loads(out)[0]["status"] == "out_of_memory"


def test_nvlink_domains_spell_the_right_mesh(scaling):
    code, out, err = scaling(
        *("plan", "--json", "--model", "llama2-7b", "--chip", "h100-sxm:8"),
        *("--mesh", "1/fsdp=16", "--batch", "16"),
    )
    assert code == 2
    assert json.loads(out)[0]["status"] == "invalid"
    assert "write 'fsdp=2/fsdp=8'" in err


@pytest.mark.parametrize("sweep", ["cpu_quick", "v5e_vertical", "v5p_vertical"])
def test_shipped_sweeps_plan_at_80_columns(scaling, monkeypatch, sweep):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = scaling("plan", sweep)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "points can run" in out


def test_a_sweep_file_of_ones_own(scaling, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        textwrap.dedent(
            """
            from experiments.sweep import Sweep
            from experiments.sweeps.cpu_quick import sweep as quick
            print("noise")
            sweep = Sweep(name="mine", question="?", points=quick.points[:2])
            """
        )
    )
    code, out, err = scaling("plan", str(path), "--json")
    assert code == 0
    assert len(json.loads(out)) == 2
    assert "noise" in err


def test_show_a_model_in_json_has_exactly_the_documented_keys(scaling):
    code, out, _ = scaling("show", "models", "llama2-7b", "--json")
    assert code == 0
    found = json.loads(out)
    assert set(found) == MODEL_KEYS
    assert found["num_parameters"] == 6_738_415_616
    assert found["seq_len"] == 4096
    longer = scaling("show", "models", "llama2-7b", "--seq_len", "8192", "--json")[1]
    assert json.loads(longer)["seq_len"] == 8192


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("models", "gpt2-124m"),
        ("chips", "v5e"),
        ("sweeps", "cpu_quick"),
        ("curves", "mpt-30b-h100"),
    ],
)
def test_show_lists_and_details(scaling, monkeypatch, topic, name):
    monkeypatch.setenv("COLUMNS", "80")
    code, listed, _ = scaling("show", topic, "--json")
    assert code == 0
    assert name in [row["name"] for row in json.loads(listed)]
    assert name in scaling("show", topic)[1]
    code, text, err = scaling("show", topic, name)
    assert (code, err) == (0, "")
    assert text.strip()
    assert json.loads(scaling("show", topic, name, "--json")[1])


def test_help_and_plan_import_no_jax_and_nothing_heavy():
    heavy = ("jax", "jaxlib", "flax", "optax", "orbax", "grain", "numpy", "scipy")
    heavy += ("pandas", "altair", "etils", "tensorflow_datasets")
    program = textwrap.dedent(
        """
        import sys
        from experiments import cli
        try:
            cli.main(["scaling", *sys.argv[2:]])
        except SystemExit as end:
            assert not end.code
        found = [name for name in sys.argv[1].split(",") if name in sys.modules]
        sys.exit(",".join(found) or 0)
        """
    )
    for arguments in (["--help"], ["plan", "cpu_quick"], ["plan", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", program, ",".join(heavy), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_somebody_elses_models_are_not_taken_for_ours(tmp_path):
    (tmp_path / "models.py").write_text("raise SystemExit('imported')")
    done = process("plan", "cpu_quick", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert str(tmp_path / "models.py") in done.stderr
    assert "environment of its own" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_ends_the_command_quietly():
    # As `| head` does once it has its lines: nobody reads any more.
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", "show", "models", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE


def test_an_interrupt_is_130(scaling, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.plan.plan", interrupted)
    code, out, _ = scaling("plan", "cpu_quick")
    assert (code, out) == (130, "")


def test_a_fault_of_ours_is_1_with_a_traceback():
    program = (
        "import experiments.plan as p; from experiments import cli\n"
        "def fault(*_): raise ValueError('ours')\n"
        "p.plan = fault; cli.main(['scaling', 'plan', 'cpu_quick'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
