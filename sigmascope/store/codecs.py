"""Between records and the cells of a table."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from sigmascope.records import Check, Estimate, Finding, Layer, Reading, SiteSpectrum, Skipped
from sigmascope.records.encoding import Column, built, columns, encoded, flat, is_array, is_record
from sigmascope.store.rows import Asked, Row, Word
from sigmascope.store.tables import COLUMNS, Table

Cell = str | int | float | bytes | None

RECORDS: Mapping[Table, type] = MappingProxyType(
    {
        "environment": Word,
        "views": Asked,
        "layers": Layer,
        "readings": Reading,
        "spectra": SiteSpectrum,
        "checks": Check,
        "findings": Finding,
        "skipped": Skipped,
    }
)


def cells(table: Table, record: Any) -> tuple[Cell, ...]:
    """A record, or a row that holds one, as the cells of a table."""
    named = flat(record.record if isinstance(record, Row) else record)
    for column in _woven(table):
        named |= _cells(column, named.pop(column.name))
    for end in ("low", "high") if table == "spectra" else ():
        if named[end] == named["sigma"]:
            named[end] = None
    return tuple(named[name] for name in COLUMNS[table])


def row(table: Table, step: int, time: str, *cells: Cell) -> Row[Any]:
    """Cells of a table as the record that they were."""
    named = dict(zip(COLUMNS[table], cells, strict=True))
    woven = {column.name: _plain(column, named) for column in _woven(table)}
    return Row(step, _time(time), built(RECORDS[table], named | woven))


def numbers(blob: bytes) -> list[float]:
    """The float64 values of a blob."""
    return np.frombuffer(blob, "<f8").tolist()


@cache
def _woven(table: Table) -> tuple[Column, ...]:
    """The columns of a record that are not one cell as they are."""
    kinds = (str, int, float)
    every = columns(RECORDS[table])
    return tuple(c for c in every if c.hint not in kinds and get_origin(c.hint) is not Literal)


def _cells(column: Column, value: Any) -> dict[str, Cell]:
    """A value of a record, in one cell or, for a side of a check, in one for each of its parts."""
    if column.hint == Estimate | None:
        parts = columns(Estimate)
        return {f"{column.name}_{p.name}": None if value is None else p.of(value) for p in parts}
    if is_array(column.hint):
        return {column.name: value.detach().cpu().double().numpy().astype("<f8").tobytes()}
    if isinstance(value, tuple):
        return {column.name: json.dumps([_listed(each) for each in value], allow_nan=False)}
    return {column.name: str(value)}


def _plain(column: Column, named: Mapping[str, Cell]) -> Any:
    """The inverse: what `built` takes for a column."""
    if column.hint == Estimate | None:
        side = {part.name: named[f"{column.name}_{part.name}"] for part in columns(Estimate)}
        return None if all(cell is None for cell in side.values()) else side
    cell = named[column.name]
    if is_array(column.hint):
        return _tensor(named["sigma"] if cell is None else cell)
    if get_origin(column.hint) is not tuple:
        return cell
    (part, _), values = get_args(column.hint), json.loads(str(cell))
    if not is_record(part):
        return values
    return [dict(zip(_order(part), each, strict=True)) for each in values]


def _listed(value: Any) -> Any:
    """A word, or a record as a list of its cells."""
    if isinstance(value, str):
        return value
    plain = encoded(value)
    return [plain[name] for name in _order(type(value))]


def _order(kind: type) -> list[str]:
    """The columns of a record within a cell; those of a reading stand as in their own table."""
    return [*COLUMNS["readings"]] if kind is Reading else [c.name for c in columns(kind)]


def _tensor(blob: Any) -> Tensor:
    return torch.from_numpy(np.frombuffer(blob, "<f8").astype("=f8"))


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"a time in UTC was expected, got {text!r}")
    return when
