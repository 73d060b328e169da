"""Whether a run file holds what was written to it.

SQLite knows whether its pages fit together (`PRAGMA integrity_check`). What stands in them is known
by a checksum: with each step goes a row `(id, step, time, rows)`, where `rows` is JSON and says for
every table that got rows the number of the first, how many there are, and the SHA-256 of their
cells. Steps are numbered from 1 without a gap, and so are the rows of a table, which all belong to
the steps in this order: whoever reads the steps one after the other reads each table once, from the
front, and knows at the end that nothing is missing and nothing is there that was not written.
"""

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from types import MappingProxyType
from typing import Any

from sigmascope.core.records import ByValue
from sigmascope.core.store.files import Replaced, Snapshot, sound
from sigmascope.core.store.schema import (
    COLUMNS,
    STEPS,
    Table,
    insertion,
    selection,
    tables,
    written,
)

Rows = Mapping[Table, list[tuple[Any, ...]]]
Span = tuple[int, int, str]  # number of the first row, how many, and their checksum

_KINDS = {"TEXT": str, "INTEGER": int, "REAL": float, "BLOB": bytes}


@dataclass(frozen=True, slots=True, eq=False)
class Position(ByValue):
    """How far a run file has been read.

    Attributes:
        last: Number, step, time and checksums of the last step read; empty before the first.
        ends: Number of the last row read of each table.
    """

    last: tuple[Any, ...] = ()
    ends: Mapping[Table, int] = field(default_factory=lambda: MappingProxyType({}))


def require_whole(found: Snapshot) -> None:
    """Raise `Damaged` unless all of a file is as it was written."""
    with sound(found.path, "its pages do not fit together"):
        (said,) = found.file.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise ValueError(said)
    for _ in steps(found, Position()):
        pass


def steps(
    found: Snapshot, after: Position, of: Iterable[Table] = tuple(COLUMNS)
) -> Iterator[tuple[Position, Rows]]:
    """Each step after a mark, and its cells `(step, time, *COLUMNS[table])` in these tables.

    A file of format 1, to which nothing is appended any more, counts as one step.

    Raises:
        Damaged: When a step is reached that is not as it was written.
        Replaced: If the last step of the mark is not there.
    """
    path, file = found.path, found.file
    if found.version == 1:
        if not after.last:
            old: dict[Table, list[tuple[Any, ...]]] = {}
            there: list[Table] = [table for table in of if table in {*tables(1)}]
            for table in there:  # there are no checksums in format 1
                with sound(path, f"the {table} cannot be read"):
                    query = f"{selection(table, 1)} ORDER BY id"
                    old[table] = [row[1:] for row in file.execute(query, (0,)).fetchall()]
                    for row in old[table]:
                        _require_kinds(table, row)
            yield Position((1,)), old
        return
    ends, cursors = dict(after.ends), ExitStack()
    with sound(path, "its steps cannot be read"), cursors:

        def ask(query: str, number: int) -> Iterator[tuple[Any, ...]]:
            """Rows from a number on; a cursor that is left open would keep the file open."""
            return cursors.enter_context(closing(file.execute(f"{query} ORDER BY id", (number,))))

        version = found.version
        there: list[Table] = [table for table in tables(version) if table in {*of}]
        rows = {t: ask(selection(t, version), ends.get(t, 0)) for t in there}
        number = after.last[0] if after.last else 0
        name = STEPS[found.version]
        lines = ask(f"SELECT id, step, time, rows FROM {name} WHERE id >= ?", number)
        if after.last and next(lines, None) != after.last:
            raise Replaced(path, f"step {after.last[1]}, which was read, is no longer in it")
        for line in lines:
            number += 1
            place, step, time, spans = line
            if place != number:
                raise ValueError(f"step number {number} was expected, {place} came")
            cells: dict[Table, list[tuple[Any, ...]]] = {}
            for table, span in parsed(spans).items():
                ends[table] = ends.get(table, 0) + span[1]
                if table in rows:
                    with sound(path, f"the {table} of step {step} are not those that were written"):
                        some, known = islice(rows[table], span[1]), written(table, found.version)
                        cells[table] = checked(some, span, (step, time), known)
            yield Position(line, dict(ends)), cells
        query = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence"
        if file.execute(query).fetchall() != [(number,)]:
            raise ValueError(f"{number} are there, and not as many were written")
        for table, left in rows.items():
            if next(left, None) is not None:
                raise ValueError(f"rows of {table} belong to none")


def parsed(spans: str) -> dict[Table, Span]:
    """What a step brought to each table; an error that is `WRONG` unless the words are that."""
    plain = {table: tuple(span) for table, span in json.loads(spans).items()}
    kinds = [[*map(type, span)] for span in plain.values()]
    if not plain or not plain.keys() <= COLUMNS.keys() or kinds != [[int, int, str]] * len(plain):
        raise ValueError(f"what a step brought was expected, {spans[:80]} came")
    return plain


def checked(
    rows: Iterable[tuple[Any, ...]], span: Span, when: tuple[int, str], known: int
) -> list[tuple[Any, ...]]:
    """Rows without their numbers; ValueError unless they are what was written at this step.

    What the checksum is of are the first `known` cells of each: an older format lacks the last.
    """
    first, count, checksum = span
    found = list(rows)
    if len(found) != count or (found and found[0][0] != first):
        raise ValueError(f"{count} rows from number {first} on were expected, {len(found)} came")
    if (came := _checksum(row[: 1 + known] for row in found)) != checksum:
        raise ValueError(f"checksum {checksum[:12]}… was expected, {came[:12]}… came")
    if any(row[1:3] != when for row in found):
        raise ValueError(f"step {when[0]} of {when[1]} was expected, {found[0][1:3]} came")
    return [row[1:] for row in found]


def append(file: sqlite3.Connection, step: int, time: str, rows: Rows) -> None:
    """Insert the cells of a step, and the checksum of what the file then holds."""
    spans = {}
    for table, cells in rows.items():
        if cells:
            (last,) = file.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()
            file.executemany(insertion(table), [(step, time, *row) for row in cells])
            # read back, for SQLite turns some kinds of cells into others
            found = file.execute(f"{selection(table)} ORDER BY id", (last,)).fetchall()
            for row in found:
                _require_kinds(table, row[1:])
            spans[table] = [last + 1, len(found), _checksum(found)]
    query = "INSERT INTO steps (step, time, rows) VALUES (?, ?, ?)"
    file.execute(query, (step, time, json.dumps(spans)))


def _require_kinds(table: Table, cells: Iterable[Any]) -> None:
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


def _checksum(rows: Iterable[tuple[Any, ...]]) -> str:
    """SHA-256 of the rows as lines of ASCII JSON; a blob stands there with its own SHA-256."""
    whole = sha256()
    blob = lambda cell: {"sha256": sha256(cell).hexdigest()}
    for row in rows:
        line = json.dumps(row, default=blob, separators=(",", ":"))
        whole.update(line.encode() + b"\n")
    return whole.hexdigest()
