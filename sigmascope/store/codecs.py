"""Between records and the cells of a table."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from sigmascope.records import Check, Estimate, Finding, Layer, Reading, SiteSpectrum, Skipped
from sigmascope.records.encoding import Column, built, columns, encoded, is_array, is_record
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
    named = {name: cell for c in columns(RECORDS[table]) for name, cell in _cells(c, c.of(record))}
    for end in ("low", "high"):
        if table == "spectra" and named[end] == named["sigma"]:
            named[end] = None
    return tuple(named[name] for name in COLUMNS[table])


def row(table: Table, step: int, time: str, *cells: Cell) -> Row[Any]:
    """Cells of a table as the record that they were."""
    kind, named = RECORDS[table], dict(zip(COLUMNS[table], cells, strict=True))
    return Row(step, _time(time), built(kind, {c.name: _plain(c, named) for c in columns(kind)}))


def numbers(blob: bytes) -> list[float]:
    """The float64 values of a blob."""
    return np.frombuffer(blob, "<f8").tolist()


def _cells(column: Column, value: Any) -> Iterator[tuple[str, Cell]]:
    """A value of a record, in one cell or, for a side of a check, in one for each of its parts."""
    if column.hint == Estimate | None:
        for part in columns(Estimate):
            yield f"{column.name}_{part.name}", None if value is None else part.of(value)
    elif is_array(column.hint):
        yield column.name, value.detach().cpu().double().numpy().astype("<f8").tobytes()
    elif isinstance(value, tuple):
        yield column.name, json.dumps([_listed(each) for each in value], allow_nan=False)
    else:
        yield column.name, str(value) if isinstance(value, str) else value


def _plain(column: Column, named: Mapping[str, Cell]) -> Any:
    """The inverse: what `built` takes for a column."""
    if column.hint == Estimate | None:
        side = {part.name: named[f"{column.name}_{part.name}"] for part in columns(Estimate)}
        return None if all(cell is None for cell in side.values()) else side
    cell = named[column.name]
    if is_array(column.hint):
        return _tensor(named["sigma"] if cell is None else cell)
    part, *more = get_args(column.hint) or (None,)
    if more != [...]:
        return cell
    values = json.loads(str(cell))
    return (
        [dict(zip(_order(part), v, strict=True)) for v in values] if is_dataclass(part) else values
    )


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
