"""Rows: points of a sweep as `plan` and `compile` print them, in JSON and tables."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import Literal
from typing import NamedTuple
from typing import TypeVar

from pydantic import BaseModel
from pydantic import ConfigDict

from experiments.sweep import Sweep
from scaling import quantity
from scaling.measurement import MemoryPhase
from scaling.measurement import Provenance
from scaling.measurement import Status
from scaling.point import Point
from scaling.point import Regime
from scaling.predict import Prediction

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Row(BaseModel):
    """One point of a sweep: which it is, and what became of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    model: str
    chip: str
    slice_shape: tuple[int, ...] | None
    mesh: str
    num_devices: int
    num_slices: int
    regime: Regime
    global_batch_size: int
    seq_len: int
    status: Status
    phase: MemoryPhase | None
    reason: str | None
    provenance: Provenance


R = TypeVar("R", bound=Row)


class Column(NamedTuple):
    """A column of a table: its title, and what a row has there."""

    title: str
    cell: Callable[[Any], str]
    justify: Literal["left", "right"] = "right"
    wraps: bool = False


def mesh_column(width: int = 30) -> Column:
    """Returns the column of a mesh, on several lines where it is wider than `width`."""
    return Column(
        "mesh",
        lambda row: quantity.mesh_lines(row.mesh, width),
        justify="left",
        wraps=True,
    )


MESH = mesh_column()
BATCH = Column("batch", lambda row: str(row.global_batch_size))
STEP_TIME = Column("step time", lambda row: _step_time(row.predicted), wraps=True)


def identity(point: Point) -> Mapping[str, Any]:
    """Returns the fields of a Row that say which point it is."""
    return {
        "id": point.id,
        "model": point.model,
        "chip": point.chip,
        "slice_shape": point.slice_shape,
        "mesh": str(point.mesh),
        "num_devices": point.mesh.num_devices,
        "num_slices": point.mesh.num_slices,
        "regime": point.regime,
        "global_batch_size": point.global_batch_size,
        "seq_len": point.seq_len,
    }


def print_tables(
    sweep: Sweep,
    rows: Iterable[R],
    columns: Sequence[Column],
    *,
    heading: Callable[[R], str],
) -> "Console":
    """Prints a table of at most 80 columns for all rows of each heading.

    Returns the console, for what is said below them.
    """
    from rich.console import Console
    from rich.text import Text

    # Reasons and names have brackets of their own.
    console = Console(highlight=False, soft_wrap=False, markup=False)
    console.print(Text.assemble((sweep.name, "bold"), f"  {sweep.question}"))
    groups: dict[str, list[R]] = {}
    for row in rows:
        groups.setdefault(heading(row), []).append(row)
    for title, members in groups.items():
        console.print()
        console.print(title)
        console.print(_table(members, columns))
    return console


def _table(rows: Iterable[Row], columns: Sequence[Column]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column.title,
            justify=column.justify,
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
        )
    for row in rows:
        table.add_row(*(column.cell(row) for column in columns))
    return table


def _step_time(predicted: Prediction | None) -> str:
    return quantity.seconds_band(
        predicted and predicted.step_time_s,
        predicted and predicted.step_time_low_s,
        predicted and predicted.step_time_high_s,
    )
