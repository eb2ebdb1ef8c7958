"""Resident memory of process groups, from planted files and of a real process."""

import os
import resource
import subprocess
import sys
from pathlib import Path

from experiments.resident import peak_host_bytes
from experiments.resident import resident_bytes

PAGE = os.sysconf("SC_PAGE_SIZE")


def plant(proc: Path, pid: int, name: str, group: int, pages: int) -> None:
    (proc / str(pid)).mkdir()
    fields = ["S", "1", str(group), *["0"] * 18, str(pages), "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def test_all_processes_of_the_groups_are_added(tmp_path: Path):
    plant(tmp_path, 7, "python", 7, 100)
    plant(tmp_path, 8, "a (strange) S name", 7, 10)
    plant(tmp_path, 9, "python", 9, 5)
    plant(tmp_path, 10, "python", 10, 1000)
    (tmp_path / "11").mkdir()
    assert resident_bytes({7, 9}, tmp_path) == 115 * PAGE
    assert resident_bytes({11}, tmp_path) == 0
    assert resident_bytes({7}, tmp_path / "nothing") == 0


def test_what_a_child_holds_is_seen():
    program = "x = bytearray(10**8); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        held = resident_bytes({child.pid})
        child.stdin.write(b"\n")
        child.stdin.close()
    assert 10**8 < held < 2 * 10**8


def test_peak_host_bytes_are_bytes():
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    assert peak_host_bytes() >= 0.9 * resident * resource.getpagesize()
