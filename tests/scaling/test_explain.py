import itertools

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from meshes.hardware import chip
from meshes.spec import MeshSpec
from scaling.candidates import candidates
from scaling.candidates import splits
from scaling.cost import Collective
from scaling.explain import explain
from scaling.explain import neighbours
from scaling.feasibility import why_infeasible
from scaling.point import Point
from scaling.predict import predict


def point(**changes):
    fields = {
        "model": "llama3-8b",
        "chip": "v5p",
        "mesh": "1/fsdp=16,tensor=4",
        "slice_shape": (4, 4, 4),
        "global_batch_size": 128,
        "seq_len": 4096,
        "remat": "full",
    }
    return Point.model_validate(fields | changes)


def some_points():
    for name, model, devices in (
        ("v5e", "tiny", 8),
        ("v5p", "llama3-8b", 16),
        ("v7x", "gemma-7b", 8),
        ("h100-sxm", "llama2-7b", 16),
    ):
        base = point(chip=name, model=model, slice_shape=None, seq_len=1024)
        found = candidates(base, splits(chip(name), devices), fixed={"layers"})
        yield [each for each in found if why_infeasible(each) is None]


FEASIBLE = tuple(itertools.chain.from_iterable(some_points()))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FEASIBLE), st.sampled_from(["float32", "bfloat16"]))
def test_parts_sum_to_what_the_prediction_says(one, dtype):
    this = one.model_copy(update={"param_dtype": dtype})
    found = explain(this, chip(this.chip))
    predicted = predict(this, chip(this.chip))
    assert found.predicted == predicted
    total = sum(part.bytes for part in found.memory)
    assert total == pytest.approx(predicted.peak_hbm_bytes, rel=1e-9, abs=1)
    assert all(part.bytes >= 0 for part in found.memory)
    assert found.times is not None
    assert predicted.times_s is not None
    for cause, seconds in predicted.times_s.items():
        parts = [part.seconds for part in found.times if part.cause == cause]
        assert sum(parts) == pytest.approx(seconds, rel=1e-9)
    assert sum(part.share_fraction for part in found.times) == pytest.approx(1)
    assert found.fits == predicted.fits


def test_parameters_are_listed_by_array_and_add_up():
    # Llama 3 8B: D 4096, F 14336, V 128256, 32 layers, all in float32; tensor=4
    # shards mlp and vocabulary, fsdp=16 the rest.
    found = {part.name: part for part in explain(point(), chip("v5p")).memory}
    up = found["blocks.mlp.up.kernel"]
    assert (up.kind, up.bytes) == ("parameters", 4 * 32 * 4096 * 14336 / 64)
    assert found["token_embedding"].bytes == 4 * 128256 * 4096 / 64
    parameters = sum(p.bytes for p in found.values() if p.kind == "parameters")
    assert found["moments of AdamW"].bytes == 2 * parameters + 8
    # In bfloat16 as computed, and cast.
    assert found["gradients"].bytes == parameters * 6 / 4
    # Full recomputation keeps the inputs of 32 layers and nothing within them.
    assert found["residual stream"].bytes == 2 * 32 * 8 * 4096 * 4096
    assert not {"attention weights", "mlp", "logits"} & set(found)


def test_collectives_say_axis_network_and_bytes():
    times = explain(point(mesh="data=2/fsdp=16,tensor=4"), chip("v5p")).times
    assert times is not None
    found = {
        (part.collective.kind, part.collective.axes, part.cause)
        for part in times
        if isinstance(part.collective, Collective)
    }
    assert ("all_gather", ("fsdp",), "ici") in found
    assert ("all_reduce", ("data",), "dcn") in found
    assert {part.cause for part in times} == {"compute", "hbm", "ici", "dcn"}
    assert [p.seconds for p in times] == sorted(
        (p.seconds for p in times), reverse=True
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # tensor takes one ring of the cube, fsdp two: 2 and 4 links of 90e9.
        (
            {},
            {
                "fsdp": ((0, 1), (4, 4), (True, True), 4, 360e9),
                "tensor": ((2,), (4,), (True,), 2, 180e9),
            },
        ),
        # 4x4 of v5e are lines: one link a dim, 45e9.
        (
            {"chip": "v5e", "slice_shape": (4, 4), "mesh": "1/fsdp=16"},
            {"fsdp": ((0, 1), (4, 4), (False, False), 2, 90e9)},
        ),
        # 8 and 2 are no products of dims of 4x4: half of the first dim each, in which
        # the pairs of fsdp interleave.
        (
            {"chip": "v5e", "slice_shape": (4, 4), "mesh": "1/fsdp=8,tensor=2"},
            {
                "fsdp": ((0, 1), (2, 4), (False, False), 1.5, 67.5e9),
                "tensor": ((0,), (2,), (False,), 1, 45e9),
            },
        ),
    ],
)
def test_axes_lie_on_dims_of_the_torus(changes, expected):
    found = {
        lies.axis: (lies.dims, lies.lengths, lies.closed, lies.links, lies.bytes_per_s)
        for lies in explain(point(**changes), chip(changes.get("chip", "v5p"))).axes
    }
    # tensor is innermost and so chooses first: the first dim that fits.
    if not changes:
        expected = {
            "tensor": ((0,), *expected["tensor"][1:]),
            "fsdp": ((1, 2), *expected["fsdp"][1:]),
        }
    assert found == expected


def test_other_networks_have_no_torus():
    gpu = point(chip="h100-sxm", mesh="data=2/fsdp=8", slice_shape=None)
    within, across = explain(gpu, chip("h100-sxm")).axes
    h100 = chip("h100-sxm")
    assert h100.ici_link_bytes_per_s is not None
    assert h100.ici_links is not None
    assert (within.axis, within.dims, within.closed) == ("fsdp", None, None)
    assert within.links == h100.ici_links
    assert within.bytes_per_s == h100.ici_link_bytes_per_s * h100.ici_links
    assert (across.axis, across.network, across.links) == ("data", "dcn", None)
    assert across.bytes_per_s == h100.dcn_bytes_per_s


def test_one_step_moves_a_prime_factor_on_its_network():
    found = {str(mesh) for mesh in neighbours(MeshSpec.parse("data=2/fsdp=12"))}
    assert found == {
        "fsdp=2/fsdp=12",
        "tensor=2/fsdp=12",
        "data=2/data=2,fsdp=6",
        "data=2/fsdp=6,tensor=2",
        "data=2/data=3,fsdp=4",
        "data=2/fsdp=4,tensor=3",
    }
    assert list(neighbours(MeshSpec())) == []


@pytest.mark.parametrize(
    "mesh", ["1/fsdp=16,tensor=4", "1/tensor=8,data=8", "1/fsdp=64", "1/data=64"]
)
def test_the_nearest_better_mesh_is_what_brute_force_finds(mesh):
    this = point(mesh=mesh, global_batch_size=64)
    v5p = chip("v5p")
    found = explain(this, v5p)
    only = [s for s in splits(v5p, 64) if s.num_slices == 1]
    policy = {"remat", "layers", "accumulation", "residual", "attention"}
    times = {
        each.mesh: predict(each, v5p).step_time_s
        for each in candidates(this, only, fixed=policy)
        if why_infeasible(each) is None and predict(each, v5p).fits
    }
    own = times.get(this.mesh)
    better = {m: s for m, s in times.items() if own is None or own / s >= 1.01}
    # C(8, 2) factorisations of 2⁶ over three axes.
    assert found.num_meshes == 28
    if not better:
        assert found.better is None
        return
    assert found.better is not None
    distance = {m: _steps(this.mesh, m) for m in better}
    nearest = min(distance.values())
    assert found.better.steps == nearest
    assert found.better.candidate.step_time_s == min(
        s for m, s in better.items() if distance[m] == nearest
    )
    if own is None:
        assert not found.fits
        assert found.better.gain is None
    else:
        gain = own / found.better.candidate.step_time_s - 1
        assert found.better.gain == pytest.approx(gain)


def _steps(one, other):
    """Factors of two that have to move: sizes here are powers of two."""
    exponents = [
        (one.size(a).bit_length(), other.size(a).bit_length())
        for a in ("data", "fsdp", "tensor")
    ]
    return sum(max(0, a - b) for a, b in exponents)


def test_a_chip_without_figures_explains_memory_alone():
    cpu = point(model="tiny", chip="cpu", mesh="1/data=2", slice_shape=None)
    found = explain(cpu, chip("cpu"))
    assert found.times is None
    assert found.better is None
    assert sum(part.bytes for part in found.memory) == pytest.approx(
        found.predicted.peak_hbm_bytes, abs=1
    )
