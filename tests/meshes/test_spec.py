"""MeshSpec: its text form, its enumeration, and what its errors say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic import ValidationError

from meshes.spec import AXES
from meshes.spec import MAX_SIZE
from meshes.spec import MeshSpec
from meshes.spec import enumerate_meshes

pytestmark = pytest.mark.fast

SIZES = st.dictionaries(st.sampled_from(AXES), st.integers(1, MAX_SIZE))
MESHES = st.builds(MeshSpec, dcn=SIZES, ici=SIZES)


class Holder(BaseModel):
    mesh: MeshSpec


@given(MESHES)
def test_every_printed_mesh_parses_to_itself(mesh: MeshSpec) -> None:
    assert MeshSpec.parse(str(mesh)) == mesh
    assert str(MeshSpec.parse(str(mesh))) == str(mesh)


@given(MESHES)
def test_a_stored_mesh_is_its_text_and_comes_back(mesh: MeshSpec) -> None:
    text = Holder(mesh=mesh).model_dump_json()
    assert text == f'{{"mesh":"{mesh}"}}'
    assert Holder.model_validate_json(text).mesh == mesh


@given(SIZES, st.randoms(use_true_random=False))
def test_the_order_of_axes_in_the_text_has_no_meaning(sizes, random) -> None:
    items = [f"{axis}={size}" for axis, size in sizes.items()]
    random.shuffle(items)
    text = ",".join(items) or "1"
    assert MeshSpec.parse(f"1/{text}") == MeshSpec(ici=sizes)


@given(MESHES)
def test_counts_are_products_of_the_sizes(mesh: MeshSpec) -> None:
    assert mesh.num_devices == mesh.num_slices * mesh.devices_per_slice
    assert mesh.num_devices == math.prod(mesh.size(axis) for axis in AXES)
    assert mesh.num_slices == math.prod(mesh.size(axis, "dcn") for axis in AXES)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1/1", "1/1"),
        ("data=2/fsdp=4,tensor=2", "data=2/fsdp=4,tensor=2"),
        ("data=2/tensor=2,fsdp=4", "data=2/fsdp=4,tensor=2"),
        (" data = 2 / fsdp=4 , tensor=2\n", "data=2/fsdp=4,tensor=2"),
        ("data=1/fsdp=1", "1/1"),
        ("data=2/data=4", "data=2/data=4"),
        ("1/fsdp=004", "1/fsdp=4"),
        ("1/fsdp=" + "0" * 50 + "4", "1/fsdp=4"),
    ],
)
def test_text_is_read_in_its_canonical_form(text: str, printed: str) -> None:
    assert str(MeshSpec.parse(text)) == printed


def test_example_of_the_design() -> None:
    mesh = MeshSpec.parse("data=2/fsdp=4,tensor=2")
    assert (mesh.num_slices, mesh.devices_per_slice, mesh.num_devices) == (2, 8, 16)
    assert mesh.size("data") == 2
    assert mesh.size("data", "ici") == 1
    assert MeshSpec.parse("data=2/data=4").size("data") == 8


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fsdp=4", ["'fsdp=4'", "0 slashes", "'1/1'"]),
        ("", ["0 slashes"]),
        ("1/1/1", ["2 slashes"]),
        ("/", ["''", "AXIS=SIZE", "'1' for no axis"]),
        ("1/fsdp=4,", ["''", "AXIS=SIZE"]),
        ("1/tp=4", ["'tp'", "data, fsdp, stage, expert, context, tensor"]),
        ("1/fdsp=4", ["'fdsp'", "did you mean 'fsdp'"]),
        ("1/fsdp=2,fsdp=4", ["'fsdp'", "twice", "each side of the slash"]),
        ("1/fsdp", ["'fsdp'", "AXIS=SIZE"]),
        ("1/fsdp=", ["'fsdp='", "whole number"]),
        ("1/fsdp=0", ["'fsdp'", "size 0", "from 1 to"]),
        ("1/fsdp=-4", ["'fsdp=-4'", "positive whole number"]),
        ("1/fsdp=+4", ["'fsdp=+4'", "positive whole number"]),
        ("1/fsdp=4.0", ["'fsdp=4.0'"]),
        ("1/fsdp=1e3", ["'fsdp=1e3'"]),
        ("1/fsdp=4_0", ["'fsdp=4_0'"]),
        ("1/fsdp=²", ["'fsdp=²'"]),
        ("1/fsdp=٤", ["'fsdp=٤'"]),
        ("1/fsdp=4=4", ["'fsdp=4=4'"]),
        ("1/1,fsdp=4", ["'1'", "AXIS=SIZE"]),
        (f"1/fsdp={MAX_SIZE + 1}", ["'fsdp'", f"from 1 to {MAX_SIZE}"]),
        ("1/fsdp=" + "9" * 5000, ["'fsdp'", f"above {MAX_SIZE}"]),
    ],
)
def test_errors_name_the_value_the_choices_and_the_cure(text, says) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 (text checked below)
        MeshSpec.parse(text)
    message = str(error.value)
    assert "\n" not in message
    assert not isinstance(error.value, ValidationError)
    for part in says:
        assert part in message


@given(st.text(alphabet="datfsp=/,1 0²-x", max_size=20))
def test_any_text_is_a_mesh_or_a_value_error(text: str) -> None:
    try:
        mesh = MeshSpec.parse(text)
    except ValueError:
        return
    assert MeshSpec.parse(str(mesh)) == mesh


@pytest.mark.parametrize(
    "stored",
    [5, None, {"dcn": 5}, {"ici": "fsdp=4"}, {"ici": [["fsdp"]]}, {"ici": [[1, 2]]}]
    + [{"ici": {"fsdp": size}} for size in (0, -1, True, 2.0, "4", None)]
    + [{"ici": {}, "tpu": {}}],
)
def test_stored_nonsense_is_a_validation_error(stored) -> None:
    with pytest.raises(ValidationError):
        MeshSpec.model_validate(stored)


def test_a_misspelt_axis_is_not_read_as_size_one() -> None:
    with pytest.raises(ValueError, match="unknown mesh axis 'tp'"):
        MeshSpec.parse("1/tensor=2").size("tp")  # pyright: ignore[reportArgumentType]


def test_meshes_are_values() -> None:
    mesh = MeshSpec.parse("1/fsdp=4")
    assert len({mesh, MeshSpec.parse("1/fsdp=4"), MeshSpec.parse("fsdp=4/1")}) == 2
    with pytest.raises(ValidationError, match="frozen"):
        mesh.ici = ()


@given(
    st.integers(1, 64),
    st.integers(1, 8),
    st.sets(st.sampled_from(AXES), min_size=1, max_size=4),
)
def test_enumeration_is_distinct_complete_and_of_the_right_size(n, k, axes) -> None:
    meshes = list(enumerate_meshes(devices_per_slice=n, num_slices=k, axes=axes))
    assert len(set(meshes)) == len(meshes)
    for mesh in meshes:
        assert (mesh.devices_per_slice, mesh.num_slices) == (n, k)
        assert {axis for axis, _ in (*mesh.dcn, *mesh.ici)} <= axes
    assert len(meshes) == _compositions(n, len(axes)) * _compositions(k, len(axes))


def _compositions(number: int, parts: int) -> int:
    """Counts ordered factorisations: stars and bars over each prime's exponent."""
    total, prime = 1, 2
    while number > 1:
        exponent = 0
        while number % prime == 0:
            number, exponent = number // prime, exponent + 1
        total *= math.comb(exponent + parts - 1, parts - 1)
        prime += 1
    return total


def test_enumeration_of_eight_devices_over_three_axes() -> None:
    meshes = enumerate_meshes(devices_per_slice=8, axes=("data", "fsdp", "tensor"))
    texts = {str(mesh) for mesh in meshes}
    assert len(texts) == 10  # exponent 3 of prime 2 in 3 places: C(5, 2)
    assert {"1/data=8", "1/fsdp=8", "1/tensor=8", "1/data=2,fsdp=2,tensor=2"} <= texts


def test_enumeration_refuses_what_it_cannot_mean() -> None:
    with pytest.raises(ValueError, match="unknown mesh axis 'tp'"):
        list(enumerate_meshes(devices_per_slice=8, axes=("data", "tp")))  # pyright: ignore[reportArgumentType]
    for counts in ({"devices_per_slice": 0}, {"devices_per_slice": 8, "num_slices": 0}):
        with pytest.raises(ValueError, match="whole number from 1"):
            list(enumerate_meshes(**counts))
