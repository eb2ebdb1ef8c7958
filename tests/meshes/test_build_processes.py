"""Build over two real processes of four CPU devices, joined by gloo on loopback."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

SCRIPT = Path(__file__).with_name("two_processes.py")
ROOT = Path(__file__).parents[2]
LIMIT_S = 120


@pytest.mark.parametrize(
    ("text", "along_fsdp"),
    [("data=2/fsdp=2,tensor=2", None), ("fsdp=2/fsdp=2,tensor=2", [0, 0, 1, 1])],
)
def test_the_dcn_axis_is_the_process_boundary(text, along_fsdp) -> None:
    first, second = _run(text)
    assert first == second
    # 2·2·2 devices with the outermost axis first: process 0, then process 1.
    assert first["processes"] == [0, 0, 0, 0, 1, 1, 1, 1]
    if along_fsdp:
        assert first["shape"]["fsdp"] == 4
        assert first["processes"][::2] == along_fsdp
    else:
        assert first["shape"]["data"] == 2
    assert first["total"] == 28.0
    # What JAX says of such devices: one slice, and ids with a gap.
    assert first["slices"] == [0]
    assert first["ids"] != list(range(8))
    assert "slices: 1 " in first["refused"]
    assert "found: 2 (by process_index)" in first["refused"]


def _run(text: str) -> list[dict]:
    port = _free_port()
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(port), str(index), text],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=LIMIT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-2000:]
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
