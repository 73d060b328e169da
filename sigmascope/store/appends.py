"""A step into a run file: all of it and its seal, or nothing."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sigmascope.store import images, seals
from sigmascope.store.refusals import Damaged, Unwritable
from sigmascope.store.tables import Table, insertion, sealed

PATIENCE = 30.0  # seconds a writer waits for another one to commit

Rows = Mapping[Table, list[tuple[Any, ...]]]


def append(real: Path, path: Path, step: int, rows: Rows) -> None:
    """Add rows at one step and seal them; the file is let go of before this returns.

    Between two steps no log lies beside the file, so that it can be copied and moved, and a process
    that is killed then leaves one file that holds everything.

    Args:
        real: The file, with no link in its name.
        path: What to call it.
        step: Step of training.
        rows: The cells of every table.

    Raises:
        Unwritable: If they cannot be written; the file is as it was.
        Damaged: If SQLite finds that the file is.
    """
    time = datetime.now(UTC).isoformat(timespec="microseconds")
    with _sentences(path), images.ALONE, closing(connect(f"{real.as_uri()}?mode=rw")) as file:
        # FULL waits for the disk, so that no step that was reported is lost with the power.
        file.execute("PRAGMA synchronous = FULL")
        file.execute("BEGIN IMMEDIATE")
        try:
            _insert(file, step, time, rows)
        except BaseException:  # whatever happened, half a step must not stay; it is raised again
            if file.in_transaction:  # SQLite may have taken it back already
                file.execute("ROLLBACK")
            raise
        file.execute("COMMIT")


def connect(uri: str) -> sqlite3.Connection:
    """The file for writing."""
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE)


def _insert(file: sqlite3.Connection, step: int, time: str, rows: Rows) -> None:
    number, previous = 1, ""
    for last, seal in file.execute("SELECT id, seal FROM seals ORDER BY id DESC LIMIT 1"):
        number, previous = last + 1, seal
    spans = {}
    for table, cells in rows.items():
        if cells:
            spans[table] = _fill(file, table, [(step, time, *row) for row in cells])
    seal = seals.made(seals.name(file), (number, step, time), spans, previous)
    file.execute("INSERT INTO seals VALUES (?, ?, ?, ?, ?, ?)", seal.cells())


def _fill(file: sqlite3.Connection, table: Table, rows: list[tuple[Any, ...]]) -> seals.Span:
    """Insert rows and read them back: sealed is what the file holds, not what was meant."""
    (last,) = file.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()
    file.executemany(insertion(table), rows)
    ends = last + 1, last + len(rows)
    for _, *cells in file.execute(sealed(table), ends):
        seals.require_kinds(table, cells)
    return seals.span(file, table, *ends)


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """What SQLite says, as a sentence with what to do."""
    kept = f"{path} is as it was before this step"
    try:
        yield
    except (TypeError, OverflowError, UnicodeError) as error:
        raise Unwritable(f"The step cannot be stored: {error}. {kept}.") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise Damaged(path, f"SQLite says that {error}") from error
        reason, remedy = _REASONS.get(code & 0xFF, (str(error), "see what SQLite says"))
        raise Unwritable(
            f"The step was not written: {reason} ({error}). {kept}; {remedy}."
        ) from error


_REASONS: Mapping[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: ("the disk is full", "make room and append it again"),
    sqlite3.SQLITE_IOERR: (
        "the disk is full, a limit of size is reached or the disk fails",
        "make room and append it again",
    ),
    sqlite3.SQLITE_BUSY: (
        f"another process has kept the file locked for {PATIENCE:.0f} seconds",
        "wait for it to end and append it again",
    ),
    sqlite3.SQLITE_READONLY: (
        "the file or its folder may not be written",
        "change its rights, or name another file for the run",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "the file cannot be opened, or no log can be made beside it",
        "see that the folder may be written and has room",
    ),
}
