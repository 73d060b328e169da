"""What the doors of this room say about files they will not touch."""

import os
import shlex
import sqlite3
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sigmascope.gate import Refusal
from sigmascope.store.tables import APPLICATION, VERSION

_MAGIC = b"SQLite format 3\0"


class Damaged(Refusal):
    """A run file that does not hold what was written; it was left as it is."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what
        super().__init__(
            f"{path} is damaged: {what}. It was left as it is; `sigmascope export "
            f"{shlex.quote(str(path))} --to csv` writes the steps that are whole."
        )


class Replaced(Refusal):
    """A run file that is no longer the one that was being followed."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} was replaced while it was followed: {what}. Read it anew.")


class Unwritable(Refusal):
    """A run file that takes no step now; it is as it was before."""


# What wrong bytes make of SQLite, of JSON, of times, and of our own reading of them.
WRONG = (
    sqlite3.Error,
    struct.error,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
)


@contextmanager
def sound(path: Path, what: str) -> Iterator[None]:
    """Name whatever goes wrong inside as damage, for the bytes of a file are all that goes in."""
    try:
        yield
    except Damaged:
        raise
    except WRONG as error:
        words = " ".join(str(error).split())[:200]
        raise Damaged(path, f"{what} ({words or type(error).__name__})") from error


def require_file(path: Path) -> None:
    """Raise unless there is an ordinary file; nothing is opened, for a pipe would wait for ever."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        link = f": it links to {path.readlink()}, which is missing" if path.is_symlink() else ""
        raise FileNotFoundError(
            f"There is no run file at {path}{link}. `sigmascope profile MODEL --run {path}` "
            "writes one."
        ) from None
    except OSError as error:  # a link to itself, a name too long, a folder we may not enter
        raise FileNotFoundError(f"There is no run file at {path}: {error.strerror}.") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        raise FileNotFoundError(
            f"There is no run file at {path}: it is {kind}. Name an ordinary file for the run."
        )


def require_rights(real: Path, path: Path) -> None:
    """Raise if a file may not be appended to; SQLite finds out when it has made a log already."""
    for place in (real, real.parent):
        if not os.access(place, os.W_OK):
            raise Unwritable(
                f"The run file {path} may be read only: {place} may not be written. Nothing was "
                "changed; change its rights, or name another file for the run."
            )


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the marks of a run file, whatever its version; False if there is none."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return False
        with Path(path).open("rb") as file:
            header = file.read(100)
    except (OSError, ValueError):  # not there, not to be read, or no name of a file
        return False
    return len(header) == 100 and struct.unpack_from(">I", header, 68)[0] == APPLICATION


def require_marks(path: Path, header: bytes) -> int:
    """The version of a run file by its first bytes; raise unless it is one that is known here.

    The marks are read from the header and not through SQLite, which would already create files
    beside a foreign database in order to look into it.
    """
    marked = len(header) >= 100 and struct.unpack_from(">I", header, 68)[0] == APPLICATION
    if not marked:
        found = "an SQLite file of another program" if header.startswith(_MAGIC) else "not SQLite"
        raise Refusal(
            f"{path} is not a sigmascope run file: it is {found if header else 'empty'}. "
            "It was left as it is; name another file for the run."
        )
    (version,) = struct.unpack_from(">I", header, 60)
    if header.startswith(_MAGIC) and version > VERSION:
        raise Refusal(
            f"{path} was written by a newer sigmascope (run format {version}, this one knows "
            f"{VERSION}). It was left as it is; upgrade with `pip install -U sigmascope`."
        )
    if not header.startswith(_MAGIC) or version < 1 or header[18:20] not in (b"\1\1", b"\2\2"):
        raise Damaged(path, "its first bytes are not those of a run file")
    return version
