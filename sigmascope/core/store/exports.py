"""A table of a run file in a form that other tools read."""

import csv
import json
import os
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from sigmascope.core.encoding import encoded
from sigmascope.core.guard import Mark, Refusal, door, replacing, require_target
from sigmascope.core.store.files import WRONG, Damaged, Snapshot, snapshot
from sigmascope.core.store.integrity import Span, checked, parsed
from sigmascope.core.store.runs import Run
from sigmascope.core.store.schema import COLUMNS, STEPS, Table, selection, written

Format = Literal["parquet", "csv", "json"]

_BATCH = 10_000  # rows in memory at a time


def mark_of(to: str, table: Table) -> Mark:
    """How exports of a table begin and end, by which they may be written again."""
    columns = [re.escape(name).encode() for name in COLUMNS[table]]
    if to == "csv":
        return Mark(b"step,time," + b",".join(columns) + b"\r\n")
    if to == "parquet":
        return Mark(b"PAR1", b"sigmascope export.*PAR1")
    row = rb'\[\n\{"step": -?\d+, "time": "[^"]*", "' + columns[0] + b'": '
    return Mark(row + rb"|\[\n\]\n\Z")


@door
def export(
    run_path: str | os.PathLike[str],
    *,
    to: Format,
    path: str | os.PathLike[str],
    table: Table = "readings",
) -> Path:
    """Write one table of a run file as Parquet, CSV or JSON.

    The columns are `step`, `time` (UTC, ISO 8601) and those of `store.COLUMNS`. Singular
    values are lists of numbers. JSON is strict: infinities are the words `"Infinity"` and
    `"-Infinity"`; CSV writes them as `inf` and `-inf`, lists as JSON.

    Args:
        run_path: The run file; it may still be growing, and is only read.
        to: The form.
        path: Where to write. The file appears complete or not at all.
        table: Which table.

    Returns:
        `path`.

    Raises:
        Damaged: If the file is damaged; nothing is written, and `salvage` writes what is whole.
        ValueError: If `run_path` is not a run file that this version can read, or `path` is it.
        FileNotFoundError: If there is no run file, or no folder to write to.
        Refusal: If something else than such an export is at `path`, or the disk is full.
        ImportError: If Parquet is asked for and pyarrow is not installed.
    """
    target = _target(Path(path), Path(run_path), to, table)
    with Run(run_path, write=False) as run, replacing(target, mark=mark_of(to, table)) as fresh:
        _WRITERS[to](fresh, table, _records(run.cells(table), table))
    return target


def salvage(
    run_path: str | os.PathLike[str],
    *,
    to: Format,
    path: str | os.PathLike[str],
    table: Table = "readings",
) -> str:
    """Write those steps of one table of a damaged run file whose checksums are right.

    Args:
        run_path: The run file; it is only read.
        to: The form, as for `export`.
        path: Where to write. The file appears complete or not at all.
        table: Which table.

    Returns:
        Which steps are whole and which are not, as one sentence.

    Raises:
        ValueError: If no step can be told to be whole; nothing is written.
        FileNotFoundError: If there is no run file, or no folder to write to.
        ImportError: If Parquet is asked for and pyarrow is not installed.
    """
    target = _target(Path(path), Path(run_path), to, table)
    named = Path(run_path)
    shell = f"`sqlite3 {shlex.quote(str(named))} .recover` shows what SQLite can read"
    try:
        with snapshot(named, lenient=True) as found:
            if found.version not in STEPS:
                raise Refusal(
                    f"{named} is damaged, and of run format 1, which has no checksums: nobody can "
                    f"tell which of its numbers are those that were written. {shell}."
                )
            whole, lost = _judged(found, table)
            if not whole:
                raise Refusal(f"{named} is damaged, and none of its steps has its {table} whole.")
            kept = (cells for step in whole for cells in _cells(found, table, *step))
            with replacing(target, mark=mark_of(to, table)) as fresh:
                _WRITERS[to](fresh, table, _records(kept, table))
    except Damaged as damage:
        raise Refusal(
            f"{named} is damaged, and no step can be read: {damage.what}. {shell}."
        ) from damage
    said = f"{len(whole)} of {len(whole) + len(lost)} steps have their {table} whole"
    more = f" and {len(lost) - 20} more" if len(lost) > 20 else ""
    return f"{said}; not whole: step {', '.join(lost[:20])}{more}." if lost else f"{said}."


Step = tuple[int, str, Span | None]  # step, time and rows of one table


def _judged(found: Snapshot, table: Table) -> tuple[list[Step], list[str]]:
    """Steps whose rows are whole, and the names of those whose are not."""
    place = STEPS[found.version]
    ever = [0]
    for query in ("SELECT max(seq) FROM sqlite_sequence", f"SELECT max(id) FROM {place}"):
        with suppress(sqlite3.Error):
            ever += [n for (n,) in found.file.execute(query) if isinstance(n, int)]
    pages, size = (found.file.execute(f"PRAGMA page_{w}").fetchone()[0] for w in ("count", "size"))
    most = pages * size // 100  # bytes of a step at least: no damaged count keeps us for ever
    whole, lost = list[Step](), list[str]()
    for number in range(1, min(max(ever) or most, most) + 1):
        name = f"(number {number}, whose name cannot be read)"
        query = f"SELECT step, time, rows FROM {place} WHERE id = ?"
        try:
            ((step, time, spans),) = found.file.execute(query, (number,)).fetchall()
            one = (step, time, parsed(spans).get(table))
            name = str(step)
            _cells(found, table, *one)
        except WRONG:
            lost.append(name)
        else:
            whole.append(one)
    return whole, lost


def _cells(
    found: Snapshot, table: Table, step: int, time: str, span: Span | None
) -> list[tuple[Any, ...]]:
    if span is None:
        return []
    query = f"{selection(table, found.version)} AND id < ? ORDER BY id"
    rows = found.file.execute(query, (span[0] - 1, span[0] + span[1]))
    return checked(rows, span, (step, time), written(table, found.version))


def _target(target: Path, run: Path, to: str, table: Table) -> Path:
    """Where to write, unless that would replace what must stay."""
    real = os.path.realpath(run)
    if os.path.realpath(target) in (real, f"{real}-wal", f"{real}-shm"):
        raise Refusal(f"{target} is the run file itself, or its log; write the export elsewhere.")
    require_target(target, mark=mark_of(to, table))
    return target


def _records(rows: Iterable[tuple[Any, ...]], table: Table) -> Iterator[dict[str, Any]]:
    names = ("step", "time", *COLUMNS[table])
    for cells in rows:
        record = dict(zip(names, cells, strict=True))
        yield {
            name: np.frombuffer(cell, "<f8").tolist() if isinstance(cell, bytes) else cell
            for name, cell in record.items()
        }


def _csv(path: Path, table: Table, records: Iterator[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("step", "time", *COLUMNS[table]))
        writer.writeheader()
        for record in records:
            writer.writerow(
                {k: json.dumps(v) if isinstance(v, list) else v for k, v in record.items()}
            )


def _json(path: Path, table: Table, records: Iterator[dict[str, Any]]) -> None:
    """A list of objects, one a line, so that memory stays small and `grep` works."""
    with path.open("w", encoding="utf-8") as file:
        opening = "[\n"
        for record in records:
            file.write(opening + json.dumps(encoded(record), allow_nan=False))
            opening = ",\n"
        file.write("[\n]\n" if opening == "[\n" else "\n]\n")


def _parquet(path: Path, table: Table, records: Iterator[dict[str, Any]]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise ImportError(
            "Parquet needs pyarrow: pip install 'sigmascope[parquet]'. Without it, export to csv "
            "or json."
        ) from missing
    kinds = {"TEXT": pa.string(), "INTEGER": pa.int64(), "REAL": pa.float64()}
    listed = pa.list_(pa.float64())
    columns = {"step": "INTEGER", "time": "TEXT", **COLUMNS[table]}
    schema = pa.schema(
        [(name, kinds.get(kind.removesuffix(" NULL"), listed)) for name, kind in columns.items()],
        metadata={"sigmascope export": table},
    )
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(records, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


_WRITERS: Mapping[str, Callable[[Path, Table, Iterator[dict[str, Any]]], None]] = MappingProxyType(
    {"parquet": _parquet, "csv": _csv, "json": _json}
)
