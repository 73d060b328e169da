"""What is new in a run file since it was last read, without reading the rest again."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmascope.core.store.files import Changed, Damaged, snapshot, sound
from sigmascope.core.store.integrity import Position, steps
from sigmascope.core.store.rows import Row, row
from sigmascope.core.store.schema import Table

ROWS = 20_000  # that one look brings at most, whole steps aside
_BRIEF = 5  # looks that put nothing beside the file, until one is not disturbed by a writer


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
    rows: Mapping[Table, Sequence[tuple[Any, ...]]]
    mark: Position
    more: bool

    def records(self, table: Table) -> tuple[Row[Any], ...]:
        """The rows of a table as the records that they were; `Damaged` if they are none."""
        with sound(self.path, f"the {table} cannot be read"):
            return tuple(row(table, *cells) for cells in self.rows.get(table, ()))


def since(path: str | os.PathLike[str], mark: Position | None = None, *, most: int = ROWS) -> Fresh:
    """The steps appended to a run file since an earlier look, each checked against its checksums.

    Only the pages that hold them are read, so that a look takes as long as there is news. Checked
    are: that the last step read is still there, that the next ones follow it, every cell of theirs,
    and, with the last of them, that no step is missing and no row belongs to none. What was read
    before is not read again: `Run` looks at the whole file.

    Args:
        path: The run file; another process may be writing it.
        mark: From the look before; from the start without one.
        most: Rows after which a look ends; the steps in it are whole.

    Raises:
        Damaged: If the next step is not as it was written; whole ones before it come first.
        Replaced: If the mark is of another run, or its steps are no longer there.
        FileNotFoundError: If the file is not there.
        ValueError: If it is no run file of a version known here, or cannot be read now.

    Example:
        >>> import tempfile
        >>> from sigmascope.core.store import Run
        >>> folder = tempfile.TemporaryDirectory()
        >>> with Run(f"{folder.name}/mlp.run") as run:
        ...     run.add(step=0, about={"model": "mlp"})
        ...     first = since(run.path)
        ...     run.add(step=5, about={"model": "resnet"})
        ...     [word[3] for word in since(run.path, first.mark).rows["environment"]]
        ['resnet']
        >>> folder.cleanup()
    """
    for _ in range(_BRIEF):
        with suppress(Changed):
            return _look(Path(path), mark or Position(), most, brief=True)
    return _look(Path(path), mark or Position(), most, brief=False)


def _look(path: Path, mark: Position, most: int, *, brief: bool) -> Fresh:
    rows: dict[Table, list[tuple[Any, ...]]] = {}
    count, more = 0, False
    with snapshot(path, brief=brief) as found:
        try:
            for reached, new in steps(found, mark):
                if count >= most:
                    more = True
                    break
                for table, cells in new.items():
                    rows.setdefault(table, []).extend(cells)
                    count += len(cells)
                mark = reached
        except Damaged:
            if not rows:
                raise
            more = True  # the next look begins with what is wrong
    return Fresh(path, rows, mark, more)
