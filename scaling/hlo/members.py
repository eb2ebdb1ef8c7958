"""Members: which devices of the mesh take part in a collective, as a span of axes."""

import re

from meshes.collectives import CollectiveKind
from meshes.spec import MeshSpec
from scaling.hlo.groups import replica_groups
from scaling.hlo.groups import source_target_pairs
from scaling.hlo.module import Instruction
from scaling.hlo.module import Module
from scaling.hlo.spans import Span
from scaling.hlo.spans import span_of_groups
from scaling.hlo.spans import span_of_pairs

_MEMBERS = re.compile(
    r"(?:replica_groups|source_target_pairs)=.*?(?=, (?!device_ids)[a-z_]+=|$)"
)


class Members:
    """Reads the groups of one module's collectives, equal ones once."""

    def __init__(self, module: Module, mesh: MeshSpec):
        self._mesh = _mesh_of_ids(module, mesh)
        self._known: dict[tuple[CollectiveKind, bool, str], Span] = {}

    def span(self, kind: CollectiveKind, it: Instruction) -> Span:
        """Returns the axes that a collective joins; raises ValueError as the groups."""
        found = _MEMBERS.search(it.attributes)
        key = (kind, _by_replica(kind, it), found[0] if found else it.name)
        if key not in self._known:
            self._known[key] = self._span(kind, it)
        return self._known[key]

    def _span(self, kind: CollectiveKind, it: Instruction) -> Span:
        if kind in ("permute", "send_recv"):
            return span_of_pairs(source_target_pairs(it.attributes), self._mesh)
        devices = self._mesh.num_devices
        groups = replica_groups(it.attributes, devices)
        if _by_replica(kind, it):
            # Ids are of replicas, of which there is one: all its partitions or none.
            joined = "channel_id=" in it.attributes
            groups = (tuple(range(devices if joined else 1)),)
        return span_of_groups(groups, self._mesh)


def direction(it: Instruction) -> int:
    """Returns 1 for a permute towards higher positions, -1 towards lower, else 0.

    By what most pairs do, since those that close a ring go the other way.
    """
    steps = [a < b for a, b in source_target_pairs(it.attributes)]
    upwards = 2 * sum(steps) - len(steps)
    return (upwards > 0) - (upwards < 0)


def _mesh_of_ids(module: Module, mesh: MeshSpec) -> MeshSpec:
    """Returns the mesh whose positions the ids are: one slice's on several on TPU."""
    if module.num_partitions == mesh.num_devices:
        return mesh
    if module.num_partitions == mesh.devices_per_slice:
        return MeshSpec(ici=mesh.ici)
    raise ValueError(
        f"the program is for {module.num_partitions} devices, mesh {mesh} has "
        f"{mesh.num_devices}, {mesh.devices_per_slice} in a slice; give the mesh that "
        "was compiled"
    )


def _by_replica(kind: CollectiveKind, it: Instruction) -> bool:
    """Whether the ids in its groups are those of replicas, not of partitions."""
    reduces_or_gathers = kind in ("all_gather", "all_reduce", "reduce_scatter")
    return reduces_or_gathers and "use_global_device_ids=true" not in it.attributes
