"""Records as rows of tables, and back."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from sigmascope.core.encoding import (
    FlatField,
    built,
    columns,
    encoded,
    is_array,
    is_record,
    wide,
)
from sigmascope.core.guard import storable
from sigmascope.core.records import (
    Check,
    Estimate,
    Fact,
    Finding,
    Layer,
    Reading,
    SiteSpectrum,
    Skipped,
)
from sigmascope.core.store.schema import COLUMNS, Table

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Row(Generic[R]):
    """A record at one step; the record's own attributes are the row's too, as in `row.site`.

    Attributes:
        step: Step of training (or any count the writer keeps), as given to `Run.add`.
        time: When it was committed, UTC.
        record: What was measured, as it went in.
    """

    step: int
    time: datetime
    record: R

    def __getattr__(self, name: str) -> Any:
        # through object, for a copy that is not filled yet has no record to ask
        return getattr(object.__getattribute__(self, "record"), name)


@dataclass(frozen=True, slots=True)
class Word:
    """One line about the circumstances: the model, the batch, a version, a cost."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class AskedView:
    """One of the views that were asked for."""

    view: str


Cell = str | int | float | bytes | None

RECORDS: Mapping[Table, type] = MappingProxyType(
    {
        "environment": Word,
        "views": AskedView,
        "layers": Layer,
        "readings": Reading,
        "facts": Fact,
        "spectra": SiteSpectrum,
        "checks": Check,
        "findings": Finding,
        "skipped": Skipped,
    }
)


def cells(table: Table, record: Any) -> tuple[Cell, ...]:
    """A record, or a row that holds one, as the cells of a table."""
    record = record.record if isinstance(record, Row) else record
    named = {name: of(record) for name, of in _readers(table)}
    for column in _woven(table):
        value = named[column.name]
        if isinstance(value, Tensor):
            named[column.name] = value.detach().cpu().double().numpy().astype("<f8").tobytes()
        elif isinstance(value, tuple):
            named[column.name] = json.dumps([_listed(each) for each in value], allow_nan=False)
        else:
            named[column.name] = str(value)
    for end in ("low", "high") if table == "spectra" else ():
        if named[end] == named["sigma"]:
            named[end] = None
    return tuple(storable(v) if isinstance(v, str) else v for v in named.values())


def row(table: Table, step: int, time: str, *cells: Cell) -> Row[Any]:
    """Cells of a table as the record that they were."""
    named = dict(zip(COLUMNS[table], cells, strict=True))
    plain: dict[str, Any] = {c.name: _plain(c, named) for c in _woven(table)}
    for side in ("measured", "limit") if table == "checks" else ():
        number = {part.name: named[f"{side}_{part.name}"] for part in columns(Estimate)}
        # NULL throughout where the theorem does not apply
        plain[side] = None if all(cell is None for cell in number.values()) else number
    when = datetime.fromisoformat(time)
    if when.tzinfo is None:
        raise ValueError(f"a time in UTC was expected, got {time!r}")
    return Row(step, when, built(RECORDS[table], named | plain))


@cache
def _readers(table: Table) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """What takes each cell of a table from a record, in the order of the format."""
    by_name = {column.name: column.of for column in wide(RECORDS[table])}
    return tuple((name, by_name[name]) for name in COLUMNS[table])


@cache
def _woven(table: Table) -> tuple[FlatField, ...]:
    """The columns of a record that are not one cell as they are."""
    kinds = (str, int, float, int | None)
    every = wide(RECORDS[table])
    return tuple(c for c in every if c.hint not in kinds and get_origin(c.hint) is not Literal)


def _plain(column: FlatField, named: Mapping[str, Cell]) -> Any:
    """The inverse: what `built` takes for a column."""
    cell = named[column.name]
    if is_array(column.hint):
        blob: Any = named["sigma"] if cell is None else cell
        return torch.from_numpy(np.frombuffer(blob, "<f8").astype("=f8"))
    if get_origin(column.hint) is not tuple:
        return cell
    (part, _), values = get_args(column.hint), json.loads(str(cell))
    if not is_record(part):
        return values
    return [dict(zip(_order(part), each, strict=True)) for each in values]


def _listed(value: Any) -> Any:
    """A word or a number, or a record as a list of its cells."""
    if isinstance(value, str | int):
        return value
    plain = encoded(value)
    return [plain[name] for name in _order(type(value))]


def _order(kind: type) -> list[str]:
    """The columns of a record within a cell; those of a reading stand as in their own table."""
    return [*COLUMNS["readings"]] if kind is Reading else [c.name for c in columns(kind)]
