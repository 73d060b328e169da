"""The bytes of a run file as they are at one instant, opened in memory.

Reading through SQLite itself would fold the log of a writer that was killed into the file, or
leave two files beside it. A picture of the bytes changes nothing, needs no lock that another
process could withhold, and does not grow between the check of a number and the reading of it.
"""

import os
import sqlite3
import stat
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sigmascope.gate import Refusal
from sigmascope.store import logs
from sigmascope.store.refusals import Damaged, require_file, require_marks, sound

LARGEST = 2**30  # bytes taken into memory; SQLite can hold less than 2**31
_TRIES, _PAUSE = 200, 0.01  # seconds between

# Closing any handle of a file takes from this process the locks that SQLite holds on it, so no file
# is read here while SQLite writes in another thread.
ALONE = threading.RLock()

Signature = tuple[tuple[int, int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A run file and its log.

    Attributes:
        path: Their name, for words.
        real: Where they were, with no link in the name.
        main: The file; only its first bytes where it is larger than `LARGEST` or no longer needed.
        log: The log beside it; empty if there is none, or it is no longer needed.
        version: Of the format.
        seen: How the files looked from outside; they have not changed while this is so.
        when: When that was, in nanoseconds.
    """

    path: Path
    real: Path
    main: bytes
    log: bytes
    version: int
    seen: Signature
    when: int

    @property
    def page(self) -> int:
        """Bytes of a page."""
        (size,) = struct.unpack_from(">H", self.main, 16)
        return 65536 if size == 1 else size

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.seen[0][2] if self.seen[0] else 0

    @property
    def settled(self) -> bool:
        """Whether a change since would show: clocks of file systems tick in milliseconds."""
        newest = max(entry[3] for entry in self.seen if entry is not None)
        return self.when - newest > 10**9

    def without_log(self) -> "Picture":
        """The file alone."""
        return replace(self, log=b"")

    def forgotten(self) -> "Picture":
        """All but the content, of which a database holds a copy by now."""
        return replace(self, main=self.main[:100], log=b"")


def signature(path: Path) -> Signature:
    """How a run file and its log look from outside."""
    return tuple(_look(Path(f"{path}{end}")) for end in ("", "-wal"))


def take(real: Path, path: Path, *, strictly: bool = True) -> Picture:
    """A picture of a run file, whatever other processes do meanwhile.

    Args:
        real: The file, with no link in its name.
        path: What to call it.
        strictly: Refuse first bytes that are damaged.
    """
    require_file(real)
    for _ in range(_TRIES):
        with ALONE:
            seen, when = signature(real), time.time_ns()
            main, log = _bytes(real, 100), _log(Path(f"{real}-wal"))
            still = signature(real) == seen
        if still:
            return Picture(path, real, main, log, _version(path, main, strictly), seen, when)
        time.sleep(_PAUSE)
    raise Refusal(f"{path} changes faster than it can be read; wait for its writers to end.")


def glance(real: Path, path: Path) -> Picture:
    """The first bytes of a run file beside which no log lies, and how it looks from outside."""
    seen, when = signature(real), time.time_ns()
    main = _bytes(real, 100, largest=100)
    return Picture(path, real, main, b"", _version(path, main, strictly=True), seen, when)


def in_place(picture: Picture) -> sqlite3.Connection:
    """A file as a database that reads the pages asked for, while no log lies beside it."""
    with sound(picture.path, "it cannot be opened"):
        file = _connect(f"{picture.real.as_uri()}?mode=ro&immutable=1")
        return _guarded(file, picture.size)


def opened(picture: Picture, *, mended: bool = False) -> sqlite3.Connection:
    """A picture as a database that cannot be written.

    Args:
        picture: What to open.
        mended: Repair the first bytes as far as they are known, so that what else is whole in a
            damaged file can be read.
    """
    log = logs.read(picture.log, picture.page)
    if log.broken and not mended:
        raise Damaged(picture.path, log.broken)
    if picture.size > LARGEST:
        return _alone(picture, log)
    image = _overlaid(picture, log)
    image[18:20] = b"\1\1"  # what is in memory has no log
    if mended:
        _mend(image, picture.page)
    file = _connect(":memory:")
    file.deserialize(image)
    return _guarded(file, len(image))


def fetched(file: sqlite3.Connection, query: str, picture: Picture) -> Iterator[tuple[Any, ...]]:
    """What a query finds in a picture; OSError if a file read in place changes meanwhile."""
    found = file.execute(query)
    while some := found.fetchmany(1000):
        if picture.size > LARGEST and signature(picture.real) != picture.seen:
            raise OSError(
                f"{picture.path} is too large for memory and was written while it was read in its "
                "place; read it again."
            )
        yield from some


def _overlaid(picture: Picture, log: logs.Log) -> bytearray:
    image, page = bytearray(picture.main), picture.page
    if not log.size:
        return image
    if log.size * page > len(image) + len(picture.log):
        raise Damaged(picture.path, f"its log makes {log.size} pages of it, which are not there")
    image.extend(bytes(max(log.size * page - len(image), 0)))
    for number, at in log.pages.items():
        if number <= log.size:
            image[(number - 1) * page : number * page] = picture.log[at : at + page]
    return image[: log.size * page]


def _mend(image: bytearray, page: int) -> None:
    """Let the first bytes tell of the pages that are there, so that these can be read."""
    image[:16] = b"SQLite format 3\0"
    if 512 <= page <= 65536:
        image.extend(bytes(-len(image) % page))
        image[28:32] = struct.pack(">I", len(image) // page)


def _alone(picture: Picture, log: logs.Log) -> sqlite3.Connection:
    if log.size:
        raise Refusal(
            f"{picture.path} is too large to be read with the log beside it; wait for its writer "
            f"to end, or fold the log in: `sqlite3 {picture.path} 'PRAGMA wal_checkpoint'`."
        )
    return in_place(picture)


class _Image(sqlite3.Connection):
    """Closed with the last iterator that reads from it, and without Python's warning of that."""

    def __del__(self) -> None:
        self.close()


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, factory=_Image
    )


def _guarded(file: sqlite3.Connection, size: int) -> sqlite3.Connection:
    """Trust nothing in the file: what it declares runs nothing and claims no memory."""
    file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(size, 10_000))
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        file.execute(f"PRAGMA {pragma}")
    return file


def _version(path: Path, main: bytes, strictly: bool) -> int:
    try:
        return require_marks(path, main[:100])
    except Damaged:
        if strictly:
            raise
        return struct.unpack_from(">I", main, 60)[0]


def _log(path: Path) -> bytes:
    try:
        kind = path.stat()
    except FileNotFoundError:
        return b""
    if not stat.S_ISREG(kind.st_mode) or kind.st_size > LARGEST:
        raise Refusal(
            f"{path} is no log that can be read: it has {kind.st_size} bytes or is not an ordinary "
            "file. Nothing was changed; move it away if it does not belong to the run, or fold it "
            "in with `PRAGMA wal_checkpoint` of sqlite3."
        )
    return _bytes(path)


def _bytes(path: Path, most: int = LARGEST, *, largest: int = LARGEST) -> bytes:
    """The whole file, or the first bytes of one that is larger."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return file.read(size if size <= largest else most)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}. It was left as it is.") from error


def _look(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
