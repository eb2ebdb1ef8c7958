"""Build: meshes over the CPU devices of this process and over lists of fake devices."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AxisType
from jax.sharding import PartitionSpec

from meshes.build import build_mesh
from meshes.build import device_array
from meshes.build import named_sharding
from meshes.spec import AXES
from meshes.spec import MeshSpec
from meshes.spec import enumerate_meshes

pytestmark = pytest.mark.fast


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """What mesh building reads of a device; ids are left out on purpose."""

    platform: str
    device_kind: str
    process_index: int
    slice_index: int = 0
    coords: tuple[int, int, int] = (0, 0, 0)
    core_on_chip: int = 0


def tpu(kind: str, shape: tuple[int, int, int], *, slices: int = 1, cores: int = 1):
    """Returns the devices of `slices` slices, hosts of 2x2x1 chips, as JAX does."""
    return [
        Device(
            platform="tpu",
            device_kind=kind,
            process_index=(s * 1000 + z * 100 + (y // 2) * 10 + x // 2),
            slice_index=s,
            coords=(x, y, z),
            core_on_chip=core,
        )
        for s in range(slices)
        for z, y, x in itertools.product(*map(range, reversed(shape)))
        for core in range(cores)
    ]


def gpus(processes: list[int], domains: list[int]) -> list[Device]:
    return [
        Device(
            platform="gpu",
            device_kind="NVIDIA H100 80GB HBM3",
            process_index=process,
            slice_index=domain,
        )
        for process, domain in zip(processes, domains, strict=True)
    ]


def cpus(processes: list[int]) -> list[Device]:
    return [
        Device(platform="cpu", device_kind="cpu", process_index=process)
        for process in processes
    ]


def layout(spec: str, devices: list[Device]) -> np.ndarray:
    array = device_array(MeshSpec.parse(spec), devices)
    assert {id(device) for device in array.flat} == {id(device) for device in devices}
    assert array.size == len(devices)
    return array


def index_along(axis: str, array: np.ndarray, position: int) -> np.ndarray:
    return array.take(position, axis=AXES.index(axis)).ravel()


@pytest.mark.parametrize("spec", [*enumerate_meshes(devices_per_slice=8)], ids=str)
def test_any_mesh_of_eight_cpu_devices(spec: MeshSpec) -> None:
    mesh = build_mesh(spec)
    assert mesh.axis_names == AXES
    assert mesh.shape == {axis: spec.size(axis) for axis in AXES}
    assert set(mesh.axis_types) == {AxisType.Auto}
    assert list(mesh.devices.flat) == jax.devices()


def test_wrong_counts_name_both_numbers() -> None:
    with pytest.raises(ValueError, match="1/fsdp=4 needs 4 devices and 8 are"):
        build_mesh(MeshSpec.parse("1/fsdp=4"))
    with pytest.raises(ValueError, match="1/fsdp=16 needs 16 devices and 8 are"):
        build_mesh(MeshSpec.parse("1/fsdp=16"))
    with pytest.raises(ValueError, match="needs 8 devices and 4 are"):
        build_mesh(MeshSpec.parse("1/fsdp=8"), jax.devices()[:4])
    # One process is one slice, however many devices it simulates.
    with pytest.raises(ValueError, match=r"slices: 2 \(the product.*found: 1 \(by pro"):
        build_mesh(MeshSpec.parse("data=2/fsdp=4"))


def test_a_mesh_takes_the_devices_it_is_given() -> None:
    chosen = jax.devices()[4:]
    mesh = build_mesh(MeshSpec.parse("1/fsdp=4"), chosen)
    assert list(mesh.devices.flat) == chosen


def test_shards_land_where_the_rules_say() -> None:
    mesh = build_mesh(MeshSpec.parse("1/fsdp=4,tensor=2"))
    sharding = named_sharding(mesh, ("layers", "embed", "mlp"))
    assert sharding.spec == PartitionSpec(None, ("fsdp",), ("tensor",))
    array = jax.device_put(np.arange(2 * 8 * 6).reshape(2, 8, 6), sharding)
    assert {shard.data.shape for shard in array.addressable_shards} == {(2, 2, 3)}
    assert len({str(shard.index) for shard in array.addressable_shards}) == 8
    whole = jax.device_put(jnp.zeros(()), named_sharding(mesh, ()))
    assert whole.is_fully_replicated
    assert len(whole.addressable_shards) == 8


def test_a_step_under_the_mesh_computes_what_one_device_does() -> None:
    mesh = build_mesh(MeshSpec.parse("1/data=2,fsdp=2,tensor=2"))
    x, w = np.arange(32.0).reshape(8, 4), np.arange(24.0).reshape(4, 6)
    with jax.set_mesh(mesh):
        product = jax.jit(
            jnp.matmul, out_shardings=named_sharding(mesh, ("batch", "mlp"))
        )(
            jax.device_put(x, named_sharding(mesh, ("batch", "whole"))),
            jax.device_put(w, named_sharding(mesh, ("embed", "mlp"))),
        )
    assert {shard.data.shape for shard in product.addressable_shards} == {(2, 3)}
    np.testing.assert_allclose(product, x @ w)


def test_no_named_sharding_for_unknown_dims() -> None:
    mesh = build_mesh(MeshSpec.parse("1/fsdp=8"))
    with pytest.raises(ValueError, match="unknown logical axis 'embd'"):
        named_sharding(mesh, ("embd",))


def test_cpu_processes_are_slices() -> None:
    array = layout("data=2/fsdp=2,tensor=2", cpus([0, 0, 0, 0, 1, 1, 1, 1]))
    for process in (0, 1):
        members = index_along("data", array, process)
        assert {device.process_index for device in members} == {process}
    with pytest.raises(ValueError, match=r"slices: 1 .*found: 2 \(by process_index\)"):
        layout("1/fsdp=8", cpus([0, 0, 0, 0, 1, 1, 1, 1]))


def test_the_order_of_the_list_does_not_mix_slices() -> None:
    array = layout("data=2/fsdp=4", cpus([1, 0, 0, 1, 1, 0, 1, 0]))
    assert [d.process_index for d in index_along("data", array, 0)] == [0] * 4


def test_slices_of_unequal_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"4 devices in each slice; found 3, 5"):
        layout("data=2/fsdp=4", cpus([0, 0, 0, 1, 1, 1, 1, 1]))


def test_an_axis_on_both_networks_is_dcn_outside_ici() -> None:
    array = layout("fsdp=2/fsdp=2,tensor=2", cpus([0, 0, 0, 0, 1, 1, 1, 1]))
    assert array.shape == (1, 4, 1, 1, 1, 2)
    owners = [
        {d.process_index for d in index_along("fsdp", array, i)} for i in range(4)
    ]
    assert owners == [{0}, {0}, {1}, {1}]


@given(st.sampled_from(list(enumerate_meshes(devices_per_slice=4, num_slices=4))))
def test_only_the_dcn_part_of_an_axis_leaves_a_slice(spec: MeshSpec) -> None:
    array = layout(str(spec), cpus([p for p in range(4) for _ in range(4)]))
    assert array.shape == tuple(spec.size(axis) for axis in AXES)
    for dim, axis in enumerate(AXES):
        inner = spec.size(axis, "ici")
        lines = np.moveaxis(array, dim, -1).reshape(-1, spec.size(axis, "dcn"), inner)
        for line in lines:
            # Neighbours within `inner` share a process; all processes differ outside.
            slices = [{device.process_index for device in part} for part in line]
            assert all(len(part) == 1 for part in slices)
            assert len(set.union(*slices)) == spec.size(axis, "dcn")


@pytest.mark.parametrize("processes", [[0] * 8, list(range(8)), [0] * 4 + [1] * 4])
def test_gpus_of_one_nvlink_domain_are_one_slice(processes) -> None:
    array = layout("1/fsdp=8", gpus(processes, [0] * 8))
    assert array.shape == (1, 8, 1, 1, 1, 1)


def test_gpus_of_two_domains_with_a_process_each() -> None:
    devices = gpus(list(range(8)), [0, 0, 0, 0, 1, 1, 1, 1])
    array = layout("data=2/fsdp=4", devices)
    for domain in (0, 1):
        members = index_along("data", array, domain)
        assert {device.slice_index for device in members} == {domain}
    with pytest.raises(ValueError, match=r"slices: 4 .*found: 2 \(by slice_index\)"):
        layout("data=4/fsdp=2", devices)
    with pytest.raises(ValueError, match=r"slices: 1 .*found: 2"):
        layout("1/fsdp=8", devices)


def test_processes_divide_one_nvlink_domain_where_slices_are_asked_for() -> None:
    array = layout("data=2/fsdp=4", gpus([0] * 4 + [1] * 4, [0] * 8))
    assert {d.process_index for d in index_along("data", array, 1)} == {1}
    with pytest.raises(ValueError, match=r"slices: 4 .*found: 2 \(by process_index\)"):
        layout("data=4/fsdp=2", gpus([0] * 4 + [1] * 4, [0] * 8))


def test_tpu_slices_are_told_by_slice_index_not_by_process() -> None:
    devices = tpu("TPU v5 lite", (4, 4, 1), slices=2)
    assert len({device.process_index for device in devices}) == 8
    array = layout("data=2/fsdp=16", devices[::-1])
    for index in (0, 1):
        members = index_along("data", array, index)
        assert {device.slice_index for device in members} == {index}
    with pytest.raises(ValueError, match=r"slices: 4 .*found: 2 \(by slice_index\)"):
        layout("data=4/fsdp=8", devices)


def _hops(array: np.ndarray, axis: str) -> set[int]:
    """Returns the torus hops between neighbours along an axis, without wrap-around."""
    lines = np.moveaxis(array, AXES.index(axis), -1).reshape(-1, array.shape[1])
    return {
        sum(abs(p - q) for p, q in zip(a.coords, b.coords, strict=True))
        for line in lines
        for a, b in itertools.pairwise(line)
    }


def test_mesh_axes_follow_the_torus() -> None:
    array = layout("1/fsdp=16,tensor=16", tpu("TPU v5 lite", (16, 16, 1)))
    swapped = np.moveaxis(array, AXES.index("tensor"), 1)
    assert _hops(array, "fsdp") == {1}
    assert _hops(swapped, "fsdp") == {1}


def test_one_axis_over_a_small_slice_is_a_ring_of_neighbours() -> None:
    array = layout("1/fsdp=16", tpu("TPU v5 lite", (4, 4, 1)))
    assert _hops(array, "fsdp") == {1}


@pytest.mark.parametrize("spec", ["1/data=2,fsdp=8", "1/data=2,fsdp=2,tensor=4"])
def test_a_torus_dim_is_split_rather_than_the_mesh_refused(spec) -> None:
    layout(spec, tpu("TPU v5 lite", (4, 4, 1)))


def test_both_cores_of_a_chip_lie_on_the_innermost_axis() -> None:
    array = layout("1/fsdp=64,tensor=2", tpu("TPU7x", (4, 4, 4), cores=2))
    pairs = np.moveaxis(array, AXES.index("tensor"), -1).reshape(-1, 2)
    assert all(a.coords == b.coords for a, b in pairs)


@pytest.mark.parametrize("spec", ["1/fsdp=8", "1/fsdp=4,tensor=2"])
def test_cores_of_the_first_generations(spec) -> None:
    layout(spec, tpu("TPU v3", (2, 2, 1), cores=2))


def test_a_slice_with_holes_is_refused_in_one_sentence() -> None:
    scattered = tpu("TPU v4", (4, 4, 1))[:3] + tpu("TPU v4", (4, 4, 1))[8:9]
    with pytest.raises(ValueError, match="are not all cores of all chips of a box"):
        layout("1/fsdp=4", scattered)
