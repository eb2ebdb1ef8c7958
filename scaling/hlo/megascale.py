"""Megascale: transfers between TPU slices, which the text shows as sends to the host.

The host runs the collective over the data-centre network. A target names slices from
1 on: `"{1,2}x{0:15}"`, or, where not all take part together, groups of ids that are
100,000 × slice + device.
"""

import re

from meshes.collectives import CollectiveKind
from meshes.spec import MeshSpec
from scaling.hlo.groups import Groups
from scaling.hlo.module import Computation
from scaling.hlo.module import Instruction
from scaling.hlo.spans import Span
from scaling.hlo.spans import span_of_groups
from scaling.hlo.spans import span_of_pairs

KINDS: dict[str, CollectiveKind] = {
    "ALL_GATHER": "all_gather",
    "ALL_REDUCE": "all_reduce",
    "ALL_TO_ALL": "all_to_all",
    "COLLECTIVE_PERMUTE": "permute",
    "ONE_TO_ONE": "permute",
    "REDUCE_SCATTER": "reduce_scatter",
}
_DEVICES_OF_SLICE = 100_000
_TARGET = re.compile(r"_xla_megascale_target=(\{\{[\d,{}]*\}\}|\"[^\"]*\")")
_RENDEZVOUS = re.compile(r'_xla_host_transfer_rendezvous="([^"]*)"')


def is_transfer(it: Instruction) -> bool:
    """Returns whether a send goes to another slice rather than to the host itself."""
    return "_xla_megascale_transfer_type=" in it.attributes


def kind(it: Instruction) -> CollectiveKind:
    """Returns the kind of a transfer; raises ValueError for one that is unknown."""
    name = it.attribute("_xla_megascale_transfer_type") or ""
    if name not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError(
            f"send {it.name!r} transfers {name!r}, which is none of {known}"
        )
    return KINDS[name]


def span(it: Instruction, mesh: MeshSpec) -> Span:
    """Returns the axes across slices that a transfer joins."""
    slices = MeshSpec(ici=mesh.dcn)
    groups = _slice_groups(it)
    if kind(it) == "permute":
        found = span_of_pairs(tuple((a, b) for a, b in groups), slices)
    else:
        found = span_of_groups(groups, slices)
    return Span(found.axes, 1, found.size)


def ends(computation: Computation) -> dict[str, int]:
    """Returns where the result of each send is waited for, by the send's name.

    A receive under the same name brings it. One past the end where this computation
    never waits.
    """
    joined: dict[str, list[Instruction]] = {}
    for it in computation:
        if it.opcode in ("send", "recv"):
            name = _RENDEZVOUS.search(it.attributes)
            joined.setdefault(name[1] if name else it.name, []).append(it)
    return {
        it.name: max(_end(computation, each) for each in transfer)
        for transfer in joined.values()
        for it in transfer
        if it.opcode == "send"
    }


def _end(computation: Computation, it: Instruction) -> int:
    found = [
        computation.position[user.name]
        for user in computation.users.get(it.name, ())
        if user.opcode in ("send-done", "recv-done")
    ]
    return max(found, default=len(computation.instructions))


def _slice_groups(it: Instruction) -> Groups:
    """Returns the groups of slices, from 0 on, each group once."""
    found = _TARGET.search(it.attributes)
    if found is None:
        raise ValueError(f"send {it.name!r} names no _xla_megascale_target")
    if found[1].startswith('"'):
        return (_range_ids(found[1][2 : found[1].index("}")]),)
    groups = (
        tuple(int(each) // _DEVICES_OF_SLICE - 1 for each in group.split(","))
        for group in re.findall(r"\{([\d,]+)\}", found[1])
    )
    return tuple(dict.fromkeys(groups))


def _range_ids(text: str) -> tuple[int, ...]:
    """Returns `1,2` or `1:4` as slices from 0 on."""
    ids: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition(":")
        ids.extend(range(int(first) - 1, int(last or first)))
    return tuple(ids)
