import pytest

from scaling.analytic import cost
from scaling.held import held
from scaling.held import peak_bytes
from scaling.point import Point

pytestmark = pytest.mark.fast

GIB = 2**30


def point(**changes):
    fields = {
        "model": "maxtext-64b",
        "chip": "v5e",
        "slice_shape": (16, 16),
        "mesh": "1/fsdp=256",
        "global_batch_size": 512,
        "seq_len": 2048,
        "remat": "full",
        "attention": "splash",
    }
    return Point.model_validate(fields | changes)


def by_name(this):
    return {part.name: part.bytes for part in held(this)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"remat": "none"},
        {"remat": "dots", "attention": "xla", "accumulation": 2},
        {"model": "llama3-8b", "layers": "unrolled", "remat": "none"},
        {"mesh": "1/fsdp=64,tensor=4", "residual": "seq"},
        {"mesh": "1/data=256", "param_dtype": "bfloat16"},
    ],
)
def test_the_parts_sum_to_the_peak(changes):
    this = point(**changes)
    total = sum(part.bytes for part in held(this))
    assert total == pytest.approx(peak_bytes(this), rel=1e-12)
    assert cost(this).peak_hbm_bytes == peak_bytes(this)
    assert cost(this).least_hbm_bytes <= peak_bytes(this)


def test_a_layer_going_backward_by_hand():
    # 2 sequences of 2,048 tokens a device; D 10,240, F 32,768, 32 heads of 256, L 64.
    tokens, width, mlp, layers = 4096, 10_240, 32_768, 64
    kernels = 4 * width * 32 * 256 + 2 * width * mlp + 2 * width
    found = by_name(point())
    parameters = 32_768 * width + layers * kernels + width
    # As computed in bfloat16 and cast to float32, a 256th of each.
    assert found["gradients"] == 6 * parameters / 256
    assert found["kernels of a layer, and their gradients"] == 2 * 2 * kernels
    assert found["residual stream"] == 2 * tokens * width * layers
    assert found["copies of the stream"] == 2 * tokens * 4 * width
    assert found["arrays of the mlp"] == 2 * tokens * 2 * mlp
    assert not {"logits", "scores of attention"} & set(found)


def test_without_a_kernel_the_scores_are_there():
    scores = by_name(point(attention="xla"))["scores of attention"]
    assert scores == 1.5 * 4 * 2 * 32 * 2048**2


def test_logits_of_a_large_vocabulary_are_the_peak():
    this = point(model="llama3-8b", remat="none", layers="scanned", seq_len=1024)
    found = by_name(this)
    # In bfloat16; what comes back of them takes their place.
    assert found["logits"] == 2 * 2048 * 128_256
    assert "gradient of the logits" not in found
    # The head is whole on each device, and so is its gradient.
    assert found["copies of weights"] == pytest.approx(2 * 4096 * 128_256, rel=1e-4)
    assert found["gradient of the head"] == pytest.approx(2 * 4096 * 128_256, rel=1e-4)
    assert "gradients" not in found


def test_on_a_cpu_the_loss_is_written_down_in_float32():
    small = {"model": "small", "slice_shape": None, "attention": "xla", "seq_len": 512}
    found = by_name(point(chip="cpu", mesh="1/1", global_batch_size=64, **small))
    tokens, vocab = 64 * 512, 32_768
    assert found["logits"] == 4 * tokens * vocab
    assert found["gradient of the logits"] == 2 * tokens * vocab


@pytest.mark.parametrize(
    ("changes", "compiled_gib"),
    [
        # Peaks that libtpu 0.0.50 states of the compiled programs.
        ({}, 13.08),
        ({"model": "maxtext-16b", "global_batch_size": 1536}, 8.98),
        (
            {
                "model": "maxtext-128b",
                "mesh": "1/fsdp=16,tensor=16",
                "global_batch_size": 256,
                "residual": "seq",
            },
            14.45,
        ),
        (
            {
                "model": "maxtext-32b",
                "chip": "v5p",
                "slice_shape": (4, 4, 4),
                "mesh": "1/fsdp=16,tensor=4",
                "remat": "dots",
                "residual": "seq",
            },
            89.98,
        ),
        (
            {
                "model": "maxtext-22b",
                "chip": "v4",
                "slice_shape": (4, 4, 4),
                "mesh": "1/fsdp=64",
                "global_batch_size": 1024,
                "seq_len": 1024,
                "attention": "xla",
            },
            20.34,
        ),
        (
            {
                "model": "gpt3-175b",
                "chip": "v6e",
                "global_batch_size": 768,
            },
            30.14,
        ),
        (
            {
                "model": "llama3-70b",
                "chip": "v7x",
                "slice_shape": (4, 4, 4),
                "mesh": "1/fsdp=128",
                "global_batch_size": 128,
                "seq_len": 4096,
                "attention": "xla",
            },
            24.58,
        ),
    ],
)
def test_the_compilers_peak_is_met_within_15_percent(changes, compiled_gib):
    assert peak_bytes(point(**changes)) / GIB == pytest.approx(compiled_gib, rel=0.15)
