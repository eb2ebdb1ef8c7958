import pytest
from pydantic import ValidationError

from scaling.point import Point

pytestmark = pytest.mark.fast


def point(**fields):
    given = {
        "model": "tiny",
        "chip": "cpu",
        "mesh": "1/1",
        "global_batch_size": 8,
        "seq_len": 128,
    }
    return Point.model_validate({**given, **fields})


@pytest.mark.parametrize(
    ("fields", "id_"),
    [
        ({}, "806d1689bcc92ae8"),
        ({"mesh": "data=2/fsdp=4,tensor=2", "regime": "weak"}, "4c6aa73cc05d5751"),
        (
            {"chip": "v5p", "slice_shape": (4, 4, 8), "remat": "full"},
            "8c05450016d63972",
        ),
    ],
)
def test_ids_of_stored_results_never_change(fields, id_):
    assert point(**fields).id == id_


def test_a_default_written_out_gives_the_same_id():
    assert point(accumulation=1, layers="scanned", seed=0).id == point().id


def test_axis_order_in_the_mesh_text_has_no_meaning():
    assert point(mesh="1/tensor=2,data=2").id == point(mesh="1/data=2,tensor=2").id


def test_every_field_that_differs_changes_the_id():
    changes = {
        "model": "small",
        "chip": "v5e",
        "mesh": "1/data=2",
        "global_batch_size": 16,
        "seq_len": 64,
        "regime": "weak",
        "slice_shape": (2, 2),
        "accumulation": 2,
        "remat": "full",
        "attention": "splash",
        "layers": "unrolled",
        "residual": "seq",
        "param_dtype": "bfloat16",
        "compute_dtype": "float32",
        "data": "synthetic",
        "seed": 1,
        "checkpoint_every": 10,
    }
    assert set(changes) == set(Point.model_fields)
    ids = {point(**{name: value}).id for name, value in changes.items()}
    assert len(ids | {point().id}) == len(changes) + 1


def test_round_trip_through_json():
    whole = point(mesh="data=2/fsdp=2", slice_shape=(2, 2), chip="v5e")
    assert Point.model_validate_json(whole.model_dump_json()) == whole


@pytest.mark.parametrize(
    "fields", [{"global_batch_size": 0}, {"sed": 1}, {"remat": "some"}, {"seed": -1}]
)
def test_what_is_not_a_point_is_refused(fields):
    with pytest.raises(ValidationError):
        point(**fields)
