"""What the compilers call slices: names that libtpu and XLA take."""

import re

import pytest

from meshes.hardware import CHIPS
from meshes.hardware import chip
from meshes.targets import GPU_TARGETS
from meshes.targets import target

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("name", "shape", "slices", "topology", "options"),
    [
        ("v5e", (4, 4), 1, "v5e:4x4", {}),
        ("v5p", (4, 4, 8), 2, "v5p:4x4x8", {"num_slices": 2}),
        ("v4", (2, 2, 4), 1, "v4:2x2x4", {"chip_config_name": "megacore"}),
        ("v7x", (2, 2, 1), 1, "tpu7x:2x2x1", {}),
    ],
)
def test_a_tpu_slice_has_the_compilers_name(name, shape, slices, topology, options):
    found = target(chip(name), shape, slices)
    assert (found.platform, found.topology_name) == ("tpu", topology)
    assert found.options == options


def test_gpus_are_slices_of_one_nvlink_domain_each():
    found = target(chip("h100-sxm"), (8,), 4)
    assert found.platform == "cuda"
    assert found.options["topology"] == "4x1x8"
    config = str(found.options["target_config"])
    assert "core_count: 132" in config
    assert "cuda_compute_capability { major: 9 minor: 0 }" in config
    assert config.count("{") == config.count("}")


def test_a_gpu_target_has_the_memory_of_the_table_of_chips():
    for each in GPU_TARGETS:
        known = CHIPS[each.chip]
        assert each.device_memory_size == known.available_hbm_bytes_per_device
        assert each.name in known.device_kinds
        assert known.hbm_bytes_per_s is not None
        assert each.memory_bandwidth == pytest.approx(known.hbm_bytes_per_s, rel=0.05)


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("v5e", (3, 3), "v5e has no slice 3x3; the nearest have 8 or 16"),
        ("b200", (16,), "no b200 slice has 16 chips: NVLink joins 8"),
        ("h100-pcie", (1,), "XLA describes no 'h100-pcie'; it does a100-40"),
        ("cpu", (2,), "chip 'cpu' is here wherever this runs"),
    ],
)
def test_what_no_compiler_takes_is_a_sentence(name, shape, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        target(chip(name), shape, 1)
