"""What the processes of a run are given, for each platform."""

import socket
from collections.abc import Mapping

import pytest

from experiments.launch import local
from meshes.spec import MeshSpec
from scaling.point import Point


def point(chip: str, mesh: str) -> Point:
    return Point(
        model="tiny",
        chip=chip,
        mesh=MeshSpec.parse(mesh),
        global_batch_size=16,
        seq_len=64,
    )


USER = {"PATH": "/bin", "XLA_FLAGS": "--mine", "JAX_ENABLE_X64": "1"}


@pytest.mark.parametrize(
    ("chip", "platform"), [("v5e", "tpu"), ("h100-sxm", "cuda"), ("cpu", "cpu")]
)
def test_the_platform_is_the_chip_s_and_the_user_s_flags_stay(chip: str, platform: str):
    environ = local.worker_environ(point(chip, "1/data=4"), mark="here:1", environ=USER)
    assert environ["JAX_PLATFORMS"] == platform
    assert environ["SCALING_RUN"] == "here:1"
    assert environ.items() >= USER.items()


def test_only_on_cpu_the_runner_says_how_many_devices_a_process_has():
    user = {**USER, "JAX_NUM_CPU_DEVICES": "8"}
    horizontal = local.worker_environ(
        point("cpu", "data=2/data=3"), mark="", environ=user
    )
    assert horizontal["JAX_NUM_CPU_DEVICES"] == "3"
    tpu = local.worker_environ(point("v5e", "1/data=4"), mark="", environ=user)
    assert "JAX_NUM_CPU_DEVICES" not in tpu


@pytest.mark.parametrize(
    ("environ", "replaced"),
    [
        ({}, {}),
        ({"JAX_PLATFORMS": "cpu"}, {}),
        ({"JAX_PLATFORMS": "cuda"}, {"JAX_PLATFORMS": "cuda"}),
        ({"JAX_NUM_CPU_DEVICES": "2"}, {"JAX_NUM_CPU_DEVICES": "2"}),
    ],
)
def test_a_variable_is_named_where_some_worker_does_not_get_it(
    environ: Mapping[str, str], replaced: Mapping[str, str]
):
    points = [point("cpu", "1/data=2"), point("cpu", "1/data=4")]
    assert local.replaced_variables(points, environ) == replaced


@pytest.mark.parametrize(
    ("chip", "mesh", "can"),
    [
        ("cpu", "data=4/data=2", True),
        ("v5e", "1/fsdp=8", True),
        ("h100-sxm", "1/fsdp=8", True),
        ("v5e", "data=2/fsdp=8", False),
        ("h100-sxm", "data=2/fsdp=8", False),
    ],
)
def test_several_slices_are_started_on_cpu_only(chip: str, mesh: str, can: bool):
    assert (local.why_not(point(chip, mesh)) is None) is can


def test_a_free_port_can_be_bound():
    # Another program may take one before it is bound; hardly each of twenty.
    assert any(_can_be_bound(local.free_port()) for _ in range(20))


def _can_be_bound(port: int) -> bool:
    assert port > 0
    with socket.socket() as server:
        try:
            server.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
