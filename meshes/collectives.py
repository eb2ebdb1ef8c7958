"""Collectives: how long one takes on a torus, a switch, or between slices.

Symbols, as in the sources: `n` participants, `V` bytes of the full logical array,
`S = V/n` each one's part, `W` one-way bytes/s of one link, `α` latency of one step,
`k` links of one chip, each way, over which its group can send.
"""

from typing import Literal
from typing import get_args

from meshes.chip import Chip
from meshes.spec import Network
from meshes.subtorus import SubTorus

CollectiveKind = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "send_recv"
]


def sent_bytes(kind: CollectiveKind, payload_bytes: float, group_size: int) -> float:
    """Returns the bytes that one device sends, of a full array of `payload_bytes`.

    all-reduce 2(n−1)/n·V, all-gather and reduce-scatter (n−1)/n·V, all-to-all
    (n−1)/n·S, permute and send/receive S. Source: NVIDIA/nccl-tests PERFORMANCE.md
    (the bus-bandwidth factors).
    """
    _check(kind, payload_bytes, group_size)
    v, n = payload_bytes, group_size
    if n == 1:
        return 0.0
    if kind in ("permute", "send_recv"):
        return v / n
    share = v / n if kind == "all_to_all" else v
    return _phases(kind) * share * (n - 1) / n


def collective_time_s(
    kind: CollectiveKind,
    *,
    payload_bytes: float,
    group_size: int,
    chip: Chip,
    network: Network,
    place: SubTorus | None = None,
) -> float:
    """Returns the seconds of one collective, alone on its network.

    `place` says where the group lies on the torus of its slice; it has no meaning off a
    torus. A latency that is unknown leaves the
    bandwidth term alone, a lower bound; raises ValueError where the bandwidth is
    unknown. A group of one costs nothing.
    """
    _check(kind, payload_bytes, group_size)
    v, n = payload_bytes, group_size
    if n == 1:
        return 0.0
    if network == "dcn":
        return _between_slices_s(kind, v, n, chip)
    if chip.torus_dims is None:
        return _switch_s(kind, v, n, chip)
    if place is None:
        raise ValueError(f"{kind} on the torus of {chip.name} needs the group's place")
    return _torus_s(kind, v, n, chip, place)


def _torus_s(
    kind: CollectiveKind, v: float, n: int, chip: Chip, place: SubTorus
) -> float:
    """Returns the time on the torus dims of `place`, rings and lines.

    all-gather max(α·hops, V(n−1)/n / Wk), reduce-scatter the same, all-reduce both;
    all-to-all S·d/4W with d members a link along the dim that is slowest to cross: half
    of the data passes its middle. Permute by one: α·hops + S/W, where on a line the
    last message travels back all the way. Source: jax-ml/scaling-book sharding.md (T =
    max(T_min·Σ|Xᵢ|/2, V/(W·n_axes)), all-to-all a quarter of an all-gather). Of dims
    that differ each carries its share, so this is a lower bound.
    """
    # The devices of one chip share its links.
    w = _known(chip, "ici_link_bytes_per_s") / chip.devices_per_chip
    alpha = chip.hop_latency_s or 0.0
    if kind in ("permute", "send_recv"):
        return alpha * place.closing_hops + v / n / w
    if kind == "all_to_all":
        return max(alpha * place.hops, v / n * place.crossing / (4 * w))
    gather = max(alpha * place.hops, v * (n - 1) / n / (place.links * w))
    return _phases(kind) * gather


def _switch_s(kind: CollectiveKind, v: float, n: int, chip: Chip) -> float:
    """Returns the time through a switch that gives each device its full rate W.

    all-gather α(n−1) + V(n−1)/(n·W), reduce-scatter the same, all-reduce both;
    all-to-all V(n−1)/(n²·W); permute α + S/W. Sources: jax-ml/scaling-book gpus.md
    for the bandwidth term, NVIDIA/nccl src/graph/tuning.cc for n−1 ring steps added
    to it. On CPU the switch is the shared memory: each byte is read and written.
    """
    if chip.platform == "cpu":
        w = _known(chip, "hbm_bytes_per_s") / chip.devices_per_chip / 2
    else:
        w = _known(chip, "ici_link_bytes_per_s") * _known(chip, "ici_links")
    alpha = chip.hop_latency_s or 0.0
    return _steps(kind, n) * alpha + sent_bytes(kind, v, n) / w


def _between_slices_s(kind: CollectiveKind, v: float, n: int, chip: Chip) -> float:
    """Returns the time between n slices, each device talking to its counterparts.

    all-gather α·steps + V(n−1)/n / W_dcn per device, reduce-scatter the same,
    all-reduce both: V·2(n−1)/n / W_dcn. One step a phase on TPU, where megascale
    sends to all slices at once; a ring of n−1 on GPU (NCCL) and CPU (gloo). Source:
    jax-ml/scaling-book tpus.md for W_dcn, training.md for the equation.
    """
    w = _known(chip, "dcn_bytes_per_s") / chip.devices_per_chip
    alpha = chip.dcn_latency_s or 0.0
    steps = _phases(kind) if chip.platform == "tpu" else _steps(kind, n)
    return steps * alpha + sent_bytes(kind, v, n) / w


def _phases(kind: CollectiveKind) -> int:
    """An all-reduce is a reduce-scatter and an all-gather; all others are one phase."""
    return 2 if kind == "all_reduce" else 1


def _steps(kind: CollectiveKind, n: int) -> int:
    """Returns the steps of a ring of n, one where a message is sent once."""
    return 1 if kind in ("permute", "send_recv") else _phases(kind) * (n - 1)


def _known(chip: Chip, field: str) -> float:
    value: float | None = getattr(chip, field)
    if value is None:
        cure = (
            "run `scaling calibrate`"
            if chip.platform == "cpu"
            else "no source gives it, so no time is predicted"
        )
        raise ValueError(f"{field} of chip {chip.name!r} is unknown; {cure}")
    return value


def _check(kind: str, payload_bytes: float, group_size: int) -> None:
    if kind not in get_args(CollectiveKind):
        names = ", ".join(get_args(CollectiveKind))
        raise ValueError(f"unknown collective {kind!r}; choose from {names}")
    if payload_bytes < 0 or group_size < 1:
        raise ValueError(
            f"{kind} of {payload_bytes} bytes over {group_size} participants; it "
            "takes 0 bytes or more and at least one participant"
        )
