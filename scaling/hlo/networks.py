"""Networks: what a collective does within a slice and what it does between slices."""

from collections.abc import Iterator

from meshes.collectives import CollectiveKind
from meshes.spec import Axis
from meshes.spec import MeshSpec
from meshes.spec import Network
from scaling.hlo.collectives import Exchange
from scaling.hlo.spans import Span


def on_networks(
    kind: CollectiveKind, span: Span, payload_bytes: float
) -> Iterator[tuple[CollectiveKind, Network, int, float]]:
    """Yields what a collective does on each network: kind, network, members, payload.

    Over both only a slice's own part crosses between slices, as in
    `scaling.analytic`: an all-reduce scatters within, reduces across, gathers within.
    """
    if span.dcn_size == 1:
        yield kind, "ici", span.ici_size, payload_bytes
        return
    if span.ici_size == 1:
        yield kind, "dcn", span.dcn_size, payload_bytes
        return
    within: tuple[CollectiveKind, ...] = (
        ("reduce_scatter", "all_gather") if kind == "all_reduce" else (kind,)
    )
    yield kind, "dcn", span.dcn_size, payload_bytes / span.ici_size
    for part in within:
        yield part, "ici", span.ici_size, payload_bytes


def axes_on(network: Network, each: Exchange, mesh: MeshSpec) -> tuple[Axis, ...]:
    """Returns the axes of a collective that the mesh has on one network."""
    axes = each.span.axes or ()
    return tuple(axis for axis in axes if mesh.size(axis, network) > 1)
