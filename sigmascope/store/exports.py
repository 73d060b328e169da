"""A table of a run file in a form that other tools read."""

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from sigmascope.gate import Mark, Refusal, replacing, require_target
from sigmascope.records.encoding import strict
from sigmascope.store import codecs
from sigmascope.store.refusals import require_file
from sigmascope.store.runs import Run
from sigmascope.store.salvages import rows, salvaged
from sigmascope.store.tables import COLUMNS, Table

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


def export(
    run_path: str | os.PathLike[str],
    *,
    to: Format,
    path: str | os.PathLike[str],
    table: Table = "readings",
) -> Path:
    """Write one table of a run file as Parquet, CSV or JSON.

    The columns are `step`, `time` (UTC, ISO 8601) and those of `store.tables.COLUMNS`. Singular
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
    named = Path(run_path)
    target = _target(Path(path), named, to, table)
    require_file(named)
    part, file = salvaged(Path(os.path.realpath(named)), named, table)
    with closing(file), replacing(target, mark=mark_of(to, table)) as fresh:
        _WRITERS[to](fresh, table, _records(rows(file, part, table), table))
    return part.says(table)


def _target(target: Path, run: Path, to: str, table: Table) -> Path:
    """Where to write, unless that would replace what must stay."""
    if to not in _WRITERS:
        raise Refusal(f"`to` must be one of {', '.join(_WRITERS)}, got {to!r}.")
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
            name: codecs.numbers(cell) if isinstance(cell, bytes) else cell
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
            line = {name: _strict(cell) for name, cell in record.items()}
            file.write(opening + json.dumps(line, allow_nan=False))
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


def _strict(cell: Any) -> Any:
    if isinstance(cell, list):
        return [strict(number) for number in cell]
    return strict(cell) if isinstance(cell, float) else cell


_WRITERS: Mapping[str, Callable[[Path, Table, Iterator[dict[str, Any]]], None]] = MappingProxyType(
    {"parquet": _parquet, "csv": _csv, "json": _json}
)
