"""Cores handed to the processes of a run: disjoint, enough, physical ones first."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import cgroup
from experiments import cores
from meshes.spec import MeshSpec


def test_each_process_gets_cores_of_its_own():
    mesh = MeshSpec.parse("data=2/fsdp=3")
    assert cores.assign(mesh, (0, 1, 2, 3, 4, 5, 6)) == ((0, 1, 2), (3, 4, 5))


@given(slices=st.integers(1, 4), each=st.integers(1, 4), available=st.integers(0, 20))
def test_nothing_is_confined_exactly_where_cores_are_too_few(
    slices: int, each: int, available: int
):
    mesh = MeshSpec.parse(f"data={slices}/fsdp={each}")
    assigned = cores.assign(mesh, tuple(range(available)))
    assert (assigned is None) == (slices * each > available)
    if assigned is not None:
        flat = [core for process in assigned for core in process]
        assert len(flat) == len(set(flat)) == slices * each


def test_one_thread_of_each_physical_core_comes_first(tmp_path: Path):
    # Two packages of one physical core with two threads each, numbered as Intel does.
    for core, package in enumerate((0, 1, 0, 1)):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
        (folder / "core_id").write_text("0\n")
    assert cores.spread((3, 2, 1, 0), tmp_path) == (0, 1, 2, 3)
    assert cores.spread((0, 2, 3), tmp_path) == (0, 3, 2)


def test_cores_of_unknown_place_keep_their_order(tmp_path: Path):
    assert cores.spread({5, 1, 3}, tmp_path) == (1, 3, 5)


@pytest.mark.parametrize(("quota", "number"), [(None, 4), (2.5, 2), (0.4, 1), (9.0, 4)])
def test_a_quota_cuts_the_affinity_mask(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, number: int
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: quota)
    assert len(cores.available_cores()) == number
    assert cores.num_cores() == number


def test_a_system_without_affinity_confines_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores.available_cores() == ()
    assert cores.num_cores() == os.cpu_count()
