"""Explain: `scaling plan --explain`, one point in parts, as JSON and for people."""

from typing import TYPE_CHECKING

from pydantic import BaseModel
from pydantic import ConfigDict

from experiments.host_memory import host_memory_bytes
from experiments.rows import Row
from experiments.rows import identity
from experiments.search_text import policy_text
from experiments.sweep import chip_text
from meshes import hardware
from meshes.chip import Chip
from meshes.collectives import CollectiveKind
from meshes.spec import Axis
from meshes.spec import Network
from scaling import quantity
from scaling.explain import Better
from scaling.explain import Explanation
from scaling.explain import Lies
from scaling.explain import Taken
from scaling.explain import explain
from scaling.held import Held
from scaling.point import Point
from scaling.predict import Prediction
from scaling.predict import missing_figures

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SHOWN_ARRAYS = 3
"""Parameter arrays named one by one; the others are one line."""


class MemoryPart(BaseModel):
    """What takes memory of one device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    name: str
    bytes: float
    share_fraction: float


class TimePart(BaseModel):
    """What takes time, alone and at full rate; a collective where it is one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: str
    kind: CollectiveKind | None
    axes: tuple[Axis, ...]
    count: int | None
    payload_bytes: float | None
    bytes: float | None
    """What one device sends."""
    time_s: float
    share_fraction: float


class AxisPart(BaseModel):
    """Where one axis of the mesh lies on one network."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    axis: Axis
    network: Network
    size: int
    dims: tuple[int, ...] | None
    """Torus dims from 0; [] where it moves along parts of them; null has no torus."""
    lengths: tuple[int, ...]
    closed: tuple[bool, ...] | None
    links: float | None
    bytes_per_s: float | None


class BetterMesh(BaseModel):
    """The nearest faster mesh on the same slices."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    mesh: str
    steps: int
    gain_fraction: float | None
    """In throughput; null where the point itself does not fit."""
    predicted: Prediction


class ExplainedPoint(Row):
    """What `scaling plan --explain --json` prints."""

    predicted: Prediction
    memory: tuple[MemoryPart, ...]
    times: tuple[TimePart, ...] | None
    axes: tuple[AxisPart, ...]
    num_meshes: int
    nearest_better: BetterMesh | None


def explanation_of(point: Point, chip: Chip) -> Explanation:
    """Returns what a feasible point's prediction on `chip` consists of."""
    on_host = host_memory_bytes() if chip.platform == "cpu" else None
    return explain(point, chip, host_memory_bytes=on_host)


def document(found: Explanation) -> ExplainedPoint:
    """Returns the explanation as it is printed with `--json`."""
    peak = sum(part.bytes for part in found.memory)
    return ExplainedPoint(
        **identity(found.point),
        status="ok" if found.fits else "out_of_memory",
        phase=None,
        reason=None,
        provenance="analytic",
        predicted=found.predicted,
        memory=tuple(
            MemoryPart(**part._asdict(), share_fraction=part.bytes / peak)
            for part in found.memory
        ),
        times=None if found.times is None else tuple(map(_time_part, found.times)),
        axes=tuple(AxisPart(**lies._asdict()) for lies in found.axes),
        num_meshes=found.num_meshes,
        nearest_better=None if found.better is None else _better_part(found.better),
    )


def print_explanation(found: Explanation) -> None:
    """Prints the explanation at 80 columns."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False, markup=False)
    point, predicted = found.point, found.predicted
    console.print(
        f"{point.model} on {chip_text(point)}, mesh {point.mesh}, batch "
        f"{point.global_batch_size} × {point.seq_len} tokens, {policy_text(point)} "
        "(analytic)"
    )
    _print_memory(console, found)
    _print_times(console, found)
    if found.axes:
        console.print()
        console.print("axes of the mesh, and what one device can send over them")
        console.print(_axes_table(found))
    console.print()
    console.print(_nearest_better(found))
    if found.times is not None:
        limit = predicted.limited_by or quantity.NOT_MEASURED
        console.print(f"Limited by {limit}.")


def _time_part(part: Taken) -> TimePart:
    collective = part.collective
    return TimePart(
        cause=part.cause,
        kind=None if collective is None else collective.kind,
        axes=() if collective is None else collective.axes,
        count=None if collective is None else collective.count,
        payload_bytes=None if collective is None else collective.payload_bytes,
        bytes=None if collective is None else collective.bytes,
        time_s=part.seconds,
        share_fraction=part.share_fraction,
    )


def _better_part(better: Better) -> BetterMesh:
    point, predicted = better.candidate
    return BetterMesh(
        id=point.id,
        mesh=str(point.mesh),
        steps=better.steps,
        gain_fraction=better.gain,
        predicted=predicted,
    )


def _print_memory(console: "Console", found: Explanation) -> None:
    predicted = found.predicted
    available = predicted.available_hbm_bytes
    of = "" if available is None else f" of {quantity.bytes_(available)}"
    fits = "" if found.fits else ": does not fit"
    peak = quantity.bytes_(predicted.peak_hbm_bytes)
    console.print()
    console.print(f"memory of each device: {peak}{of}{fits}")
    table = _table("what", "", "bytes", "share")
    total = sum(part.bytes for part in found.memory)
    for part in _memory_lines(found):
        share = quantity.percent(part.bytes / total)
        table.add_row(part.kind, part.name, quantity.bytes_(part.bytes), share)
    console.print(table)


def _memory_lines(found: Explanation) -> list[Held]:
    """Returns the parts that take anything; small parameter arrays are one line."""
    arrays = [part for part in found.memory if part.kind == "parameters"]
    lines = [part for part in found.memory if part.kind != "parameters"]
    lines += arrays[:SHOWN_ARRAYS]
    if rest := arrays[SHOWN_ARRAYS:]:
        name = quantity.counted(len(rest), "other array")
        lines.append(Held("parameters", name, sum(part.bytes for part in rest)))
    taken = [part for part in lines if part.bytes > 0]
    return sorted(taken, key=lambda part: -part.bytes)


def _print_times(console: "Console", found: Explanation) -> None:
    predicted = found.predicted
    console.print()
    if found.times is None:
        missing = missing_figures(found.point, hardware.chip(found.point.chip))
        console.print(f"no times: {' and '.join(missing)} is not known")
        return
    band = quantity.seconds_band(
        predicted.step_time_s, predicted.step_time_low_s, predicted.step_time_high_s
    )
    console.print(f"step time {band}; each of it alone, at full rate:")
    table = _table("what", "axis", "network", "sends", "times", "alone", "share")
    for part in found.times:
        each = part.collective
        table.add_row(
            part.cause if each is None else each.kind,
            "" if each is None else ",".join(each.axes),
            "" if each is None else each.network,
            "" if each is None else quantity.bytes_(each.bytes),
            "" if each is None else str(each.count),
            quantity.seconds(part.seconds),
            quantity.percent(part.share_fraction),
        )
    console.print(table)


def _axes_table(found: Explanation) -> "Table":
    table = _table("axis", "network", "lies on", "rate")
    for lies in found.axes:
        table.add_row(
            f"{lies.axis}={lies.size}",
            lies.network,
            _place(lies, found.point),
            quantity.bytes_per_s(lies.bytes_per_s),
        )
    return table


def _place(lies: Lies, point: Point) -> str:
    if lies.network == "dcn":
        return "the network between slices"
    if lies.dims is None:
        if lies.links is None:
            return "shared memory, or links of unknown number"
        return f"a switch, {quantity.counted(int(lies.links), 'link')} a chip"
    shape = "x".join(map(str, point.slice_shape or ()))
    links = f"{lies.links:g} {'link' if lies.links == 1 else 'links'} a chip"
    if not lies.dims:
        return "within each chip"
    dims = "dim" if len(lies.dims) == 1 else "dims"
    numbers = " and ".join(str(dim + 1) for dim in lies.dims)
    parts = " × ".join(
        f"{'ring' if closed else 'line'} of {members}"
        for closed, members in zip(lies.closed or (), lies.lengths, strict=True)
    )
    return f"{dims} {numbers} of {shape}: {parts}, {links}"


def _nearest_better(found: Explanation) -> str:
    better, others = found.better, found.num_meshes - 1
    if better is None and found.times is None:
        return "No mesh can be called better: a figure of the chip is unknown."
    if better is None:
        end = "fits" if not found.fits else "is 1 % faster"
        return (
            f"None of the {others} other meshes of the same slices {end} under this "
            "policy; `scaling plan --search` tries others."
        )
    point, predicted = better.candidate
    steps = quantity.counted(better.steps, "step")
    time = quantity.seconds(predicted.step_time_s)
    memory = quantity.bytes_(predicted.peak_hbm_bytes)
    gain = "" if better.gain is None else f", {quantity.percent(better.gain)} faster"
    what = "mesh that fits" if better.gain is None else "better mesh"
    return (
        f"Nearest {what}: {point.mesh}, {steps} away: {time}{gain}, {memory}, limited "
        f"by {predicted.limited_by}."
    )


def _table(*titles: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        numbers = title in ("bytes", "share", "sends", "times", "alone", "rate")
        table.add_column(title, justify="right" if numbers else "left")
    return table
