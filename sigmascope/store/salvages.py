"""What is whole in a run file that is damaged."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmascope.gate import Refusal
from sigmascope.store import seals
from sigmascope.store.images import Picture, opened, take
from sigmascope.store.refusals import WRONG, Damaged, sound
from sigmascope.store.seals import Seal
from sigmascope.store.tables import Table, sealed
from sigmascope.store.wholes import declared, present, require_kin

_SMALLEST = 100  # bytes that a seal takes at least, so that no damaged count keeps us for ever


@dataclass(frozen=True, slots=True)
class Part:
    """What can be said of one table of a damaged file.

    Attributes:
        whole: Steps whose rows are all as they were written, in the order of writing.
        lost: Steps some of whose rows are not.
        nameless: How many steps more were appended whose own seal cannot be read.
    """

    whole: tuple[Seal, ...]
    lost: tuple[Seal, ...]
    nameless: int

    def says(self, table: Table) -> str:
        """One sentence."""
        kept = (
            f"{len(self.whole)} of {len(self.whole) + len(self.lost) + self.nameless} steps have "
        )
        named = ", ".join(str(seal.step) for seal in self.lost[:20])
        more = f" and {len(self.lost) - 20} more" if len(self.lost) > 20 else ""
        words = f"{kept}their {table} whole"
        words += f"; not whole: step {named}{more}" if named else ""
        unknown = f"; {self.nameless} whose number cannot be read" if self.nameless else ""
        return f"{words}{unknown}."


def salvaged(real: Path, path: Path, table: Table) -> tuple[Part, sqlite3.Connection]:
    """The part of a table that is certainly what was written, and where to read it.

    Raises:
        Damaged: If no step can be told to be whole.
    """
    picture = take(real, path, strictly=False)
    if picture.version == 1:
        raise Refusal(
            f"{path} is damaged, and of run format 1, which has no checksums: nobody can tell "
            f"which of its numbers are those that were written. `sqlite3 {path} .recover` shows "
            "what SQLite can read."
        )
    best: tuple[Part, sqlite3.Connection] | None = None
    for view in _views(picture):
        try:
            with sound(path, "no step in it can be read"):
                file = opened(view, mended=True)
                part = _part(file, view, table)
        except Damaged:
            continue
        if best is None or len(part.whole) > len(best[0].whole):
            best = part, file
    if best is None or not best[0].whole:
        raise Refusal(f"{path} is damaged, and none of its steps has its {table} whole.")
    return best


def rows(file: sqlite3.Connection, part: Part, table: Table) -> Iterator[tuple[Any, ...]]:
    """The cells of the whole steps, `(step, time, *COLUMNS[table])` each."""
    for seal in part.whole:
        if (span := seal.rows.get(table)) is not None:
            yield from (cells[1:] for cells in file.execute(sealed(table), span.ends))


def _views(picture: Picture) -> Iterable[Picture]:
    """With its log and without: the log may be another file's, and the file may need it."""
    return (picture, picture.without_log()) if picture.log else (picture,)


def _part(file: sqlite3.Connection, picture: Picture, table: Table) -> Part:
    if picture.log:
        require_kin(file, picture)
    asked = {(kind, name) for kind, name, *_ in declared(2) & present(file)}
    if not asked >= {("table", "seals"), ("table", table)}:
        raise ValueError(f"{table} or their seals are missing or changed")
    run = seals.name(file)
    ever = _ever(file, len(picture.main) + len(picture.log))
    found = tuple(seal for number in range(1, ever + 1) if (seal := _seal(file, run, number)))
    judged = [(seal, _is_whole(file, table, seal)) for seal in found]
    whole, lost = (tuple(s for s, is_whole in judged if is_whole is as_) for as_ in (True, False))
    return Part(whole, lost, ever - len(found))


def _ever(file: sqlite3.Connection, size: int) -> int:
    """How many steps were appended, as far as anything in the file still says."""
    said = [0]
    for query in ("SELECT max(seq) FROM sqlite_sequence", "SELECT max(id) FROM seals"):
        with suppress(sqlite3.Error):
            said += [n for (n,) in file.execute(query) if isinstance(n, int)]
    return min(max(said) or size, size // _SMALLEST)


def _seal(file: sqlite3.Connection, run: str, number: int) -> Seal | None:
    try:
        (cells,) = file.execute("SELECT * FROM seals WHERE id = ?", (number,)).fetchall()
        return seals.parsed(run, cells)
    except WRONG:  # no seal, or a damaged one
        return None


def _is_whole(file: sqlite3.Connection, table: Table, seal: Seal) -> bool:
    try:
        if (span := seal.rows.get(table)) is not None:
            seals.require_span(file, table, span)
    except WRONG:
        return False
    return True
