import itertools
import random

import pytest

from meshes.hardware import chip
from scaling.candidates import candidates
from scaling.candidates import splits
from scaling.feasibility import why_infeasible
from scaling.point import Point
from scaling.predict import predict
from scaling.search import search


def base(**changes):
    fields = {
        "model": "tiny",
        "chip": "v5e",
        "mesh": "1/1",
        "global_batch_size": 16,
        "seq_len": 128,
    }
    return Point.model_validate(fields | changes)


def searched(name="v5e", devices=8, **changes):
    point = base(chip=name, **changes)
    # Fewer policies are as good a test, and quicker.
    fixed = {"layers", "residual"}
    points = tuple(candidates(point, splits(chip(name), devices), fixed=fixed))
    return points, search(points, chip(name))


@pytest.mark.parametrize(
    ("name", "devices", "changes"),
    [
        ("v5e", 8, {}),
        ("v5e", 8, {"model": "mpt-3b", "seq_len": 2048, "global_batch_size": 32}),
        ("h100-sxm", 8, {"model": "llama2-7b", "seq_len": 2048}),
        ("v7x", 8, {"model": "gemma-7b", "seq_len": 1024, "global_batch_size": 24}),
    ],
)
def test_nothing_that_brute_force_finds_beats_the_best(name, devices, changes):
    points, found = searched(name, devices, **changes)
    times = {}
    for point in points:
        if why_infeasible(point) is None:
            predicted = predict(point, chip(name))
            if predicted.fits:
                times[point.id] = predicted.step_time_s
    assert {each.point.id for each in found.ranked} == set(times)
    assert found.ranked[0].step_time_s == min(times.values())
    ranked = [each.step_time_s for each in found.ranked]
    assert all(a <= b * (1 + 1e-8) for a, b in itertools.pairwise(ranked))
    # Each candidate is ranked or refused, once.
    refused = sum(group.num_candidates for group in found.refused)
    assert len(found.ranked) + refused == found.num_candidates == len(points)


def test_ranking_does_not_depend_on_the_order_of_the_candidates():
    points, found = searched()
    shuffled = random.Random(0).sample(points, len(points))
    again = search(shuffled, chip("v5e"))
    assert [each.point for each in again.ranked] == [e.point for e in found.ranked]
    assert again.best_by_mesh == found.best_by_mesh
    # Of equals the one with the least memory, and the plainest of those, is first.
    for one, other in itertools.pairwise(found.ranked):
        if one.step_time_s == other.step_time_s:
            assert one.predicted.peak_hbm_bytes <= other.predicted.peak_hbm_bytes


def test_each_mesh_is_shown_once_under_its_best_policy():
    _, found = searched()
    best = found.best_by_mesh
    meshes = [each.point.mesh for each in best]
    assert len(meshes) == len(set(meshes))
    for each in best:
        same = [c for c in found.ranked if c.point.mesh == each.point.mesh]
        assert each.step_time_s <= min(c.step_time_s for c in same) * (1 + 1e-8)


def test_refusals_are_grouped_by_what_is_in_the_way():
    # tiny has 4 query and 2 key-value heads, and 3 sequences are a batch of no power
    # of two. Slices of 4 (2x2): meshes of 2², i.e. data, fsdp and tensor of 1, 2, 4.
    point = base(global_batch_size=3)
    points = tuple(
        candidates(
            point,
            [s for s in splits(chip("v5e"), 4) if s.num_slices == 1],
            fixed={"remat", "layers", "attention", "residual"},
        )
    )
    found = search(points, chip("v5e"))
    by_obstacle = {group.obstacle: group for group in found.refused}
    # tensor=4 meets 2 key-value heads, with 1 or 3 micro-batches.
    assert by_obstacle["dim"].num_candidates == 2
    assert by_obstacle["dim"].num_meshes == 1
    ((reason, number),) = by_obstacle["dim"].reasons
    assert "kv_heads 2 does not divide over tensor=4" in reason
    assert number == 2
    # data and fsdp of 4, 2·2, 2 and 2 (with tensor=2): five meshes.
    assert by_obstacle["batch"].num_meshes == by_obstacle["batch"].num_candidates == 5
    assert sum(number for _, number in by_obstacle["batch"].reasons) == 5
    assert set(by_obstacle) == {"dim", "batch"}
    assert found.ranked == ()
    assert [row.best for row in found.balance] == [None]


def test_what_is_too_large_says_by_how_much_and_whether_another_policy_fits():
    points, found = searched(
        "v5e", 16, model="llama3-8b", seq_len=4096, global_batch_size=16
    )
    available = chip("v5e").available_hbm_bytes_per_device
    assert available is not None
    fitting = {str(each.point.mesh) for each in found.ranked}
    excess = {"memory": [], "policy": []}
    for point in points:
        if why_infeasible(point) is None:
            predicted = predict(point, chip("v5e"))
            if not predicted.fits:
                kind = "policy" if str(point.mesh) in fitting else "memory"
                excess[kind].append(predicted.peak_hbm_bytes - available)
    groups = {group.obstacle: group for group in found.refused}
    for kind, expected in excess.items():
        assert groups[kind].num_candidates == len(expected) > 0
        nearest = groups[kind].nearest
        assert nearest is not None
        assert nearest.excess_bytes == min(expected)
        again = predict(nearest.point, chip("v5e")).peak_hbm_bytes
        assert again - available == nearest.excess_bytes


def test_balance_has_the_best_of_every_number_of_slices():
    model = {"model": "llama3-8b", "seq_len": 4096, "global_batch_size": 16}
    _, found = searched("v5p", 16, **model)
    best = {}
    for each in found.ranked:
        best.setdefault(each.point.mesh.num_slices, each)
    assert [row.num_slices for row in found.balance] == [1, 2, 4]
    for row in found.balance:
        assert row.num_slices * row.devices_per_slice == 16
        if row.best is None:
            assert row.num_slices not in best
            continue
        assert row.best == best[row.num_slices]
        assert row.best.predicted.tokens_per_s is not None
        fastest = found.ranked[0].predicted.tokens_per_s
        assert row.relative == pytest.approx(row.best.predicted.tokens_per_s / fastest)
    assert max(row.relative or 0 for row in found.balance) == 1


def test_a_chip_without_figures_ranks_nothing_and_says_so():
    points = tuple(candidates(base(chip="cpu"), splits(chip("cpu"), 2)))
    found = search(points, chip("cpu"))
    assert found.ranked == ()
    assert [group.obstacle for group in found.refused] == ["figure"]
    assert found.refused[0].num_candidates == len(points)


def test_on_a_host_all_devices_share_the_memory():
    calibrated = chip("cpu").model_copy(
        update={
            "matmul_flops_per_s": {"bfloat16": 40e9},
            "hbm_bytes_per_s": 8e9,
            "dcn_bytes_per_s": 1e9,
        }
    )
    points = tuple(candidates(base(chip="cpu"), splits(chip("cpu"), 2)))
    needed = {
        point.id: 2 * predict(point, calibrated).peak_hbm_bytes
        for point in points
        if why_infeasible(point) is None
    }
    limit = sorted(needed.values())[len(needed) // 2]
    found = search(points, calibrated, host_memory_bytes=limit)
    assert {each.point.id for each in found.ranked} == {
        name for name, each in needed.items() if each <= limit
    }
