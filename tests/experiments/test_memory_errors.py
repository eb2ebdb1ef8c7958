import pytest

from experiments.memory_errors import out_of_memory

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "phase", "needed", "available"),
    [
        (
            "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Program allocation required "
            "for HLO temporaries (32.00G) exceeds available HBM (15.75G).",
            "compile",
            32 * GIB,
            round(15.75 * GIB),
        ),
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in "
            "memory space hbm. Used 63.80G of 30.75G hbm. Exceeded hbm capacity by "
            "33.05G.",
            "run",
            round(63.8 * GIB),
            round(30.75 * GIB),
        ),
        (
            "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to "
            "allocate 129.50M. That was not possible. There are 78.17M free.; "
            "(0x0x0_HBM0)",
            "run",
            round(129.5 * 2**20),
            round(78.17 * 2**20),
        ),
        (
            "RESOURCE_EXHAUSTED: Attempting to reserve 10.51G at the bottom of memory. "
            "That was not possible. There are 8.97G free, 0B reserved, and 8.97G "
            "reservable.",
            "run",
            round(10.51 * GIB),
            round(8.97 * GIB),
        ),
        (
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 34359738368 "
            "bytes.\nBufferAssignment OOM Debugging.",
            "run",
            34359738368,
            None,
        ),
        (
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 32.00GiB.",
            "run",
            32 * GIB,
            None,
        ),
        (
            "RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483648B) "
            "on device ordinal 0",
            "run",
            2 * GIB,
            None,
        ),
        (
            "RESOURCE_EXHAUSTED: Out of memory allocating 17592186044416 bytes.",
            "run",
            17592186044416,
            None,
        ),
        ("INTERNAL: CUDA_ERROR_OUT_OF_MEMORY: out of memory", "run", None, None),
    ],
)
def test_reported_wordings(text, phase, needed, available):
    found = out_of_memory(RuntimeError(text), "run")
    assert found is not None
    assert (found.phase, found.needed_bytes) == (phase, needed)
    assert found.available_bytes == available


def test_phase_is_what_the_program_was_doing():
    error = RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")
    found = out_of_memory(error, "compile")
    assert found is not None
    assert found.phase == "compile"


def test_memory_error_is_the_hosts():
    found = out_of_memory(
        MemoryError("Unable to allocate 7.45 GiB for an array"), "run"
    )
    assert found is not None
    assert (found.phase, found.needed_bytes) == ("host", round(7.45 * GIB))


@pytest.mark.parametrize(
    "text",
    [
        "RESOURCE_EXHAUSTED: Received message larger than max (5 vs. 4)",
        "INVALID_ARGUMENT: Attempt to donate the same buffer twice",
        "",
    ],
)
def test_other_errors_are_not(text):
    assert out_of_memory(RuntimeError(text), "run") is None
