"""Checksums: one row for every step appended, over every cell of the rows it brought.

A seal is a row `(id, step, time, rows, previous, seal)`. `rows` is JSON: for every table that got
rows, the number of the first, how many there are, and the SHA-256 of their cells. `seal` is the
SHA-256 of the name of the run and the rest of the row, and `previous` is the seal before, empty for
the first: a chain, in which no step can be missing, changed, moved or of another run without a
trace.
"""

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sigmascope.store.tables import COLUMNS, Table, sealed

_KINDS = {"TEXT": str, "INTEGER": int, "REAL": float, "BLOB": bytes}


@dataclass(frozen=True, slots=True)
class Span:
    """The rows that a step has in one table: from which number on, how many, and their SHA-256."""

    first: int
    count: int
    digest: str

    @property
    def ends(self) -> tuple[int, int]:
        """Numbers of the first and last row."""
        return self.first, self.first + self.count - 1


@dataclass(frozen=True, slots=True)
class Seal:
    """What was noted about a step when it was appended.

    Attributes:
        number: Its place in the run, from 1.
        step: Step of training.
        time: When, UTC, as ISO 8601.
        rows: What it has in each table.
        previous: The seal before it.
        seal: Its own SHA-256.
    """

    number: int
    step: int
    time: str
    rows: Mapping[str, Span]
    previous: str
    seal: str

    def cells(self) -> tuple[Any, ...]:
        """The row of the table `seals`."""
        return (self.number, self.step, self.time, _spans(self.rows), self.previous, self.seal)


def name(file: sqlite3.Connection) -> str:
    """The name of the run, 32 hexadecimal digits."""
    ((run,),) = file.execute("SELECT run FROM identity").fetchall()
    return run


def made(run: str, cells: tuple[int, int, str], rows: Mapping[str, Span], previous: str) -> Seal:
    """The seal of a step; `cells` are its number, step and time."""
    digest = _digest([[run, *cells, _spans(rows), previous]])
    return Seal(*cells, rows, previous, digest)


def parsed(run: str, cells: tuple[Any, ...]) -> Seal:
    """A row of `seals`; ValueError, TypeError or AttributeError unless it is as it was made."""
    number, step, time, rows, previous, seal = cells
    spans = {table: Span(*span) for table, span in json.loads(rows).items()}
    again = made(run, (number, step, time), spans, previous)
    if again.cells() != tuple(cells):
        raise ValueError(f"its own checksum is {seal}, and {again.seal} was expected")
    return again


def span(file: sqlite3.Connection, table: Table, first: int, last: int) -> Span:
    """What these rows hold now."""
    counted = _Counted(file.execute(sealed(table), (first, last)))
    digest = _digest(counted)
    return Span(first, counted.count, digest)


def require_span(file: sqlite3.Connection, table: Table, expected: Span) -> None:
    """ValueError or sqlite3.Error unless these rows hold what they held when they were sealed."""
    _require(span(file, table, *expected.ends), expected)


def _require(found: Span, expected: Span) -> None:
    if found.count != expected.count:
        raise ValueError(f"{expected.count} rows were written and {found.count} are there")
    if found.digest != expected.digest:
        raise ValueError(f"SHA-256 {expected.digest[:12]}… was expected, {found.digest[:12]}… came")


def fetched(file: sqlite3.Connection, table: Table, expected: Span) -> list[tuple[Any, ...]]:
    """The cells of these rows without their numbers, if they are as they were sealed.

    Raises ValueError, TypeError or sqlite3.Error unless they are.
    """
    rows = file.execute(sealed(table), expected.ends).fetchall()
    _require(Span(expected.first, len(rows), _digest(rows)), expected)
    cells = [row[1:] for row in rows]
    for row in cells:
        require_kinds(table, row)
    return cells


def require_kinds(table: Table, cells: Iterable[Any]) -> None:
    """TypeError unless the cells are of the kinds of their columns; SQLite itself takes any."""
    kinds = {"step": "INTEGER", "time": "TEXT", **COLUMNS[table]}
    for (name, kind), cell in zip(kinds.items(), cells, strict=True):
        empty = cell is None and kind.endswith(" NULL")
        if not empty and not isinstance(cell, _KINDS[kind.removesuffix(" NULL")]):
            raise TypeError(f"{table}.{name} must be {kind}, got {type(cell).__name__}")
        if isinstance(cell, float) and math.isnan(cell):
            raise TypeError(f"{table}.{name} is not a number")
        if isinstance(cell, bytes) and len(cell) % 8:
            raise TypeError(f"{table}.{name} has {len(cell)} bytes, no multiple of 8")


class _Counted:
    """Rows, and how many have been read."""

    def __init__(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._rows, self.count = rows, 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for row in self._rows:
            self.count += 1
            yield row


def _digest(rows: Iterable[Iterable[Any]]) -> str:
    """SHA-256 of the rows as lines of ASCII JSON; a blob stands there with its own SHA-256."""
    whole = sha256()
    for row in rows:
        whole.update(json.dumps(list(row), default=_blob, separators=(",", ":")).encode())
        whole.update(b"\n")
    return whole.hexdigest()


def _blob(cell: bytes) -> dict[str, str]:
    return {"sha256": sha256(cell).hexdigest()}


def _spans(rows: Mapping[str, Span]) -> str:
    plain = {table: [s.first, s.count, s.digest] for table, s in rows.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))
