"""Collectives: times computed by hand, properties, and agreement with measurements."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshes.collectives import CollectiveKind
from meshes.collectives import collective_time_s
from meshes.collectives import sent_bytes
from meshes.hardware import CHIPS
from meshes.hardware import chip
from meshes.subtorus import Dim
from meshes.subtorus import SubTorus

pytestmark = pytest.mark.fast

KINDS = get_args(CollectiveKind)
ICI = sorted(name for name, entry in CHIPS.items() if entry.ici_link_bytes_per_s)
DCN = sorted(name for name, entry in CHIPS.items() if entry.dcn_bytes_per_s)
MIB = 2**20


def ici(kind, payload_bytes, group_size, name, wrap=True, dims=None) -> float:
    """Returns the time over a group of one dim or of `dims`, all rings or lines."""
    lengths = enumerate(dims or (group_size,))
    return collective_time_s(
        kind,
        payload_bytes=payload_bytes,
        group_size=group_size,
        chip=chip(name),
        network="ici",
        place=SubTorus(tuple(Dim(dim, length, 1, wrap) for dim, length in lengths)),
    )


def dcn(kind, payload_bytes, group_size, name) -> float:
    return collective_time_s(
        kind,
        payload_bytes=payload_bytes,
        group_size=group_size,
        chip=chip(name),
        network="dcn",
    )


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("all_reduce", 2 * 3 / 4 * 1000),
        ("all_gather", 3 / 4 * 1000),
        ("reduce_scatter", 3 / 4 * 1000),
        ("all_to_all", 3 / 4 * 250),
        ("permute", 250),
        ("send_recv", 250),
    ],
)
def test_bytes_that_one_of_four_devices_sends(kind, sent) -> None:
    assert sent_bytes(kind, 1000, 4) == sent
    assert sent_bytes(kind, 1000, 1) == 0


# v5e: W = 45e9 bytes/s a link one way, α = 1 µs. 720 MB are 90 MB each over 8.
@pytest.mark.parametrize(
    ("kind", "n", "wrap", "seconds"),
    [
        ("all_gather", 16, True, 720e6 * 15 / 16 / 90e9),  # 7.5 ms
        ("all_gather", 8, False, 720e6 * 7 / 8 / 45e9),  # 14 ms
        ("all_gather", 2, False, 720e6 / 2 / 45e9),  # one link
        ("reduce_scatter", 16, True, 7.5e-3),
        ("all_reduce", 16, True, 15e-3),
        ("all_reduce", 8, False, 28e-3),
        ("all_to_all", 16, True, 720e6 / (8 * 45e9)),  # 2 ms
        ("all_to_all", 8, False, 720e6 / (4 * 45e9)),  # 4 ms
        ("permute", 16, True, 1e-6 + 45e6 / 45e9),
        ("permute", 8, False, 7e-6 + 90e6 / 45e9),
    ],
)
def test_one_torus_dim_by_hand(kind, n, wrap, seconds) -> None:
    assert ici(kind, 720e6, n, "v5e", wrap) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("kind", "wrap", "seconds"),
    [
        ("all_gather", True, 8e-6),
        ("all_reduce", True, 16e-6),
        ("all_gather", False, 15e-6),
        ("all_to_all", True, 8e-6),
    ],
)
def test_small_messages_on_a_torus_cost_their_hops(kind, wrap, seconds) -> None:
    assert ici(kind, 16, 16, "v5e", wrap) == pytest.approx(seconds)


def test_scaling_book_questions() -> None:
    # sharding.md, questions 2 and 3: bf16[1024, 4096] on v4 4x4x4, sharded over x and
    # y. Its answers leave out the factor (n−1)/n.
    v = 2 * 1024 * 4096
    over_x = ici("all_gather", v / 4, 4, "v4")
    assert over_x == pytest.approx(23e-6 * 3 / 4, rel=0.02)
    over_both = ici("all_gather", v, 16, "v4", True, (4, 4))
    assert over_both == pytest.approx(46e-6 * 15 / 16, rel=0.02)
    assert ici("all_gather", 256, 4, "v4") == pytest.approx(2e-6)
    assert ici("all_to_all", v, 16, "v4") == pytest.approx(v / 9e10 / 4)


def test_several_torus_dims_share_the_work() -> None:
    # v5p 4x4x4, all 64 chips: three rings of 2·90e9 bytes/s.
    assert ici("all_gather", 5.4e9, 64, "v5p", True, (4, 4, 4)) == pytest.approx(
        5.4e9 * 63 / 64 / 540e9
    )
    assert ici("all_gather", 1, 64, "v5p", True, (4, 4, 4)) == pytest.approx(
        3 * 2 * 1e-6
    )
    assert ici("all_gather", 1, 64, "v5p", False, (4, 4, 4)) == pytest.approx(
        3 * 3 * 1e-6
    )
    # A 4x16 slice takes 2 + 8 hops.
    assert ici("all_gather", 1, 64, "v5e", True, (4, 16)) == pytest.approx(10e-6)
    # All-to-all: half of the data crosses the middle of a dim of 4.
    assert ici("all_to_all", 720e6, 64, "v5p", True, (4, 4, 4)) == pytest.approx(
        720e6 / 64 * 4 / (8 * 90e9)
    )


def test_two_devices_of_a_chip_share_its_links() -> None:
    assert ici("all_gather", 1e9, 4, "v7x") == pytest.approx(1e9 * 3 / 4 / 90e9)


def test_switch_by_hand() -> None:
    # H100: 18 links of 20.6e9 = 370.8e9 bytes/s; 3.4 µs a ring step.
    w = 370.8e9
    assert ici("all_gather", 8e9, 8, "h100-sxm") == pytest.approx(7e9 / w + 7 * 3.4e-6)
    assert ici("all_to_all", 8e9, 8, "h100-sxm") == pytest.approx(
        7e9 / 8 / w + 7 * 3.4e-6
    )
    assert ici("permute", 8e9, 8, "h100-sxm") == pytest.approx(1e9 / w + 3.4e-6)


@pytest.mark.parametrize(
    ("payload_bytes", "bus_bytes_per_s"),
    [(16 * 2**30, 367.6e9), (4 * MIB, 107e9), (MIB, 40e9), (32 * 2**10, 1.44e9)],
)
def test_switch_against_a_measured_ring(payload_bytes, bus_bytes_per_s) -> None:
    # stas00/ml-engineering network/README.md: all-reduce over 8 H200, ring; the bus
    # bandwidth is 2(n−1)/n of the payload over the time.
    measured = sent_bytes("all_reduce", payload_bytes, 8) / bus_bytes_per_s
    assert ici("all_reduce", payload_bytes, 8, "h200") == pytest.approx(
        measured, rel=0.25
    )


def test_between_slices_by_hand() -> None:
    # v5e: 3.125e9 bytes/s a chip; 50 µs a phase.
    assert dcn("all_reduce", 1e9, 2, "v5e") == pytest.approx(1e9 / 3.125e9 + 100e-6)
    assert dcn("all_reduce", 1e9, 4, "v5e") == pytest.approx(1.5e9 / 3.125e9 + 100e-6)
    # v7x: two devices share 12.5e9.
    assert dcn("all_gather", 1e9, 2, "v7x") == pytest.approx(0.5e9 / 6.25e9 + 50e-6)
    # NCCL on H100: a ring over 4 domains takes 3 steps of 14 µs.
    assert dcn("all_gather", 1e9, 4, "h100-sxm") == pytest.approx(
        0.75e9 / 50e9 + 3 * 14e-6
    )


def test_devices_of_a_cpu_process_exchange_through_memory() -> None:
    measured = chip("cpu").model_copy(update={"hbm_bytes_per_s": 10e9})
    seconds = collective_time_s(
        "all_gather", payload_bytes=1e9, group_size=2, chip=measured, network="ici"
    )
    assert seconds == pytest.approx(0.5e9 * 2 / 10e9)


NETWORKS = st.sampled_from([("ici", name) for name in ICI] + [("dcn", n) for n in DCN])


def any_time(network: str, name: str, kind, v: float, n: int, wrap: bool, k: int):
    if network == "dcn":
        return dcn(kind, v, n, name)
    return ici(kind, v, n, name, wrap, (n,) * k)


@given(
    NETWORKS,
    st.sampled_from(KINDS),
    st.tuples(st.floats(0, 1e12), st.floats(0, 1e12)),
    st.sampled_from([2, 4, 8, 64]),
    st.booleans(),
    st.sampled_from([1, 2, 3]),
)
def test_more_bytes_never_take_less(where, kind, payloads, n, wrap, k) -> None:
    less, more = sorted(payloads)
    times = [any_time(*where, kind, v, n, wrap, k) for v in (less, more)]
    assert 0 < times[0] <= times[1]
    assert all(map(math.isfinite, times))


@given(
    NETWORKS,
    st.floats(0, 1e12),
    st.sampled_from([1, 2, 4, 8, 64]),
    st.booleans(),
    st.sampled_from([1, 2, 3]),
)
def test_all_reduce_is_scatter_and_gather(where, v, n, wrap, k) -> None:
    gather = any_time(*where, "all_gather", v, n, wrap, k)
    assert any_time(*where, "reduce_scatter", v, n, wrap, k) == gather
    assert any_time(*where, "all_reduce", v, n, wrap, k) == pytest.approx(2 * gather)


@given(NETWORKS, st.sampled_from(KINDS), st.floats(0, 1e12), st.booleans())
def test_a_group_of_one_costs_nothing(where, kind, v, wrap) -> None:
    assert any_time(*where, kind, v, 1, wrap, 1) == 0


@given(st.sampled_from(KINDS), st.floats(0, 1e12), st.integers(2, 64))
def test_a_ring_is_never_slower_than_a_line(kind, v, n) -> None:
    assert ici(kind, v, n, "v5e", True) <= ici(kind, v, n, "v5e", False)


@pytest.mark.parametrize("name", ICI)
@given(v=st.floats(1, 1e12), n=st.integers(2, 64))
def test_nothing_beats_the_bytes_over_all_links(name, v, n) -> None:
    entry = chip(name)
    assert entry.ici_links is not None
    assert entry.ici_link_bytes_per_s is not None
    fastest = sent_bytes("all_gather", v, n) / (
        entry.ici_links * entry.ici_link_bytes_per_s
    )
    for k in range(1, (entry.torus_dims or 1) + 1):
        assert ici("all_gather", v, n, name, True, (n,) * k) >= fastest * (1 - 1e-9)


def test_what_is_unknown_is_an_error_and_not_zero() -> None:
    with pytest.raises(ValueError, match="ici_link_bytes_per_s of chip 'v2'"):
        ici("all_gather", 1e6, 4, "v2")
    with pytest.raises(ValueError, match="dcn_bytes_per_s of chip 'h100-pcie'"):
        dcn("all_gather", 1e6, 4, "h100-pcie")
    with pytest.raises(ValueError, match=r"hbm_bytes_per_s of chip 'cpu'.*calibrate"):
        ici("all_gather", 1e6, 4, "cpu")
    with pytest.raises(ValueError, match=r"dcn_bytes_per_s of chip 'cpu'.*calibrate"):
        dcn("all_gather", 1e6, 4, "cpu")


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown collective 'psum'; choose from all_"):
        ici("psum", 1e6, 4, "v5e")
    with pytest.raises(ValueError, match="at least one participant"):
        sent_bytes("all_gather", 1e6, 0)
    with pytest.raises(ValueError, match="0 bytes or more"):
        sent_bytes("all_gather", -1, 2)
    with pytest.raises(ValueError, match="needs the group's place"):
        collective_time_s(
            "all_gather",
            payload_bytes=1,
            group_size=4,
            chip=chip("v5e"),
            network="ici",
        )
