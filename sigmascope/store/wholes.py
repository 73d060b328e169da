"""Whether a run file holds what was written to it, from its pages up to the last number."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

from sigmascope.store import seals
from sigmascope.store.images import Picture, opened, take
from sigmascope.store.refusals import Damaged, sound
from sigmascope.store.seals import Seal
from sigmascope.store.tables import script, tables

_MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"

_PAUSE = 0.05  # seconds


def whole(picture: Picture) -> sqlite3.Connection:
    """The run file as a database in which every number has been checked.

    Raises:
        Damaged: If anything in it is not as it was written.
    """
    with sound(picture.path, "it cannot be opened"):
        file = opened(picture)
    try:
        require_whole(file, picture)
    except BaseException:  # nothing of it may be used; it is raised again
        file.close()
        raise
    return file


def view(real: Path, path: Path) -> tuple[Picture, sqlite3.Connection]:
    """A run file as it is now, with every number checked.

    Raises:
        Damaged: If anything in it is not as it was written, and another look shows the same.
        ValueError: If it is no run file of a version known here.
        FileNotFoundError: If it is not there.
    """
    picture = take(real, path)
    while True:
        try:
            file = whole(picture)
            return picture.forgotten(), file
        except Damaged:
            time.sleep(_PAUSE)  # a writer may have been at work while the clock of the disk stood
            again = take(real, path)
            if (again.main, again.log, again.seen) == (picture.main, picture.log, picture.seen):
                raise
            picture = again


def require_whole(file: sqlite3.Connection, picture: Picture) -> None:
    """Raise `Damaged` unless all of a file is as it was written."""
    path, version = picture.path, picture.version
    require_tables(file, path, version)
    with sound(path, "its pages do not fit together"):
        (said,) = file.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise ValueError(said)
    if version == 1:  # no seals, so that only what SQLite itself knows can be checked
        return
    if picture.log:
        require_kin(file, picture)
    with sound(path, "its steps do not follow from each other"):
        chain = tuple(_chain(file))
    for seal in chain:
        for table in tables():
            if (span := seal.rows.get(table)) is not None:
                with sound(
                    path, f"the {table} of step {seal.step} are not those that were written"
                ):
                    seals.require_span(file, table, span)
    with sound(path, "it holds rows that belong to no step"):
        _require_no_more(file, chain)


def require_tables(file: sqlite3.Connection, path: Path, version: int) -> None:
    """Raise unless the tables are declared as this version declares them, and nothing acts."""
    with sound(path, "its tables cannot be told"):
        there = present(file)
        missing = sorted(name for _, name, *_ in declared(version) - there)
        if missing:
            raise ValueError(f"{', '.join(missing)} missing or changed")
        acting = {name for kind, name, *_ in there - declared(version) if kind == "trigger"}
        if acting:
            raise ValueError(f"{', '.join(sorted(acting))} added")


def present(file: sqlite3.Connection) -> set[tuple[str, str, str, str]]:
    """What SQLite keeps of the tables, triggers and indices of a file."""
    return set(file.execute(_MASTER))


def require_kin(file: sqlite3.Connection, picture: Picture) -> None:
    """Raise if the log beside a file is the log of another run, which SQLite would not notice."""
    with sound(picture.path, "its log belongs to another file"):
        with closing(opened(picture.without_log(), mended=True)) as alone:
            mine, theirs = seals.name(alone), seals.name(file)
        if mine != theirs:
            raise ValueError(f"run {mine} was expected, {theirs} came")


def _chain(file: sqlite3.Connection) -> Iterator[Seal]:
    run = seals.name(file)
    (ever,) = file.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence").fetchone()
    number, previous = 0, ""
    for number, cells in enumerate(file.execute("SELECT * FROM seals ORDER BY id"), 1):
        seal = seals.parsed(run, cells)
        if (seal.number, seal.previous) != (number, previous):
            raise ValueError(f"step {seal.step} does not follow the one before it")
        previous = seal.seal
        yield seal
    if number != ever:
        raise ValueError(f"{ever} were appended and {number} are there")


def _require_no_more(file: sqlite3.Connection, chain: tuple[Seal, ...]) -> None:
    for table in tables():
        spans = [seal.rows[table] for seal in chain if table in seal.rows]
        following = 1
        for span in spans:
            if span.first != following:
                raise ValueError(f"row {following} of {table}")
            following += span.count
        (count,) = file.execute(f"SELECT count(*) FROM {table}").fetchone()
        if count != following - 1:
            raise ValueError(f"{following - 1} rows of {table} were written, {count} are there")


@cache
def declared(version: int) -> frozenset[tuple[str, str, str, str]]:
    """What SQLite keeps of the tables, triggers and indices of this version."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(script("", version))
        return frozenset(empty.execute(_MASTER))
