"""What people write as sizes."""

import pytest

from experiments.given import size_bytes

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1073741824", 2**30),
        ("8GiB", 8 * 2**30),
        ("1.5 GiB", 3 * 2**29),
        ("500MB", 500_000_000),
        (" 2TiB ", 2 * 2**40),
        ("64B", 64),
    ],
)
def test_sizes(text: str, number: int):
    assert size_bytes(text, "memory_bytes") == number


@pytest.mark.parametrize("text", ["", "8G", "8gib", "-1", "0", "0.1", "1e9", "GiB"])
def test_what_is_no_size_is_told_with_the_units(text: str):
    with pytest.raises(ValueError, match=r"--memory_bytes .* is not a size.*GiB"):
        size_bytes(text, "memory_bytes")
