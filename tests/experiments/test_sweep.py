import re

import pytest
from pydantic import ValidationError

from experiments.store import OTHER_FOLDERS
from experiments.sweep import Sweep
from experiments.sweep import chip_text
from experiments.sweep import grid
from experiments.sweep import load_sweep
from experiments.sweep import parse_chip
from experiments.sweep import sentence
from experiments.sweep import sweep_docstring
from experiments.sweep import sweep_names
from meshes.spec import MeshSpec
from scaling.feasibility import why_infeasible
from scaling.point import Point

pytestmark = pytest.mark.fast

BASE = Point(
    model="tiny", chip="cpu", mesh=MeshSpec(), global_batch_size=16, seq_len=128
)

DEFINES_SWEEP = """
from experiments.sweep import Sweep, grid
from meshes.spec import MeshSpec
from scaling.point import Point

print("this must not reach stdout")
base = Point(
    model="tiny", chip="cpu", mesh=MeshSpec(), global_batch_size=4, seq_len=128
)
sweep = Sweep(name="mine", question="?", points=grid(base, meshes=("1/1", "1/data=2")))
"""


def sweep_of(*points):
    return Sweep(name="a", question="?", points=points)


def test_a_grid_is_every_combination():
    points = grid(
        BASE, meshes=("1/1", "1/data=2"), global_batch_sizes=(8, 16), seq_lens=(64, 128)
    )
    assert len(points) == 8
    assert {(str(p.mesh), p.global_batch_size, p.seq_len) for p in points} == {
        (mesh, batch, length)
        for mesh in ("1/1", "1/data=2")
        for batch in (8, 16)
        for length in (64, 128)
    }
    assert {p.regime for p in points} == {"strong"}


def test_weak_points_hold_the_batch_per_device():
    points = grid(BASE, meshes=("1/1", "data=2/data=2"), batches_per_device=(8,))
    assert [(p.regime, p.global_batch_size) for p in points] == [
        ("weak", 8),
        ("weak", 32),
    ]


def test_a_grid_of_both_regimes_is_refused():
    with pytest.raises(ValueError, match=r"strong.*weak"):
        grid(BASE, global_batch_sizes=(8,), batches_per_device=(8,))


def test_a_grid_keeps_all_other_fields_of_its_base():
    base = BASE.model_copy(update={"remat": "full", "accumulation": 2})
    (point,) = grid(base, meshes=("1/data=2",))
    assert point == base.model_copy(update={"mesh": MeshSpec.parse("1/data=2")})


def test_the_same_point_is_in_a_grid_once():
    assert len(grid(BASE, meshes=("1/data=2", "1/data=2", " 1/data=2"))) == 1


@pytest.mark.parametrize(
    ("chip", "mesh", "shape"),
    [
        ("v5e", "1/fsdp=256", (16, 16)),
        ("v5p", "data=2/fsdp=64,tensor=4", (4, 8, 8)),
        # Two devices a chip: 128 devices are 64 chips.
        ("v7x", "1/fsdp=128", (4, 4, 4)),
        ("v5p:4x4x8", "1/fsdp=128", (4, 4, 8)),
        ("h100-sxm", "1/fsdp=8", None),
        # The number NVLink joins anyway says nothing new, so both are one point.
        ("h100-sxm:8", "1/fsdp=8", None),
        ("h100-sxm:4", "1/fsdp=4", (4,)),
        ("cpu", "1/data=2", None),
    ],
)
def test_slices_are_filled_in_and_stored(chip, mesh, shape):
    (point,) = grid(BASE, chips=(chip,), meshes=(mesh,))
    assert point.slice_shape == shape
    assert point.chip == chip.partition(":")[0]
    (again,) = grid(BASE, chips=(chip_text(point),), meshes=(mesh,))
    assert again.id == point.id


def test_points_written_by_hand_get_their_slice_in_the_sweep():
    by_hand = BASE.model_copy(
        update={"chip": "v5e", "mesh": MeshSpec.parse("1/data=4")}
    )
    assert sweep_of(by_hand).points[0].slice_shape == (2, 2)


@pytest.mark.parametrize("mesh", ["1/data=3", "1/data=512"])
def test_a_size_without_a_slice_stays_open_and_is_infeasible(mesh):
    (point,) = grid(BASE, chips=("v5e",), meshes=(mesh,))
    assert point.slice_shape is None
    reason = why_infeasible(point)
    assert reason is not None
    assert "v5e slice has" in reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v5p:4xx8", "'4xx8' of chip 'v5p:4xx8' is not positive whole numbers"),
        ("v5p:0x4", "'0x4'"),
        ("v5p:-4", "'-4'"),
        ("v5p:", "''"),
        ("cpu:4", "cpu has no slices"),
        ("v5x", "unknown chip 'v5x'.*'v5p'"),
    ],
)
def test_chips_that_cannot_be_parsed(text, words):
    with pytest.raises(ValueError, match=words):
        parse_chip(text)


def test_a_sweep_refuses_a_point_that_is_listed_twice():
    with pytest.raises(ValidationError) as caught:
        sweep_of(BASE, BASE)
    assert f"point {BASE.id}" in sentence(caught.value)
    assert "listed twice" in sentence(caught.value)


@pytest.mark.parametrize(
    ("field", "name", "nearest"),
    [("model", "tini", "tiny"), ("chip", "v5q", "v5p")],
)
def test_a_sweep_refuses_names_that_are_not_known(field, name, nearest):
    with pytest.raises(ValidationError) as caught:
        sweep_of(BASE.model_copy(update={field: name}))
    assert f"unknown {field} '{name}'" in sentence(caught.value)
    assert nearest in sentence(caught.value)


@pytest.mark.parametrize("name", ["", "a/b", "../up", ".hidden"])
def test_the_name_of_a_sweep_is_a_folder_name(name):
    with pytest.raises(ValidationError):
        Sweep(name=name, question="?", points=(BASE,))


def test_a_sweep_needs_points():
    with pytest.raises(ValidationError):
        Sweep(name="a", question="?", points=())


def test_sentences_name_the_field_and_the_value():
    with pytest.raises(ValidationError) as caught:
        Point.model_validate(dict(BASE) | {"remat": "some"})
    assert sentence(caught.value) == (
        "remat 'some': input should be 'none', 'dots' or 'full'"
    )


def test_shipped_sweeps():
    assert sweep_names() == (
        "cpu_batch",
        "cpu_horizontal",
        "cpu_quick",
        "cpu_vertical",
        "maxtext_tpu",
        "v5e_horizontal",
        "v5e_vertical",
        "v5p_verdict",
        "v5p_vertical",
    )


@pytest.mark.parametrize("name", sweep_names())
def test_a_shipped_sweep_says_what_it_asks_and_can_mostly_run(name):
    sweep = load_sweep(name)
    assert sweep.name == name
    text = sweep_docstring(name)
    for heading in ("Question:", "Takes:", "Expect:"):
        assert heading in text
    assert re.search(rf"^Command: scaling (run|compile) {name}\b", text, re.MULTILINE)
    reasons = [why_infeasible(point) for point in sweep.points]
    assert reasons.count(None) >= 0.8 * len(reasons)


def test_the_demo_judges_both_directions_in_both_regimes():
    points = load_sweep("cpu_quick").points
    for regime in ("strong", "weak"):
        meshes = {str(point.mesh) for point in points if point.regime == regime}
        assert {"1/1", "1/data=2", "data=2/1"} <= meshes
    one = [p.global_batch_size for p in points if str(p.mesh) == "1/1"]
    assert len(set(one)) >= 3


def test_a_sweep_file_is_a_path(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(DEFINES_SWEEP)
    sweep = load_sweep(str(path))
    assert [str(point.mesh) for point in sweep.points] == ["1/1", "1/data=2"]
    assert "must not" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x = 1", "does not define `sweep`"),
        ("sweep = [1]", "defines `sweep` as a list"),
        ("sweep = (", "SyntaxError"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        (
            DEFINES_SWEEP.replace('model="tiny"', 'model="tini"'),
            "unknown model 'tini'",
        ),
        (
            DEFINES_SWEEP.replace("global_batch_size=4", "global_batch_size=-4"),
            "global_batch_size -4",
        ),
    ],
)
def test_a_file_without_a_sweep_says_why_on_one_line(tmp_path, content, words):
    path = tmp_path / "mine.py"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"mine\.py") as caught:
        load_sweep(str(path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_sweeps_and_files():
    with pytest.raises(ValueError, match="did you mean 'cpu_quick'"):
        load_sweep("cpu_quik")
    with pytest.raises(ValueError, match=r"no sweep file '/nowhere/x\.py'"):
        load_sweep("/nowhere/x.py")


def test_a_sweep_is_not_named_as_a_folder_that_holds_no_runs():
    for name in OTHER_FOLDERS:
        with pytest.raises(ValueError, match=rf"cannot be named '{name}'.*choose"):
            Sweep(name=name, question="?", points=(BASE,))
