"""Rows that are kept as they come: one append-only file of lines, which knows what made it.

The first line is the recipe, every parameter that shaped the rows; a file of another recipe is
refused. Every line carries a checksum. A line that was cut by an interruption is the last one, has
no end, and is taken off when the file is opened to go on: nothing else is ever removed, and a file
that does not begin as one of these is not touched.
"""

import json
import os
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from sigmascope.gate.refusals import Refusal, printable
from sigmascope.gate.writing import Closing, Mark, failed, require_target, write_text

Row = dict[str, Any]
LONGEST = 1 << 24  # bytes of a first line; nothing longer can be ours


class Rows(Closing):
    """The rows of one recipe in a file, open to be added to by one process at a time.

    Args:
        path: The file; made with its first line if it is not there.
        kind: What the rows are, a word.
        recipe: Everything that shaped them, as JSON.

    Raises:
        Refusal: If the file is something else, is damaged, has another recipe, is held by another
            process, or cannot be written.
    """

    def __init__(self, path: Path, *, kind: str, recipe: Mapping[str, Any]) -> None:
        self.path, self.kind = path, kind
        self.recipe = json.loads(json.dumps(dict(recipe)))
        head = _line({"sigmascope": kind, "recipe": self.recipe})
        mark = Mark(re.escape(f'{{"sigmascope": {json.dumps(kind)}, "recipe": '.encode()))
        try:
            require_target(path, mark=mark)
            if not path.exists() or path.stat().st_size == 0:
                write_text(path, head, mark=mark)
            self._file = path.open("r+b")
            self.rows = self._opened()
        except OSError as error:
            raise Refusal(failed(path, error)) from error

    def close(self) -> None:
        """Let go of the file; whatever was added is in it."""
        self._file.close()

    def add(self, row: Row) -> None:
        """Append one row; it is on the disk when this returns.

        Raises:
            Refusal: If there is no room for it; the file is then as before.
        """
        file = self._file.fileno()  # a buffer would write what is in it when it is closed
        end = os.lseek(file, 0, os.SEEK_END)
        try:
            _write(file, _line(row).encode())
            os.fsync(file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(file, end)
            raise Refusal(failed(self.path, error)) from error
        self.rows.append(json.loads(json.dumps(row)))

    def _opened(self) -> list[Row]:
        try:
            _hold(self._file, self.path)
            rows = self._checked()
        except BaseException:
            self._file.close()
            raise
        return rows

    def _checked(self) -> list[Row]:
        """Every row, with a cut last line taken off once all before it is known to be ours."""
        first = self._file.readline(LONGEST)
        head = _read(first)
        if head is None or head.get("sigmascope") != self.kind or not first.endswith(b"\n"):
            raise Refusal(
                f"{self.path} is no file of rows of a {self.kind}, or its first line is damaged; "
                "it was left as it is. Name another file."
            )
        self._require_recipe(head.get("recipe"))
        rows, whole = [], self._file.tell()
        for number, line in enumerate(self._file, start=2):
            row = _read(line)
            if not line.endswith(b"\n"):  # cut while it was written
                self._file.truncate(whole)
                break
            if row is None:
                raise Refusal(
                    f"{self.path} is damaged in line {number}: its checksum does not fit. It was "
                    "left as it is; take a copy of it that is whole, or name another file."
                )
            rows.append(row)
            whole += len(line)
        return rows

    def _require_recipe(self, found: Any) -> None:
        if found == self.recipe:
            return
        here = found if isinstance(found, dict) else {}
        names = [n for n in {**self.recipe, **here} if here.get(n) != self.recipe.get(n)]
        said = ", ".join(
            f"{n} is {_short(here.get(n))} there and {_short(self.recipe.get(n))} here"
            for n in names[:3]
        )
        raise Refusal(
            f"{self.path} must hold rows of the same {self.kind}: {said}. It was left as it is; "
            "name another file, or ask for the same again."
        )


def _line(row: Mapping[str, Any]) -> str:
    text = json.dumps(row)
    return f'{text[:-1]}{", " if row else ""}"crc32": {zlib.crc32(text.encode())}}}\n'


def _read(line: bytes) -> Row | None:
    """The row of a line; nothing where it is not as it was written."""
    try:
        row = json.loads(line)
        kept = row.pop("crc32")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None
    return row if zlib.crc32(json.dumps(row).encode()) == kept else None


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


def _hold(file: BinaryIO, path: Path) -> None:
    """Keep other processes from adding rows, where the system can."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refusal(
            f"Another process is adding rows to {path}. Wait for it, or name another file."
        ) from error
    except OSError:  # a file system without locks
        return


def _short(value: Any) -> str:
    text = printable(json.dumps(value))
    return text if len(text) <= 40 else f"{text[:39]}…"
