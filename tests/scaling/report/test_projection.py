import pytest

from scaling.report.projection import SLICES_BY_DIRECTION
from scaling.report.projection import project


@pytest.fixture(scope="module")
def projection():
    return project(0.8)


def curve(projection, direction, regime):
    return next(
        each.curve
        for each in projection.judged
        if (each.curve.direction, each.curve.regime) == (direction, regime)
    )


def test_everything_in_it_is_analytic(projection):
    assert len(projection.judged) == 4
    for each in projection.judged:
        assert each.curve.provenance == "analytic"
        assert all(point.num_runs == 0 for point in each.curve.points)


def test_one_slice_grows_to_256_chips_and_slices_to_8(projection):
    vertical = curve(projection, "vertical", "strong").points
    horizontal = curve(projection, "horizontal", "strong").points
    assert vertical[0].num_devices == 1
    assert vertical[-1].num_devices == horizontal[-1].num_devices == 256
    assert {point.num_slices for point in vertical} == {1}
    assert [point.num_slices for point in horizontal] == [1, 2, 4, 8]
    assert [
        (point.num_slices, point.num_devices // point.num_slices) for point in vertical
    ] == list(SLICES_BY_DIRECTION["vertical"])


@pytest.mark.parametrize("direction", ["vertical", "horizontal"])
def test_strong_holds_the_batch_and_weak_the_batch_per_device(projection, direction):
    strong = curve(projection, direction, "strong").points
    weak = curve(projection, direction, "weak").points
    assert len({point.global_batch_size for point in strong}) == 1
    shares = {point.global_batch_size / point.num_devices for point in weak}
    assert len(shares) == 1


def test_efficiency_is_one_at_the_baseline_and_within_its_band(projection):
    for each in projection.judged:
        first, *rest = each.curve.points
        bounds = (first.efficiency_low, first.efficiency, first.efficiency_high)
        assert bounds == pytest.approx((1, 1, 1))
        for point in rest:
            assert point.efficiency_low <= point.efficiency <= point.efficiency_high


def test_efficiency_is_throughput_per_device_over_the_baseline(projection):
    first, *_, last = curve(projection, "vertical", "strong").points
    ratio = (last.tokens_per_s / last.num_devices) / (
        first.tokens_per_s / first.num_devices
    )
    assert last.efficiency == pytest.approx(ratio)


def test_a_fixed_batch_stops_paying_within_a_slice(projection):
    # 128 sequences on 256 chips leave too little work for each.
    assert curve(projection, "vertical", "strong").points[-1].efficiency < 0.8
    assert curve(projection, "vertical", "weak").points[-1].efficiency > 0.8
    assert projection.verdict.startswith("Vertical (strong): ")
