import gzip
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "hlo"


@pytest.fixture(scope="session")
def golden():
    """Returns the text of a file in tests/golden/hlo."""

    def read(name):
        path = GOLDEN / name
        return (
            gzip.decompress(path.read_bytes()).decode()
            if path.suffix == ".gz"
            else path.read_text()
        )

    return read


@pytest.fixture
def program():
    """Returns a text with these lines as its entry, behind other computations."""

    def text(entry, others="", devices=16):
        return (
            f"HloModule jit_step, is_scheduled=true, num_partitions={devices}\n"
            f"\n{others}\nENTRY %main (p: f32[8]) -> f32[8] {{\n{entry}\n}}\n"
        )

    return text
