import pytest

from scaling.measurement import Block
from scaling.samples import pool_runs
from scaling.stability import summed_up
from scaling.stability import symptoms


def point_warnings(runs):
    return tuple(each.says for each in symptoms(pool_runs(runs)))


def stability_warnings(runs, most=None):
    return summed_up(symptoms(pool_runs(runs)), most=most)


def steady(lab, point, *, runs=5, **fields):
    return [lab.run(point(), [0.1] * 8, **fields) for _ in range(runs)]


def only(warnings):
    (warning,) = warnings
    return warning


def test_steady_runs_give_no_warning(lab, point):
    assert point_warnings(steady(lab, point, warm_up_s=(0.2,))) == ()


def test_few_runs(lab, point):
    assert only(point_warnings(steady(lab, point, runs=1))) == (
        "1 run has no interval; repeat with --repeats 5"
    )
    assert "2 runs have a wide interval" in only(
        point_warnings(steady(lab, point, runs=2))
    )
    assert point_warnings(steady(lab, point, runs=3)) == ()


def test_spread_of_runs(lab, point):
    def spread(deviation):
        runs = lab.scaled({"1/1": 1.0}, noise=deviation)
        return point_warnings(runs)

    assert spread(0.04) == ()
    assert "standard deviation over 5 runs is 8.0% of the step time" in only(
        spread(0.08)
    )


def test_drift_that_the_median_hides(lab, point):
    # 0.50 to 0.56 s: first quarter 0.50, last 0.56, median 0.53.
    times = [0.50, 0.50, 0.52, 0.53, 0.53, 0.54, 0.56, 0.56]
    runs = [*steady(lab, point, runs=4), lab.run(point(), times)]
    runs[:4] = [lab.run(point(), [0.53] * 8) for _ in range(4)]
    warning = only(point_warnings(runs))
    assert warning.startswith("1 of 5 runs drift")
    assert "up to 12.0% slower than the first" in warning
    faster = [lab.run(point(), times[::-1]) for _ in range(3)]
    assert "3 of 3 runs drift" in only(point_warnings(faster))
    assert "faster" in only(point_warnings(faster))


def test_an_outlier_at_the_end_is_no_drift(lab, point):
    runs = [lab.run(point(), [0.1] * 7 + [0.3]) for _ in range(3)]
    assert "drift" not in only(point_warnings(runs))


def test_three_blocks_have_no_quarters(lab, point):
    runs = [lab.run(point(), [0.1, 0.104, 0.108]) for _ in range(3)]
    assert point_warnings(runs) == ()


def test_warm_up_beside_the_timed_window(lab, point):
    # Eight blocks of two steps of 0.1 s: 1.6 s.
    assert point_warnings(steady(lab, point, warm_up_s=(0.24, 0.24))) == ()
    warning = only(point_warnings(steady(lab, point, warm_up_s=(0.4, 0.4))))
    assert "warm-up took up to 50% of the timed window" in warning


def test_outlier_blocks_are_counted(lab, point):
    runs = [
        lab.run(point(), [0.1, 0.101, 0.1, 0.25, 0.099, 0.1, 0.12, 0.1])
        for _ in range(3)
    ]
    warning = only(point_warnings(runs))
    assert warning.startswith("6 of 24 blocks are outliers, up to 2.5 times")
    assert "kept" in warning


def test_blocks_that_all_differ_are_no_outliers(lab, point):
    times = [0.08, 0.12, 0.085, 0.1, 0.1, 0.115, 0.09, 0.11]
    runs = [lab.run(point(), times) for _ in range(3)]
    assert not any("outliers" in each for each in point_warnings(runs))


def test_above_the_peak(lab, point):
    gpt2 = point(model="gpt2-124m")
    assert point_warnings([lab.run(gpt2, [1.0] * 8) for _ in range(3)]) == ()
    impossible = [
        lab.run(gpt2, [1.0, 1.0, 1.0, 1e-4, 1.0, 1.0, 1.0, 1.0]) for _ in range(3)
    ]
    warning = only(point_warnings(impossible))
    assert warning.startswith("3 of 24 blocks imply up to ")
    assert "impossible" in warning
    # No vendor states a peak for a CPU.
    on_cpu = point(model="gpt2-124m", chip="cpu")
    runs = [lab.run(on_cpu, [1e-4] * 8) for _ in range(3)]
    assert point_warnings(runs) == ()


def test_the_slowest_process_counts(lab, point):
    blocks = [Block(steps=1, elapsed_s=(0.1, 0.1))] * 7
    late = Block(steps=1, elapsed_s=(0.1, 0.4))
    runs = [lab.run(point(), blocks=(*blocks, late)) for _ in range(3)]
    assert "3 of 24 blocks are outliers" in only(point_warnings(runs))


def test_warnings_of_all_points_name_them(lab, point):
    one, two = point(), point(mesh="1/data=2")
    runs = [
        lab.run(one),
        *(lab.run(two) for _ in range(3)),
        lab.run(two, compilations_in_window=1),
        lab.failed(point(mesh="1/data=4"), "hang"),
    ]
    assert only(stability_warnings(runs)) == (
        f"tiny on v5e, mesh 1/1, batch 64 ({one.id}): "
        "1 run has no interval; repeat with --repeats 5"
    )


@pytest.mark.parametrize(
    "changes", [{"code_hash": "1" * 64}, {"host_cpu_model": "another CPU"}]
)
def test_environments_are_looked_at_apart(lab, point, changes):
    other = lab.environment.model_copy(update=changes)
    runs = steady(lab, point, runs=3) + steady(lab, point, runs=1, environment=other)
    assert "1 run has no interval" in only(stability_warnings(runs))
    assert len(stability_warnings(runs)) == 1


def test_the_worst_points_of_a_kind_are_named_and_the_others_counted(lab, point):
    drifts = {2: 1.1, 4: 1.5, 8: 1.3, 16: 1.2}
    runs = [
        lab.run(point(global_batch_size=batch), [0.1] * 2 + [0.105] * 4 + [last] * 2)
        for batch, drift in drifts.items()
        for last in [0.1 * drift] * 3
    ]
    found = [each for each in symptoms(pool_runs(runs)) if "drift" in each.kind]
    lines = summed_up(found, most=2)
    assert ["batch 4 " in lines[0], "batch 8 " in lines[1]] == [True, True]
    assert lines[2:] == ("drift within runs at 2 more points",)
    assert len(summed_up(found, most=None)) == 4
    assert summed_up(found[:3], most=2)[-1] == "drift within runs at 1 more point"


def test_what_all_points_have_is_one_sentence(lab, point):
    runs = [lab.run(point(global_batch_size=batch, regime="weak")) for batch in (2, 4)]
    found = symptoms(pool_runs(runs))
    (line,) = summed_up(found, most=1, num_points=2)
    assert line.startswith("too few runs at all 2 points; worst tiny on v5e, mesh 1/1")
    assert ", weak (" in line
    # A list of all names each, and so does one of points that are not all.
    assert len(summed_up(found, most=None, num_points=2)) == 2
    assert "at all" not in summed_up(found, most=1, num_points=3)[0]


def test_a_block_that_no_process_timed_is_no_block(lab, point):
    blocks = (*[Block(steps=2, elapsed_s=(0.2,))] * 7, Block(steps=2, elapsed_s=()))
    runs = [lab.run(point(), blocks=blocks, warm_up_s=(0.1,)) for _ in range(3)]
    assert point_warnings(runs) == ()
