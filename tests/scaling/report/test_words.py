import pytest

from scaling.load import Load
from scaling.report.words import load_text

USUAL = Load(
    model="tiny",
    chip="cpu",
    mesh="1/1",
    num_devices=1,
    best_batch_size=32,
    saturation_batch_size=16,
    limit_batch_size=None,
    largest_batch_size=32,
    bounded=True,
    fraction=0.95,
)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "busy from batch 16 on; no batch ran out of memory"),
        (
            {"limit_batch_size": 64},
            "busy from batch 16 on; out of memory at batch 64",
        ),
        (
            {"saturation_batch_size": None},
            "not surely saturated up to batch 32; no batch ran out of memory",
        ),
        (
            {"saturation_batch_size": 32},
            "not surely saturated below batch 32, the largest measured; "
            "no batch ran out of memory",
        ),
        (
            {"largest_batch_size": None, "limit_batch_size": 8},
            "no batch has a result; out of memory at batch 8",
        ),
    ],
)
def test_a_load_in_words(fields, words):
    assert load_text(USUAL.model_copy(update=fields)) == words


def test_a_load_without_intervals_says_what_it_takes():
    single = {"bounded": False, "saturation_batch_size": None}
    text = load_text(USUAL.model_copy(update=single))
    assert "busy or not is not known" in text
    assert "--repeats 5" in text
