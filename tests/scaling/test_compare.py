import math
import random

import pytest

from meshes.spec import MeshSpec
from scaling.compare import compare
from scaling.measurement import Block
from scaling.measurement import Environment
from scaling.measurement import Measurement
from scaling.point import Point

NOISE = 0.02
MESHES = ("1/1", "1/data=2", "1/data=4", "data=2/1", "data=4/1", "data=2/data=2")


def environment(**fields):
    return Environment.model_validate(
        {
            "versions": {"python": "3.11", "jax": "0.10.2"},
            "device_kind": "cpu",
            "host_cpu_model": "a core",
            "flags": {},
            "code_hash": "c",
            "commit": None,
            "hostname": "h",
            "num_cores": 8,
        }
        | fields
    )


def run(mesh, step_time_s, number=0, **fields):
    point = Point(
        model="tiny",
        chip="cpu",
        mesh=MeshSpec.parse(mesh),
        global_batch_size=16,
        seq_len=128,
    )
    blocks = tuple(Block(steps=10, elapsed_s=(10 * step_time_s,)) for _ in range(5))
    return Measurement.model_validate(
        {
            "id": point.id,
            "run": f"{number:012x}",
            "sweep": "s",
            "point": point,
            "status": "ok",
            "provenance": "measured",
            "started_at": f"2026-01-01T00:00:{number % 60:02d}+00:00",
            "environment": environment(),
            "blocks": blocks,
            "compilations_in_window": 0,
        }
        | fields
    )


def folder(step_times_s, *, seed, runs=3, **fields):
    noise = random.Random(seed)
    return [
        run(
            mesh,
            step_time_s * math.exp(noise.gauss(0, NOISE)),
            number=i * len(step_times_s) + number,
            **fields,
        )
        for i, (mesh, step_time_s) in enumerate(step_times_s.items())
        for number in range(runs)
    ]


def test_the_ratio_is_throughput_of_b_over_a():
    a = [run("1/1", 0.2, number) for number in range(2)]
    b = [run("1/1", 0.1, number) for number in range(2)]
    (point,) = compare(a, b).points
    assert point.ratio == pytest.approx(2.0)
    assert point.step_time_a_s == pytest.approx(0.2)
    assert point.step_time_b_s == pytest.approx(0.1)
    assert (point.num_runs_a, point.num_runs_b) == (2, 2)


def test_the_interval_is_students_with_the_pooled_spread():
    # Two values each side, log step times ±s around their mean: four squares of s²
    # over two degrees of freedom, so sd² = 2 s². t(0.95; 2) = 2.920.
    s = 0.01
    a = [run("1/1", 0.1 * math.exp(sign * s), i) for i, sign in enumerate((1, -1))]
    b = [run("1/1", 0.1 * math.exp(sign * s), i) for i, sign in enumerate((1, -1))]
    (point,) = compare(a, b).points
    half = 2.920 * math.sqrt(2) * s * math.sqrt(1 / 2 + 1 / 2)
    assert point.ratio == pytest.approx(1)
    assert point.ratio_high == pytest.approx(math.exp(half), rel=1e-4)
    assert point.ratio_low == pytest.approx(math.exp(-half), rel=1e-4)
    assert point.distinguishable is False


def test_among_points_that_did_not_change_few_comparisons_name_one():
    same = dict.fromkeys(MESHES, 0.1)
    named = sum(
        any(
            p.distinguishable
            for p in compare(
                folder(same, seed=2 * seed), folder(same, seed=2 * seed + 1)
            ).points
        )
        for seed in range(200)
    )
    # 10 % of 200, three standard deviations above.
    assert named <= 20 + 3 * math.sqrt(200 * 0.1 * 0.9)


def test_a_change_of_a_tenth_is_found_and_only_where_it_is():
    before = dict.fromkeys(MESHES, 0.1)
    after = before | {"data=2/1": 0.11}
    found = others = 0
    for seed in range(50):
        comparison = compare(
            folder(before, seed=2 * seed), folder(after, seed=2 * seed + 1)
        )
        for point in comparison.points:
            if point.mesh == "data=2/1":
                found += bool(point.distinguishable) and (point.ratio or 1) < 1
            else:
                others += bool(point.distinguishable)
    assert found >= 45
    assert others <= 50 * 0.1 + 3 * math.sqrt(50 * 0.1 * 0.9)


def test_single_runs_make_no_claim():
    (point,) = compare([run("1/1", 0.1)], [run("1/1", 0.2)]).points
    assert point.ratio == pytest.approx(0.5)
    assert point.ratio_low is None
    assert point.ratio_high is None
    assert point.distinguishable is None


def test_a_point_that_failed_on_one_side_is_there_without_a_ratio():
    a = [run("1/1", 0.1, number) for number in range(3)]
    b = [run("1/1", 0.1, status="hang", reason="no step for 60 s", blocks=())]
    (point,) = compare(a, b).points
    assert (point.status_a, point.status_b) == ("ok", "hang")
    assert point.ratio is None
    assert point.distinguishable is None


def test_points_of_one_side_only_are_listed():
    a, b = [run("1/1", 0.1), run("1/data=2", 0.1)], [run("1/1", 0.1)]
    assert compare(a, b).only_in_a == (a[1].id,)
    assert compare(a, b).only_in_b == ()
    assert compare(b, a).only_in_b == (a[1].id,)


def test_measured_is_not_compared_with_simulated():
    a, b = [run("1/data=4", 0.1)], [run("1/data=4", 0.3, provenance="simulated")]
    comparison = compare(a, b)
    assert comparison.points == ()
    assert comparison.only_in_a == comparison.only_in_b == (a[0].id,)
    in_a, in_b = comparison.unmatched
    assert (in_a.side, in_a.mesh, in_a.provenance) == ("A", "1/data=4", "measured")
    assert in_a.other_provenances == ("simulated",)
    assert (in_b.side, in_b.other_provenances) == ("B", ("measured",))
    (alone,) = compare(a, [run("1/1", 0.1)]).unmatched[:1]
    assert alone.other_provenances == ()


def test_points_are_in_the_order_of_what_they_are():
    meshes = ["data=2/data=2", "1/data=4", "1/1", "data=2/1", "1/data=2"]
    runs = [run(mesh, 0.1, number) for number, mesh in enumerate(meshes)]
    assert [each.mesh for each in compare(runs, runs).points] == [
        "1/1",
        "1/data=2",
        "data=2/1",
        "1/data=4",
        "data=2/data=2",
    ]
    assert [each.mesh for each in compare(runs, [run("1/fsdp=2", 0.1)]).unmatched] == [
        "1/1",
        "1/data=2",
        "data=2/1",
        "1/data=4",
        "data=2/data=2",
        "1/fsdp=2",
    ]


def test_only_the_newest_environment_of_a_side_counts():
    old = environment(code_hash="old")
    a = [run("1/1", 0.5, number, environment=old) for number in range(3)]
    a += [run("1/1", 0.1, number) for number in range(3, 6)]
    (point,) = compare(a, [run("1/1", 0.1, number) for number in range(3)]).points
    assert point.num_runs_a == 3
    assert point.ratio == pytest.approx(1)


def test_what_differs_is_said_of_the_compared_runs_alone():
    old = environment(code_hash="old", hostname="before")
    elsewhere = environment(hostname="elsewhere")
    a = [run("1/1", 0.5, 0, environment=old), run("1/1", 0.1, 1)]
    a.append(run("1/data=2", 0.1, 2, environment=elsewhere))
    b = [run("1/1", 0.1, 0), run("1/1", 0.1, 1, environment=elsewhere)]
    (difference,) = compare(a, b).differences
    # The old run and the point that B lacks have no part in any ratio. The host is
    # not pooled by, so both of B's count.
    assert (difference.field, difference.a) == ("hostname", ("h",))
    assert difference.b == ("elsewhere", "h")


def test_what_differs_between_the_environments_is_named():
    new = environment(
        versions={"python": "3.11", "jax": "0.12.0"}, flags={"XLA_FLAGS": "--x"}
    )
    a, b = [run("1/1", 0.1)], [run("1/1", 0.1, environment=new)]
    found = {each.field: (each.a, each.b) for each in compare(a, b).differences}
    assert found == {
        "versions.jax": (("0.10.2",), ("0.12.0",)),
        "flags.XLA_FLAGS": ((), ("--x",)),
    }
    assert compare(a, a).differences == ()
