import math
import random

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from scaling.curve import Curve
from scaling.curve import curves
from scaling.point import Point


def only(found: tuple[Curve, ...], **fields) -> Curve:
    """Returns the one curve with these fields."""
    matching = [
        curve
        for curve in found
        if all(getattr(curve, name) == value for name, value in fields.items())
    ]
    assert len(matching) == 1, [(c.kind, c.direction, c.growth) for c in matching]
    return matching[0]


def test_a_curve_by_hand(lab, point):
    one, two, four = (point(mesh=f"1/data={n}") for n in (1, 2, 4))
    runs = [
        *(lab.run(one, 1.0 * math.exp(e)) for e in (-0.01, 0.01)),
        *(lab.run(two, 0.625 * math.exp(e)) for e in (-0.02, 0.02)),
        *(lab.run(four, 0.5 * math.exp(e)) for e in (0.0, 0.0, 0.0)),
    ]
    (curve,) = curves(runs)
    assert (curve.kind, curve.direction, curve.growth) == (
        "scaling",
        "vertical",
        "ici:data",
    )
    assert (curve.regime, curve.model, curve.chip) == ("strong", "tiny", "v5e")
    assert curve.baseline_id == one.id
    assert [p.num_devices for p in curve.points] == [1, 2, 4]
    assert [p.num_runs for p in curve.points] == [2, 2, 3]
    # 64 sequences of 128 tokens.
    assert [p.tokens_per_s for p in curve.points] == pytest.approx(
        [8192, 8192 / 0.625, 8192 / 0.5]
    )
    assert [p.efficiency for p in curve.points] == pytest.approx([1, 0.8, 0.5])
    marginal = [p.marginal_efficiency for p in curve.points]
    assert marginal == [None, pytest.approx(0.8), pytest.approx(0.625)]
    # Squares 2e-4 + 8e-4 over 1 + 1 + 2 degrees of freedom.
    assert curve.degrees_of_freedom == 4
    assert curve.run_noise_fraction == pytest.approx(math.sqrt(1e-3 / 4))
    # t(0.95) of 4 degrees of freedom is 2.132.
    half = 2.132 * math.sqrt(1e-3 / 4 / 3)
    assert curve.points[2].step_time_low_s == pytest.approx(
        0.5 * math.exp(-half), rel=1e-4
    )
    assert curve.points[2].step_time_high_s == pytest.approx(
        0.5 * math.exp(half), rel=1e-4
    )
    # Two comparisons at once: between t of one (2.132) and Bonferroni's (2.776).
    width = math.log(curve.points[1].efficiency_high / 0.8)
    scale = math.sqrt(1e-3 / 4 * (1 / 2 + 1 / 2))
    assert 2.132 < width / scale < 2.776
    assert curve.points[1].efficiency_low == pytest.approx(0.8 * math.exp(-width))
    assert curve.warnings == ()


def test_weak_scaling_holds_the_batch_per_device(lab, point):
    runs = [
        lab.run(point(mesh=f"1/data={n}", regime="weak", global_batch_size=8 * n), time)
        for n, time in ((1, 1.0), (2, 1.0), (4, 1.25))
    ]
    stray = point(mesh="1/data=8", regime="weak", global_batch_size=8)
    (curve,) = curves([*runs, lab.run(stray)])
    assert curve.regime == "weak"
    assert [p.efficiency for p in curve.points] == pytest.approx([1, 1, 0.8])
    assert [p.tokens_per_s for p in curve.points] == pytest.approx(
        [1024, 2048, 4096 / 1.25]
    )


def test_vertical_and_horizontal_growth(lab, point):
    meshes = ("1/1", "1/data=2", "data=2/1", "data=2/data=2")
    found = curves([lab.run(point(mesh=mesh)) for mesh in meshes])
    seen = {
        (curve.direction, curve.growth, *(p.mesh for p in curve.points))
        for curve in found
    }
    assert seen == {
        ("vertical", "ici:data", "1/1", "1/data=2"),
        ("vertical", "ici:data", "data=2/1", "data=2/data=2"),
        ("horizontal", "dcn:data", "1/1", "data=2/1"),
        ("horizontal", "dcn:data", "1/data=2", "data=2/data=2"),
    }


def test_only_one_axis_grows_but_on_the_curve_of_the_best_meshes(lab, point):
    times = {"1/1": 1.0, "1/data=2": 0.7, "1/fsdp=2": 0.6, "1/data=2,fsdp=2": 0.4}
    runs = [lab.run(point(mesh=m), t) for m, t in times.items() for _ in range(4)]
    found = curves(runs)
    best = only(found, growth="best")
    assert [p.mesh for p in best.points] == ["1/1", "1/fsdp=2", "1/data=2,fsdp=2"]
    assert [p.num_runs for p in best.points] == [4, 2, 4]
    assert {
        (c.growth, *(p.mesh for p in c.points)) for c in found if c.growth != "best"
    } == {
        ("ici:data", "1/1", "1/data=2"),
        ("ici:data", "1/fsdp=2", "1/data=2,fsdp=2"),
        ("ici:fsdp", "1/1", "1/fsdp=2"),
        ("ici:fsdp", "1/data=2", "1/data=2,fsdp=2"),
    }


def test_best_meshes_do_not_repeat_a_curve_of_one_axis(lab, point):
    found = curves([lab.run(point(mesh=f"1/data={n}")) for n in (1, 2, 4)])
    assert [curve.growth for curve in found] == ["ici:data"]


def test_horizontally_each_slice_stays_as_it_is(lab, point):
    meshes = ("1/data=4", "data=2/data=4", "data=2/data=2", "data=4/data=1")
    found = curves([lab.run(point(mesh=mesh)) for mesh in meshes])
    horizontal = only(found, direction="horizontal")
    assert [p.mesh for p in horizontal.points] == ["1/data=4", "data=2/data=4"]
    square, long = (2, 2), (1, 4)
    found = curves(
        [
            lab.run(point(mesh="1/data=4", slice_shape=square)),
            lab.run(point(mesh="data=2/data=4", slice_shape=long)),
        ]
    )
    assert found == ()


def test_vertically_the_slice_grows(lab, point):
    runs = [
        lab.run(point(mesh="1/data=4", slice_shape=(2, 2))),
        lab.run(point(mesh="1/data=8", slice_shape=(2, 4))),
    ]
    assert len(curves(runs)) == 1
    # Two slices of one size are rivals for one place on the curve.
    long = point(mesh="1/data=8", slice_shape=(1, 8))
    (curve,) = curves([*runs, lab.run(long, 0.05)])
    assert [p.num_devices for p in curve.points] == [4, 8]
    assert curve.points[1].id == long.id


OTHER_SETTINGS = {
    "model": "small",
    "chip": "v5p",
    "seq_len": 64,
    "global_batch_size": 32,
    "regime": "weak",
    "accumulation": 2,
    "remat": "full",
    "layers": "unrolled",
    "attention": "splash",
    "residual": "seq",
    "param_dtype": "bfloat16",
    "compute_dtype": "float32",
    "data": "synthetic",
    "seed": 1,
    "checkpoint_every": 10,
}


def test_every_setting_is_looked_at():
    assert set(Point.model_fields) == {*OTHER_SETTINGS, "mesh", "slice_shape"}


@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_settings_are_never_mixed_on_a_curve(lab, point, name):
    runs = [
        lab.run(point(mesh="1/1")),
        lab.run(point(mesh="1/data=2", **{name: OTHER_SETTINGS[name]})),
    ]
    assert curves(runs) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"versions": {"jax": "0.12.0", "jaxlib": "0.12.0"}},
        {"device_kind": "TPU v5"},
        {"host_cpu_model": "another CPU"},
        {"flags": {"XLA_FLAGS": "--xla_something"}},
        {"code_hash": "1" * 64},
    ],
)
def test_environments_are_never_mixed_on_a_curve(lab, point, changes):
    other = lab.environment.model_copy(update=changes)
    one, two = point(mesh="1/1"), point(mesh="1/data=2")
    assert curves([lab.run(one), lab.run(two, environment=other)]) == ()
    old = [lab.run(one), lab.run(two)]
    new = [lab.run(one, environment=other), lab.run(two, environment=other)]
    first, second = curves([*new, *old])
    assert first.series != second.series
    # The newest environment comes first, whatever the order of the files.
    assert [first, second] == list(curves([*old, *new]))
    assert first.points[0].num_runs == 1
    assert first == curves(new)[0]


def test_provenances_are_never_mixed_on_a_curve(lab, point):
    runs = [
        lab.run(point(mesh="1/1")),
        lab.run(point(mesh="1/data=2")),
        *(lab.run(point(mesh=f"1/data={n}"), provenance="simulated") for n in (4, 8)),
    ]
    found = curves(runs)
    assert [
        (curve.provenance, [p.num_devices for p in curve.points]) for curve in found
    ] == [("measured", [1, 2]), ("simulated", [4, 8])]


def test_simulated_devices_have_throughput_and_no_efficiency(lab, point):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.9})
    runs += lab.scaled({"1/data=4": 0.5, "1/data=8": 0.2}, provenance="simulated")
    curve = only(curves(runs), provenance="simulated")
    assert curve.baseline_id is None
    for each in curve.points:
        assert each.tokens_per_s is not None
        assert each.step_time_low_s is not None
        assert each.efficiency is None
        assert each.efficiency_low is None
        assert each.efficiency_high is None
        assert each.marginal_efficiency is None


def test_a_lone_simulated_point_is_shown_beside_what_it_continues(lab, point):
    measured = lab.run(point(mesh="1/1"))
    simulated = lab.run(point(mesh="1/data=4"), provenance="simulated")
    assert only(curves([measured, simulated])).provenance == "simulated"
    assert curves([simulated]) == ()


def test_failed_points_stay_on_the_curve_without_figures(lab, point):
    runs = lab.scaled({"1/data=2": 1, "1/data=4": 0.9})
    runs.append(lab.failed(point(mesh="1/1"), "out_of_memory", phase="run"))
    runs.append(lab.failed(point(mesh="1/data=8"), "hang"))
    (curve,) = curves(runs)
    assert [p.status for p in curve.points] == ["out_of_memory", "ok", "ok", "hang"]
    assert curve.baseline_id == curve.points[1].id
    assert curve.points[1].efficiency == 1
    for failed in (curve.points[0], curve.points[3]):
        figures = failed.model_dump(
            exclude={
                "id",
                "mesh",
                "num_devices",
                "num_slices",
                "global_batch_size",
                "status",
                "num_runs",
            }
        )
        assert set(figures.values()) == {None}
        assert failed.num_runs == 0


def test_marginal_efficiency_is_to_the_previous_point_with_figures(lab, point):
    runs = lab.scaled({"1/1": 1, "1/data=2": 0.8, "1/data=8": 0.4})
    runs.append(lab.failed(point(mesh="1/data=4"), "crash"))
    (curve,) = curves(runs)
    assert [p.marginal_efficiency for p in curve.points] == [
        None,
        pytest.approx(0.8),
        None,
        pytest.approx(0.5),
    ]


def test_a_curve_of_failures_has_no_baseline(lab, point):
    runs = [lab.failed(point(mesh=f"1/data={n}"), "error") for n in (1, 2)]
    (curve,) = curves(runs)
    assert curve.baseline_id is None
    assert [p.efficiency for p in curve.points] == [None, None]


def test_one_run_a_point_gives_figures_and_no_interval(lab, point):
    (curve,) = curves(lab.scaled({"1/1": 1, "1/data=2": 0.7}, runs=1))
    assert curve.run_noise_fraction is None
    assert curve.points[1].efficiency == pytest.approx(0.7)
    for each in curve.points:
        assert each.step_time_low_s is None
        assert each.efficiency_low is None
        assert each.efficiency_high is None


def test_an_efficiency_above_one_points_at_the_baseline(lab, point):
    runs = lab.scaled({"1/data=2": 1, "1/data=4": 1.04, "1/data=8": 1.2})
    runs.append(lab.failed(point(mesh="1/1"), "out_of_memory"))
    (curve,) = curves(runs)
    (warning,) = curve.warnings
    assert "mesh 1/data=8" in warning
    assert "1.20" in warning
    assert "the baseline 1/data=2 may be slow" in warning


def test_mfu_is_checked_against_the_peak(lab, point):
    def mfus(step_time_s):
        runs = [
            lab.run(point(mesh=f"1/data={n}", model="gpt2-124m"), step_time_s / n)
            for n in (1, 2)
        ]
        (curve,) = curves(runs)
        return curve, [p.mfu for p in curve.points]

    curve, plausible = mfus(1.0)
    assert all(0 < mfu < 1 for mfu in plausible)
    assert curve.warnings == ()
    curve, impossible = mfus(0.001)
    assert impossible == [None, None]
    # The timings are doubted in `stability`, which is where a reader finds it, once.
    assert curve.warnings == ()


def test_the_regime_is_no_difference_on_a_load_curve(lab, point):
    weak = point(global_batch_size=16, regime="weak")
    both = point(global_batch_size=32), point(global_batch_size=32, regime="weak")
    runs = [lab.run(point(global_batch_size=8), 0.1), lab.run(weak, 0.2)]
    runs += [lab.run(both[0], 0.4), lab.run(both[0], 0.4), lab.run(both[1], 0.1)]
    (curve,) = curves(runs)
    assert (curve.kind, curve.regime) == ("load", None)
    assert [p.global_batch_size for p in curve.points] == [8, 16, 32]
    # At 32 strong and weak are one program: pooled, and neither chosen for its speed.
    pooled = curve.points[-1]
    assert (pooled.num_runs, pooled.id) == (3, both[1].id)
    assert pooled.step_time_s == pytest.approx((0.4 * 0.4 * 0.1) ** (1 / 3))


def test_a_load_curve_pools_no_runs_of_other_provenance(lab, point):
    runs = [
        lab.run(point(global_batch_size=batch, regime=regime), provenance=provenance)
        for batch in (8, 16)
        for regime, provenance in (("strong", "measured"), ("weak", "simulated"))
    ]
    found = curves(runs)
    assert {curve.provenance for curve in found} == {"measured", "simulated"}
    assert all(p.num_runs == 1 for curve in found for p in curve.points)


def test_load_curves_grow_by_batch_on_one_mesh(lab, point):
    runs = [
        lab.run(point(mesh=mesh, global_batch_size=batch))
        for mesh in ("1/1", "1/data=2")
        for batch in (32, 8, 16)
    ]
    found = [curve for curve in curves(runs) if curve.kind == "load"]
    assert [curve.points[0].mesh for curve in found] == ["1/1", "1/data=2"]
    for curve in found:
        assert (curve.direction, curve.growth) == (None, "batch")
        assert curve.baseline_id is None
        assert [p.global_batch_size for p in curve.points] == [8, 16, 32]
        assert all(p.efficiency is None for p in curve.points)
        assert all(p.tokens_per_s is not None for p in curve.points)


@pytest.mark.parametrize(
    "name", [n for n in OTHER_SETTINGS if n not in ("global_batch_size", "regime")]
)
def test_settings_are_never_mixed_on_a_load_curve(lab, point, name):
    runs = [
        lab.run(point(global_batch_size=8)),
        lab.run(point(global_batch_size=16, **{name: OTHER_SETTINGS[name]})),
    ]
    assert curves(runs) == ()


@settings(deadline=None)
@given(
    efficiencies=st.lists(st.floats(0.1, 1.2), min_size=2, max_size=5),
    runs=st.integers(1, 4),
    noise=st.floats(0, 0.2),
    seed=st.integers(0, 1000),
)
def test_properties_of_any_curve(lab, efficiencies, runs, noise, seed):
    meshes = [f"1/data={2**n}" for n in range(len(efficiencies))]
    plan = dict(zip(meshes, [1.0, *efficiencies[1:]], strict=True))
    measurements = lab.scaled(plan, runs=runs, noise=noise)
    (curve,) = curves(measurements)
    shuffled = random.Random(seed).sample(measurements, len(measurements))
    assert curves(shuffled) == (curve,)
    first = curve.points[0]
    assert first.efficiency == 1
    assert {first.efficiency_low, first.efficiency_high} <= {1, None}
    devices = [p.num_devices for p in curve.points]
    assert devices == sorted(set(devices))
    for each, planted in zip(curve.points, plan.values(), strict=True):
        assert each.efficiency == pytest.approx(planted)
        if each.efficiency_low is not None:
            assert each.efficiency_low <= each.efficiency <= each.efficiency_high
