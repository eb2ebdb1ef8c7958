import math

import pytest

from scaling.measurement import Block
from scaling.samples import pool_runs
from scaling.samples import run_statistic
from scaling.samples import usable


def test_the_statistic_is_the_log_of_the_median_block_of_the_slowest_process(
    lab, point
):
    blocks = (
        Block(steps=2, elapsed_s=(0.2, 0.4)),  # 0.2 s a step
        Block(steps=4, elapsed_s=(1.2, 0.8)),  # 0.3
        Block(steps=1, elapsed_s=(9.0, 1.0)),  # 9.0, an outlier
    )
    run = lab.run(point(), blocks=blocks)
    assert run_statistic(run) == pytest.approx(math.log(0.3))


def test_the_median_of_an_even_number_of_blocks_is_between_the_middle_two(lab, point):
    run = lab.run(point(), [0.1, 0.2, 0.4, 9.0])
    assert run_statistic(run) == pytest.approx(math.log(0.3))


def test_a_compilation_in_the_timed_window_makes_a_run_unusable(lab, point):
    assert usable(lab.run(point()))
    for count in (1, None):
        run = lab.run(point(), compilations_in_window=count)
        assert not usable(run)
        with pytest.raises(ValueError, match=f"{count} compilations in the timed"):
            run_statistic(run)
        (pooled,) = pool_runs([run])
        assert pooled.samples == ()


@pytest.mark.parametrize("blocks", [(), (Block(steps=1, elapsed_s=()),)])
def test_a_run_without_samples_is_unusable(lab, point, blocks):
    assert not usable(lab.run(point(), blocks=blocks))


def test_a_failed_run_carries_no_sample_although_it_has_blocks(lab, point):
    run = lab.run(point(), 0.1, status="hang", reason="planted")
    assert not usable(run)


def test_the_newest_run_decides_the_status(lab, point):
    ok, failed = lab.run(point(), 0.1), lab.failed(point(), "hang")
    (pooled,) = pool_runs([failed, ok])
    assert (pooled.status, pooled.samples) == ("hang", ())
    again = lab.run(point(), 0.2)
    (pooled,) = pool_runs([again, failed, ok])
    assert pooled.status == "ok"
    assert pooled.samples == pytest.approx((math.log(0.1), math.log(0.2)))


def test_a_preempted_run_decides_only_where_there_is_no_other(lab, point):
    ok, preempted = lab.run(point()), lab.failed(point(), "preempted")
    assert pool_runs([ok, preempted])[0].status == "ok"
    assert pool_runs([preempted])[0].status == "preempted"


def test_a_run_file_copied_into_two_sweeps_counts_once(lab, point):
    run = lab.run(point())
    copy = run.model_copy(update={"sweep": "another"})
    (pooled,) = pool_runs([run, copy])
    assert len(pooled.samples) == 1


def test_sweeps_are_pooled(lab, point):
    runs = [lab.run(point(), sweep=name) for name in ("one", "two")]
    assert [len(each.samples) for each in pool_runs(runs)] == [2]


def elsewhere(lab, **changes):
    return lab.environment.model_copy(update=changes)


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
def test_environments_are_not_pooled(lab, point, changes):
    here = lab.run(point())
    there = lab.run(point(), environment=elsewhere(lab, **changes))
    pooled = pool_runs([here, there])
    assert len({each.series for each in pooled}) == 2
    assert [len(each.samples) for each in pooled] == [1, 1]


@pytest.mark.parametrize("changes", [{"commit": "abc"}, {"hostname": "other"}])
def test_commit_and_hostname_do_not_keep_runs_apart(lab, point, changes):
    here = lab.run(point())
    there = lab.run(point(), environment=elsewhere(lab, **changes))
    assert len(pool_runs([here, there])) == 1


def test_provenances_are_not_pooled(lab, point):
    runs = [lab.run(point(), provenance=p) for p in ("measured", "simulated")]
    assert [each.provenance for each in pool_runs(runs)] == ["measured", "simulated"]


def test_a_run_that_never_saw_a_device_joins_the_environment_it_agrees_with(lab, point):
    blind = elsewhere(lab, device_kind=None)
    ok, failed = point(), point(mesh="1/data=2")
    runs = [lab.run(ok), lab.failed(failed, "crash", environment=blind)]
    assert len({each.series for each in pool_runs(runs)}) == 1
    other_code = blind.model_copy(update={"code_hash": "1" * 64})
    runs[1] = lab.failed(failed, "crash", environment=other_code)
    assert len({each.series for each in pool_runs(runs)}) == 2


def test_a_blind_run_does_not_join_the_environment_of_another_chip(lab, point):
    blind = elsewhere(lab, device_kind=None)
    runs = [
        lab.run(point()),
        lab.failed(point(chip="v5p"), "crash", environment=blind),
    ]
    assert len({each.series for each in pool_runs(runs)}) == 2
