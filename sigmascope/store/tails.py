"""What is new in a run file since it was last read, checked, without reading the rest again."""

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sigmascope.store import codecs, seals
from sigmascope.store.images import ALONE, Picture, glance, in_place, opened, signature, take
from sigmascope.store.refusals import Damaged, Replaced, require_file, sound
from sigmascope.store.rows import Row
from sigmascope.store.seals import Seal
from sigmascope.store.tables import Table, selection, tables
from sigmascope.store.wholes import require_kin, require_tables

ROWS = 20_000  # that one look brings at most, whole steps aside
_TRIES, _PAUSE = 50, 0.02  # seconds between

Rows = Mapping[Table, Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a run file has been read.

    Attributes:
        run: Its name, 32 hexadecimal digits; empty for format 1, which has none.
        seal: The cells of the last seal read; empty before the first.
        ends: Number of the last row read of each table.
    """

    run: str
    seal: tuple[Any, ...] = ()
    ends: Mapping[Table, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Fresh:
    """Whole steps that were not read before.

    Attributes:
        path: The run file.
        rows: The cells `(step, time, *COLUMNS[table])` of every table that has some, in the order
            of writing.
        mark: How far the file has been read with them; to be given to the next look.
        more: Whether steps are left for the next look.
    """

    path: Path
    rows: Rows
    mark: Mark
    more: bool

    def records(self, table: Table) -> tuple[Row[Any], ...]:
        """The rows of a table as the records that they were; `Damaged` if they are none."""
        with sound(self.path, f"the {table} cannot be read"):
            return tuple(codecs.row(table, *cells) for cells in self.rows.get(table, ()))


def since(path: str | os.PathLike[str], mark: Mark | None = None, *, most: int = ROWS) -> Fresh:
    """The steps appended to a run file since an earlier look, each checked against its seal.

    Only the pages that hold them are read, so that a look takes as long as there is news. Checked
    are: the name of the run, the declared tables, that the last seal read is still there, that new
    seals follow it and are as they were made, every cell they cover, and, with the last of them,
    that no step is missing and no row belongs to none. What was read before is not read again:
    `Run` looks at the whole file.

    Args:
        path: The run file; another process may be writing it.
        mark: From the look before; from the start without one.
        most: Rows after which a look ends; the steps in it are whole.

    Raises:
        Damaged: If the next step is not as it was written; whole ones before it come first.
        Replaced: If the mark is of another run, or its steps are no longer there.
        FileNotFoundError: If the file is not there.
        ValueError: If it is no run file of a version known here.

    Example:
        >>> import tempfile
        >>> from sigmascope.store import Run
        >>> folder = tempfile.TemporaryDirectory()
        >>> with Run(f"{folder.name}/mlp.run") as run:
        ...     run.add(step=0, about={"model": "mlp"})
        ...     first = since(run.path)
        ...     run.add(step=5, about={"model": "resnet"})
        ...     [word[3] for word in since(run.path, first.mark).rows["environment"]]
        ['resnet']
        >>> folder.cleanup()
    """
    path = Path(path)
    real = Path(os.path.realpath(path))
    failed = None
    for _ in range(_TRIES):
        require_file(path)
        with ALONE:
            seen = signature(real)
            if seen[1] is None:  # no log: what was appended is in the file
                found = _in_place(real, path, mark, most)
                if signature(real) == seen:
                    if isinstance(found, Fresh):
                        return found
                    if failed == seen:
                        raise found
                    failed = seen
        time.sleep(_PAUSE)  # a writer is at work, or the clock of the disk stood
    return _overlaid(real, path, mark, most)


def _in_place(real: Path, path: Path, mark: Mark | None, most: int) -> Fresh | Damaged:
    """What is there, or what is wrong, which may only be that a writer is at work."""
    try:
        picture = glance(real, path)
        with closing(in_place(picture)) as file:
            return _read(file, picture, mark, most)
    except Damaged as damage:
        return damage


def _overlaid(real: Path, path: Path, mark: Mark | None, most: int) -> Fresh:
    """With a log that stays beside the file, as a writer that was killed leaves it."""
    picture = take(real, path)
    with sound(path, "it cannot be opened"):
        file = opened(picture)
    with closing(file):
        if picture.log and picture.version > 1:
            require_kin(file, picture)
        return _read(file, picture, mark, most)


def _read(file: sqlite3.Connection, picture: Picture, mark: Mark | None, most: int) -> Fresh:
    require_tables(file, picture.path, picture.version)
    if picture.version == 1:
        return _unsealed(file, picture, mark)
    with sound(picture.path, "it has no name"):
        name = seals.name(file)
    mark = mark or Mark(name)
    _require_same(file, picture.path, mark, name)
    return _sealed(file, picture.path, mark, most)


def _sealed(file: sqlite3.Connection, path: Path, mark: Mark, most: int) -> Fresh:
    rows: dict[Table, list[tuple[Any, ...]]] = {}
    count, more, ends, last = 0, False, dict(mark.ends), mark.seal
    try:
        for seal in _following(file, path, mark):
            if count >= most:
                more = True
                break
            new = _rows(file, path, seal, ends)
            for table, cells in new.items():
                rows.setdefault(table, []).extend(cells)
                ends[table] = ends.get(table, 0) + len(cells)
                count += len(cells)
            last = seal.cells()
        else:
            _require_end(file, path, last, ends)
    except Damaged:
        if not rows:
            raise
        more = True  # the next look begins with what is wrong
    return Fresh(path, rows, Mark(mark.run, last, ends), more)


def _require_same(file: sqlite3.Connection, path: Path, mark: Mark, name: str) -> None:
    if mark.run != name:
        raise Replaced(path, f"run {mark.run[:12]} was expected, {name[:12]} came")
    if not mark.seal:
        return
    with sound(path, "the last step that was read cannot be read"):
        found = file.execute("SELECT * FROM seals WHERE id = ?", mark.seal[:1]).fetchall()
    if found != [mark.seal]:
        raise Replaced(path, f"step {mark.seal[1]}, which was read before, is no longer in it")


def _following(file: sqlite3.Connection, path: Path, mark: Mark) -> Iterator[Seal]:
    """The seals after a mark, each as it was made and after the one before it."""
    number, previous = (mark.seal[0], mark.seal[-1]) if mark.seal else (0, "")
    with sound(path, "its steps do not follow from each other"):
        for cells in file.execute("SELECT * FROM seals WHERE id > ? ORDER BY id", (number,)):
            seal = seals.parsed(mark.run, cells)
            if (seal.number, seal.previous) != (number + 1, previous):
                raise ValueError(f"step {seal.step} does not follow the one before it")
            number, previous = seal.number, seal.seal
            yield seal


def _rows(
    file: sqlite3.Connection, path: Path, seal: Seal, ends: Mapping[Table, int]
) -> dict[Table, list[tuple[Any, ...]]]:
    found = {}
    for table in tables():
        if (span := seal.rows.get(table)) is None:
            continue
        with sound(path, f"the {table} of step {seal.step} are not those that were written"):
            if span.first != ends.get(table, 0) + 1:
                raise ValueError(f"row {ends.get(table, 0) + 1} was expected, {span.first} came")
            found[table] = seals.fetched(file, table, span)
    return found


def _require_end(
    file: sqlite3.Connection, path: Path, last: tuple[Any, ...], ends: Mapping[Table, int]
) -> None:
    """Raise unless the seals that were read are all there are, and the rows all theirs."""
    with sound(path, "its steps do not follow from each other"):
        (ever,) = file.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence").fetchone()
        if ever != (last[0] if last else 0):
            raise ValueError(f"{ever} were appended and {last[0] if last else 0} are there")
    with sound(path, "it holds rows that belong to no step"):
        for table in tables():
            (there,) = file.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()
            if there != ends.get(table, 0):
                raise ValueError(f"{ends.get(table, 0)} rows of {table} were written, {there} came")


def _unsealed(file: sqlite3.Connection, picture: Picture, mark: Mark | None) -> Fresh:
    """All of a file of format 1, which nothing is appended to any more."""
    rows: dict[Table, list[tuple[Any, ...]]] = {}
    for table in tables(1) if mark is None else ():
        with sound(picture.path, f"the {table} cannot be read"):
            rows[table] = file.execute(selection(table, 1)).fetchall()
            for cells in rows[table]:
                seals.require_kinds(table, cells)
    return Fresh(picture.path, rows, mark or Mark(""), more=False)
