import math
import random
import statistics

from scaling.samples import pool_runs
from scaling.selection import choose


def candidates(lab, point, times_by_mesh):
    runs = [
        lab.run(point(mesh=mesh), time_s)
        for mesh, times in times_by_mesh.items()
        for time_s in times
    ]
    return pool_runs(runs)


def test_without_a_rival_every_run_estimates(lab, point):
    (only,) = candidates(lab, point, {"1/data=2": [1, 2, 3]})
    assert choose([only]).samples == only.samples


def test_one_half_of_the_runs_chooses_and_the_other_estimates(lab, point):
    found = choose(
        candidates(
            lab,
            point,
            # Runs 2 and 4 choose: data. Runs 1, 3, 5 estimate, and have no say.
            {"1/data=2": [9.0, 1.0, 8.0, 1.0, 7.0], "1/fsdp=2": [1.0, 2.0] * 2 + [1.0]},
        )
    )
    assert str(found.runs.point.mesh) == "1/data=2"
    assert found.samples == tuple(map(math.log, (9.0, 8.0, 7.0)))


def test_the_fastest_of_equals_does_not_look_faster_than_it_is(lab, point):
    rng = random.Random(3)
    naive, honest = [], []
    for _ in range(300):
        times = {
            f"1/{mesh}": [math.exp(rng.gauss(0, 0.1)) for _ in range(4)]
            for mesh in ("data=8", "fsdp=8", "tensor=8", "data=2,fsdp=4")
        }
        found = choose(candidates(lab, point, times))
        honest.append(statistics.fmean(found.samples))
        naive.append(
            min(statistics.fmean(map(math.log, each)) for each in times.values())
        )
    # The standard error of each mean is 0.1 / sqrt(2 * 300), about 0.004.
    assert abs(statistics.fmean(honest)) < 0.015
    assert statistics.fmean(naive) < -0.03


def test_a_failed_mesh_is_no_rival(lab, point):
    runs = [lab.run(point(mesh="1/data=2"), 1.0) for _ in range(3)]
    runs.append(lab.failed(point(mesh="1/fsdp=2"), "hang"))
    found = choose(pool_runs(runs))
    assert str(found.runs.point.mesh) == "1/data=2"
    assert len(found.samples) == 3


def test_where_all_failed_the_most_telling_failure_stands(lab, point):
    runs = [
        lab.failed(point(mesh="1/data=2"), "invalid"),
        lab.failed(point(mesh="1/fsdp=2"), "out_of_memory"),
        lab.failed(point(mesh="1/tensor=2"), "skipped"),
    ]
    found = choose(pool_runs(runs))
    assert found.runs.status == "out_of_memory"
    assert found.samples == ()


def test_choosing_on_the_run_that_estimates_is_said(lab, point):
    found = choose(candidates(lab, point, {"1/data=2": [1.0], "1/fsdp=2": [2.0]}))
    assert found.samples == (0.0,)
    assert found.warning is not None
    assert "chosen and estimated on the same single run" in found.warning
