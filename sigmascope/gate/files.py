"""The one way in which files are written: whole or not at all, and never over what is not ours.

A file is written beside its target, brought to the disk, and takes the target's place in one step:
whoever looks, and whatever interrupts, there is the old file or the new one. The target must be
nothing, or a regular file that an earlier run of sigmascope wrote, which is told by how it begins
and ends (words within it prove nothing: they may be quoted). Anything else (a device, a folder, the
user's notes) is refused before any work is done.
"""

import errno
import json
import os
import re
import secrets
import stat
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from sigmascope.gate.refusals import NoFolder, Refusal, printable

ENDS = 1 << 16  # bytes at either end of a file that are looked at
FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your share of the disk is full",
    errno.EFBIG: "a file may not be that large here",
}
NAME = 200  # bytes of a target's name that its fresh file repeats: names end at 255


@dataclass(frozen=True, slots=True)
class Mark:
    """How every file of a kind that is written here begins, and how it ends.

    Attributes:
        begins: A regular expression that its first bytes match.
        ends: One that its last bytes match, from some place on to the end.
    """

    begins: bytes
    ends: bytes = b""

    def fits(self, file: Path) -> bool:
        """Whether a file has no bytes, or begins and ends so."""
        with file.open("rb") as content:
            size = content.seek(0, os.SEEK_END)
            content.seek(0)
            head = content.read(ENDS)
            content.seek(max(size - ENDS, 0))
            tail = content.read(ENDS)
        begun = re.match(self.begins, head, re.DOTALL)
        ended = re.search(self.ends + rb"\Z", tail, re.DOTALL)
        return size == 0 or (begun is not None and ended is not None)


def require_target(path: str | os.PathLike[str], *, mark: Mark) -> Path:
    """Refuse what could not be written after the work, or what would destroy a file of the user.

    Args:
        path: What is to be written; a link is followed.
        mark: Of the files of this kind that sigmascope writes.

    Returns:
        The file that will be written, with links followed.

    Raises:
        Refusal: If there is no folder for it or nothing can be made in that folder, or if there is
            something that has bytes and not the mark.
    """
    try:
        named = Path(path)
        target = Path(os.path.realpath(named))  # unlike Path.resolve it bears links in a circle
        if not target.parent.is_dir():
            raise NoFolder(
                f"The folder {named.parent} for {named.name} does not exist; "
                f"make it with `mkdir -p {named.parent}`."
            )
        _require_ours(named, target, mark)
        _fresh(target).unlink()  # the only sure sign that a folder takes files
    except Refusal:
        raise
    except (OSError, ValueError) as error:  # a name may hold a null byte
        raise Refusal(failed(path, error)) from error
    return target


@contextmanager
def replacing(path: str | os.PathLike[str], *, mark: Mark) -> Iterator[Path]:
    """A fresh file that takes the place of `path` when the block ends well.

    Args:
        path: As for `require_target`.
        mark: As for `require_target`; the block writes it.

    Raises:
        Refusal: As `require_target`, and if the disk has no room; what was there is then whole.
    """
    target = require_target(path, mark=mark)
    fresh = _fresh(target)
    try:
        yield fresh
        with suppress(FileNotFoundError):
            fresh.chmod(stat.S_IMODE(target.stat().st_mode))
        _to_disk(fresh)
        fresh.replace(target)
        _to_disk(target.parent)
    except Refusal:
        raise
    except OSError as error:
        raise Refusal(failed(path, error)) from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str, *, mark: Mark) -> Path:
    """Write a text file, UTF-8 with bare line feeds.

    What UTF-8 has no bytes for (half of a surrogate pair, from a file name that is no text) is
    written as an escape.

    Raises:
        Refusal: As `replacing`.
    """
    with replacing(path, mark=mark) as fresh:
        fresh.write_bytes(text.encode("utf-8", "backslashreplace"))
    return Path(path)


def failed(path: str | os.PathLike[str], error: Exception) -> str:
    """The sentence for a file that could not be written."""
    why = FULL.get(getattr(error, "errno", None) or 0) or getattr(error, "strerror", None) or error
    do = "make room" if getattr(error, "errno", None) in FULL else "name another file"
    return f"{path} cannot be written: {why}. What was there is as it was; {do}."


def _require_ours(path: Path, target: Path, mark: Mark) -> None:
    try:
        kind = target.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(kind):
        raise Refusal(f"{path} is a folder; name a file in it.")
    if not stat.S_ISREG(kind):
        raise Refusal(
            f"{path} must be a file or nothing, got a device, pipe or socket: name a file."
        )
    if not mark.fits(target):
        raise Refusal(
            f"{path} is there already and no file of this kind that sigmascope wrote; it was left "
            "as it is. Move it away, or name another file."
        )


def _fresh(target: Path) -> Path:
    """An empty file beside the target that nobody else has."""
    stem = os.fsdecode(os.fsencode(target.name)[:NAME])
    fresh = target.with_name(f".{stem}-{secrets.token_hex(4)}.part")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return fresh


def _to_disk(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system on which folders have no fsync
            raise
    finally:
        os.close(opened)


T = TypeVar("T", bound="Closing")


class Closing(ABC):
    """Something with `close`, which a `with` block calls at its end, also after an error."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ------------------------------------------------------------------------------
# Rows that are kept as they come: one append-only file of lines, which knows what made it.
#
# The first line is the recipe, every parameter that shaped the rows; a file of another recipe is
# refused. Every line carries a checksum. A line that was cut by an interruption is the last one,
# has no end, and is taken off when the file is opened to go on: nothing else is ever removed, and a
# file that does not begin as one of these is not touched.


Row = dict[str, Any]
LONGEST = 1 << 24  # bytes of a first line; nothing longer can be ours


class RowFile(Closing):
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
            try:
                _hold(self._file, path)
                self.rows = self._checked()
            except BaseException:
                self._file.close()
                raise
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
            content = _line(row).encode()
            while content:
                content = content[os.write(file, content) :]
            os.fsync(file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(file, end)
            raise Refusal(failed(self.path, error)) from error
        self.rows.append(json.loads(json.dumps(row)))

    def _checked(self) -> list[Row]:
        """Every row, with a cut last line taken off once all before it is known to be ours."""
        first = self._file.readline(LONGEST)
        head = _read(first)
        if head is None or head.get("sigmascope") != self.kind or not first.endswith(b"\n"):
            raise Refusal(
                f"{self.path} is no file of rows of a {self.kind}, or its first line is damaged; "
                "it was left as it is. Name another file."
            )
        if (found := head.get("recipe")) != self.recipe:
            here = found if isinstance(found, dict) else {}
            names = [n for n in {**self.recipe, **here} if here.get(n) != self.recipe.get(n)]
            said = ", ".join(
                f"{n} is {_short(here.get(n))} there and {_short(self.recipe.get(n))} here"
                for n in names[:3]
            )
            raise Refusal(
                f"{self.path} must hold rows of the same {self.kind}: {said}. It was left as it "
                "is; name another file, or ask for the same again."
            )
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
