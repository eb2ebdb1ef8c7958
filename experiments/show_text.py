"""Show text: what `experiments.show` knows, as tables for people."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.show import Row
from experiments.show import Topic
from scaling import quantity


def print_known(topic: Topic, found: Row | list[Row]) -> None:
    """Prints what `known` returned, at most as wide as the terminal."""
    console = Console(highlight=False)
    if isinstance(found, list):
        console.print(_LISTS[topic](found))
        return
    for part in _DETAILS[topic](found):
        console.print(part, soft_wrap=isinstance(part, str))


def _models(rows: list[Row]) -> Table:
    return _table(
        ("model", "parameters", "training FLOPs/token", "context"),
        (
            (
                row["name"],
                quantity.count(row["num_parameters"]),
                quantity.flops(row["training_flops_per_token"]),
                row["seq_len"],
            )
            for row in rows
        ),
    )


def _model(row: Row) -> Iterable[Table | str]:
    yield _pairs(
        ("parameters", f"{row['num_parameters']:,}"),
        ("without embeddings", f"{row['num_non_embedding_parameters']:,}"),
        ("active", f"{row['num_active_parameters']:,}"),
        (
            "training",
            f"{quantity.flops(row['training_flops_per_token'])} a token in sequences "
            f"of {row['seq_len']}",
        ),
        ("forward", f"{quantity.flops(row['forward_flops_per_token'])} a token"),
        ("counted", row["flops_convention"]),
        ("source", row["source"]),
    )


def _chips(rows: list[Row]) -> Table:
    return _table(
        ("chip", "bfloat16", "memory", "bandwidth", "devices", "largest slice"),
        (
            (
                row["name"],
                quantity.flops_per_s(row["peak_flops_per_s"].get("bfloat16")),
                quantity.bytes_(row["hbm_bytes"]),
                quantity.bytes_per_s(row["hbm_bytes_per_s"]),
                row["devices_per_chip"],
                row["max_slice_chips"] or row["nvlink_domain"] or quantity.NOT_MEASURED,
            )
            for row in rows
        ),
    )


def _chip(row: Row) -> Iterable[Table | str]:
    table = _table(("figure", "value", "source"), ())
    for field, value in row.items():
        if field != "sources" and value not in (None, {}, []):
            _add_figure(table, field, value, row["sources"])
    yield table
    yield "Rates in bytes/s and FLOP/s, per chip, dense. A missing figure is unknown."


def _add_figure(table: Table, field: str, value: Any, sources: Row) -> None:
    """Adds one row, or one a dtype where the figure is by dtype."""
    if isinstance(value, dict):
        for dtype, rate in value.items():
            name = f"{field}.{dtype}"
            table.add_row(name, f"{rate:g}", sources.get(name, ""))
        return
    if isinstance(value, list):
        value = ", ".join(_listed(item) for item in value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    table.add_row(field, text, sources.get(field, ""))


def _listed(item: Any) -> str:
    return "x".join(map(str, item)) if isinstance(item, list) else str(item)


def _sweeps(rows: list[Row]) -> Table:
    return _table(
        ("sweep", "points × runs", "question"),
        (
            (row["name"], f"{row['num_points']} × {row['repeats']}", row["question"])
            for row in rows
        ),
    )


def _sweep(row: Row) -> Iterable[Table | str]:
    yield row["about"] or row["question"]
    yield ""
    yield _table(
        ("id", "model", "chip", "mesh", "batch", "regime"),
        (
            (
                point["id"],
                point["model"],
                point["chip"],
                point["mesh"],
                f"{point['global_batch_size']} × {point['seq_len']}",
                point["regime"],
            )
            for point in row["points"]
        ),
    )


def _curves(rows: list[Row]) -> Table:
    return _table(
        ("curve", "chip", "growth", "chips", "last efficiency"),
        (
            (
                row["name"],
                row["chip"],
                f"{row['direction']}, {row['regime']}",
                f"{row['points'][0]['num_chips']}–{row['points'][-1]['num_chips']}",
                quantity.ratio(row["points"][-1]["efficiency"]),
            )
            for row in rows
        ),
    )


def _curve(row: Row) -> Iterable[Table | str]:
    formatted = (
        quantity.rate if row["quantity"] == "tokens_per_s" else quantity.flops_per_s
    )
    yield _pairs(
        ("model", f"{row['model']}, sequences of {row['seq_len']} tokens"),
        ("growth", f"{row['direction']} on {row['chip']}, {row['regime']}"),
        ("source", f"{row['source']} ({row['year']})"),
    )
    yield ""
    yield _table(
        ("chips", "batch", "per chip", "efficiency"),
        (
            (
                point["num_chips"],
                point["global_batch_size"],
                formatted(point["rate_per_chip"]),
                quantity.ratio(point["efficiency"]),
            )
            for point in row["points"]
        ),
    )


def _pairs(*pairs: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for pair in pairs:
        table.add_row(*pair)
    return table


def _table(names: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, name in enumerate(names):
        table.add_column(name, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*map(str, row))
    return table


_LISTS = {"models": _models, "chips": _chips, "sweeps": _sweeps, "curves": _curves}
_DETAILS = {"models": _model, "chips": _chip, "sweeps": _sweep, "curves": _curve}
