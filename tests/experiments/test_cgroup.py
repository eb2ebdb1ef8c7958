"""Limits and counters of control groups, read from planted trees of both versions."""

from pathlib import Path

import pytest

from experiments import cgroup


class Tree:
    def __init__(self, root: Path):
        self.mount = root / "cgroup"
        self.membership = root / "membership"
        self.mount.mkdir()

    def belongs(self, text: str) -> None:
        self.membership.write_text(text)

    def write(self, path: str, text: str) -> None:
        file = self.mount / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def quota(self) -> float | None:
        return cgroup.cpu_quota(self.mount, self.membership)

    def limit(self) -> int | None:
        return cgroup.memory_limit_bytes(self.mount, self.membership)

    def kills(self) -> int | None:
        return cgroup.oom_kills(self.mount, self.membership)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_version_2_takes_the_tightest_quota_of_group_and_ancestors(tree: Tree):
    tree.belongs("0::/pod/box\n")
    tree.write("pod/box/cpu.max", "max 100000\n")
    tree.write("pod/cpu.max", "250000 100000\n")
    assert tree.quota() == 2.5
    tree.write("pod/box/cpu.max", "50000 100000\n")
    assert tree.quota() == 0.5


def test_version_1_quota(tree: Tree):
    tree.belongs("3:cpu,cpuacct:/box\n2:memory:/other\n")
    tree.write("cpu,cpuacct/box/cpu.cfs_quota_us", "300000\n")
    tree.write("cpu,cpuacct/box/cpu.cfs_period_us", "100000\n")
    assert tree.quota() == 3.0
    tree.write("cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n")
    assert tree.quota() is None


def test_a_container_that_sees_only_the_root_of_its_mount(tree: Tree):
    tree.belongs("0::/not/visible/here\n")
    tree.write("cpu.max", "100000 100000\n")
    tree.write("memory.max", "1048576\n")
    tree.write("memory.events", "low 0\noom 4\noom_kill 3\n")
    assert (tree.quota(), tree.limit(), tree.kills()) == (1.0, 1048576, 3)


def test_memory_limits_of_both_versions(tree: Tree):
    tree.belongs("1:memory:/box\n")
    tree.write("memory/box/memory.limit_in_bytes", "2000\n")
    tree.write("memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert tree.limit() == 2000
    tree.write("memory/box/memory.limit_in_bytes", "9223372036854771712\n")
    assert tree.limit() is None


def test_kills_are_those_of_the_innermost_group(tree: Tree):
    tree.belongs("1:memory:/box\n0::/\n")
    tree.write("memory/memory.oom_control", "oom_kill_disable 0\noom_kill 9\n")
    tree.write(
        "memory/box/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
    )
    assert tree.kills() == 2


def test_nothing_known_is_none_and_not_zero(tree: Tree):
    assert (tree.quota(), tree.limit(), tree.kills()) == (None, None, None)
    tree.belongs("0::/\n")
    tree.write("cpu.max", "max 100000\n")
    tree.write("memory.max", "max\n")
    assert (tree.quota(), tree.limit(), tree.kills()) == (None, None, None)
