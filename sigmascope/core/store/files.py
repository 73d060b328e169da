"""Run files as SQLite opens them, and what is said where it cannot.

A writer opens the file for one step and closes it again, whereupon SQLite folds its write-ahead log
into the file: between two steps the file lies alone, and no connection outlives a fork. A reader
holds a read transaction, which writers neither disturb nor wait for. How it opens the file keeps
the promise that reading changes nothing:

- With a log beside the file (of a writer at work, or one that was killed) for reading only, for
  SQLite would fold that log in when the last connection that may write is closed.
- Without one for writing, with writing turned off: unlike a connection for reading only it takes
  away the empty log that SQLite puts there for every connection.
- Where no log can be put there (the file or its folder may not be written, the disk is full), and
  for a brief look, as a file that does not change; afterwards it is seen whether that was so.
"""

import os
import shlex
import sqlite3
import stat
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigmascope.core.guard import NoFile, NotAllowed, Refusal, opened
from sigmascope.core.store.schema import APPLICATION, STEPS, VERSION, script, tables

PATIENCE = 30.0  # seconds a writer waits for another one to commit
READER = 5.0  # seconds a reader waits for a program that keeps everybody out


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


class Changed(Refusal):
    """A run file that was written while it was read as one that does not change."""


class Unwritable(Refusal):
    """A run file that takes no step now; it is as it was before."""


# What wrong bytes make of SQLite, of JSON, of times, and of our own reading of them.
WRONG = (
    sqlite3.Error,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
)

# What SQLite says that is no fault of the bytes, and what to do about it.
_REASONS: Mapping[int, str] = {
    sqlite3.SQLITE_FULL: "the disk is full; make room",
    sqlite3.SQLITE_IOERR: "the disk is full or fails, or a limit of size is reached; make room",
    sqlite3.SQLITE_BUSY: "another process keeps the file locked; wait for it to end",
    sqlite3.SQLITE_READONLY: "it, its log or their folder may not be written; change their rights",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened, or its folder takes no log and no index of one; "
    "see that it may be written and has room, or copy the file and its log elsewhere",
}


@contextmanager
def sound(path: Path, what: str) -> Iterator[None]:
    """Name whatever goes wrong inside as damage, for the bytes of a file are all that goes in."""
    try:
        yield
    except Refusal:
        raise
    except WRONG as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        if reason := _REASONS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF):
            raise Refusal(
                f"{path} cannot be read ({words}): {reason}. It was left as it is."
            ) from error
        raise Damaged(path, f"{what} ({words})") from error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run file at one instant.

    Attributes:
        path: Its name, for words.
        file: A connection in a read transaction.
        version: Of the format.
    """

    path: Path
    file: sqlite3.Connection
    version: int


@contextmanager
def snapshot(path: Path, *, brief: bool = False, lenient: bool = False) -> Iterator[Snapshot]:
    """A run file as it is now, for reading, whatever other processes do meanwhile.

    Args:
        path: The run file.
        brief: Put no log beside it, for that it changes meanwhile is unlikely.
        lenient: Read what can be read, also where tables and the count of pages are wrong.

    Raises:
        Damaged: If it, or what is read of it in the block, is not as it was written.
        Changed: If it was read as a file that does not change, and did.
        FileNotFoundError: If it is not there.
        Refusal: If it is no run file of a known version, or cannot be read now.
    """
    real = require_file(path)
    written = real.stat().st_mtime_ns  # first: a log that is folded in from here on shows in it
    if any(_size(Path(f"{real}{end}"), path) for end in ("-wal", "-journal")):
        mode = "mode=ro"
    else:
        mode = "immutable=1" if brief or _unwritable(real) else "mode=rw"
    with sound(path, "it cannot be read"):
        file, mode = _reader(real, mode)
        try:
            if lenient:  # SQLite then goes on where the count of pages is wrong
                file.execute("PRAGMA writable_schema = ON")
            version = _version(file, real, path)
            if not lenient:  # one flipped bit makes the format another
                query = "SELECT name FROM sqlite_master WHERE type='table'"
                there = {name for (name,) in file.execute(query)}
                steps = {STEPS[version]} if version in STEPS else set[str]()
                if not there >= {*tables(version)} or there & {*STEPS.values()} != steps:
                    came = ", ".join(there)
                    raise ValueError(f"the tables of format {version} were expected, {came} came")
            yield Snapshot(path, file, version)
        finally:
            file.close()
            if mode == "immutable=1" and real.stat().st_mtime_ns != written:
                raise Changed(
                    f"{path} was written while it was read, and its folder takes no log that would "
                    "hold it still. Read it again, or where its folder may be written."
                )


@contextmanager
def appending(path: Path) -> Iterator[sqlite3.Connection]:
    """A run file in a transaction that is on the disk after the block, or has left no trace.

    Raises:
        Unwritable: If what the block writes cannot be written; the file is as it was.
        Damaged: If SQLite finds that the file is.
        FileNotFoundError: If it is not there.
    """
    real = require_file(path)
    if place := _unwritable(real):  # SQLite finds out when it has made a log already
        raise Unwritable(
            f"The run file {path} may be read only: {place} may not be written. Nothing was "
            "changed; change its rights, or name another file for the run."
        )
    kept = f"{path} is as it was before this step"
    try:
        with closing(_connect(real, "mode=rw", PATIENCE)) as file:
            if (version := _version(file, real, path)) < VERSION:
                raise Unwritable(
                    f"{path} was written by an older sigmascope (run format {version}); this one "
                    f"appends to format {VERSION} only. It reads as before; name another file."
                )
            file.execute("PRAGMA journal_mode = WAL")
            # FULL waits for the disk, so that no step that was reported is lost with the power.
            file.execute("PRAGMA synchronous = FULL")
            file.execute("BEGIN IMMEDIATE")
            yield file  # where it raises, the transaction ends with the connection
            file.execute("COMMIT")
    except (TypeError, OverflowError, UnicodeError) as error:
        raise Unwritable(f"The step cannot be stored: {error}. {kept}.") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise Damaged(path, f"SQLite says that {error}") from error
        reason = _REASONS.get(code, "see what SQLite says")
        raise Unwritable(
            f"The step was not written ({error}): {reason}, and append it again. {kept}."
        ) from error


def create(path: Path) -> None:
    """Put an empty run file at `path`, complete from the moment it can be seen.

    Raises:
        FileNotFoundError: If there is no folder for it.
        Unwritable: If it cannot be written, or what another run left there would be taken for its.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder {path.parent} for the run file {path.name} does not exist; "
            f"make it with `mkdir -p {path.parent}`."
        )
    for end in ("-wal", "-journal"):
        if os.path.lexists(f"{path}{end}"):
            raise Unwritable(
                f"No run file is made at {path}, for {path.name}{end} of another file of that name "
                "lies there and would be taken for its log. Move it away, or name another file."
            )
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".run-") as folder:
            fresh = Path(folder, "fresh")
            with closing(sqlite3.connect(fresh, isolation_level=None)) as file:
                file.execute("PRAGMA journal_mode = WAL")
                file.executescript(script())
            try:
                os.link(fresh, path)  # unlike a rename it never replaces what another just made
            except FileExistsError:  # two first writers at once: the file of either will do
                pass
            except OSError:  # a file system without hard links
                fresh.rename(path)
    except (OSError, sqlite3.Error) as error:
        raise Unwritable(
            f"No run file can be made at {path}: {error}. Nothing is left there; see that the "
            "folder may be written and has room."
        ) from error


def require_file(path: Path) -> Path:
    """The file with no link in its name, beside which its log lies.

    Raises unless it is an ordinary one; nothing is opened, for a pipe would wait for ever.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        link = f": it links to {path.readlink()}, which is missing" if path.is_symlink() else ""
        raise NoFile(
            f"There is no run file at {path}{link}. `sigmascope profile MODEL --run {path}` "
            "writes one."
        ) from None
    except OSError as error:  # a link to itself, a name too long, a folder we may not enter
        raise NoFile(f"There is no run file at {path}: {error.strerror}.") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        raise NoFile(
            f"There is no run file at {path}: it is {kind}. Name an ordinary file for the run."
        )
    if not os.access(path, os.R_OK):
        raise NotAllowed(f"{path} cannot be read: Permission denied. Change its rights.")
    return Path(os.path.realpath(path))


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the marks of a run file, whatever its version; False if there is none."""
    try:
        with opened(path) as file:
            header = file.read(100)
    except (OSError, ValueError):  # not there, not to be read, or no name of a file
        return False
    return len(header) == 100 and struct.unpack_from(">I", header, 68)[0] == APPLICATION


def _reader(real: Path, mode: str) -> tuple[sqlite3.Connection, str]:
    """A connection in a read transaction, and its mode; for a full disk takes no log, either."""
    file = _connect(real, mode, READER)
    file.execute("PRAGMA query_only = ON")
    file.execute("BEGIN")
    with suppress(sqlite3.DatabaseError):  # said by who reads
        try:
            file.execute("PRAGMA schema_version").fetchone()
        except sqlite3.OperationalError as error:
            if mode == "mode=rw" and error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                file.close()
                return _reader(real, "immutable=1")
    return file, mode


def _connect(real: Path, mode: str, patience: float) -> sqlite3.Connection:
    # a generator that reads may be closed by the garbage collector, in any thread
    how: dict[str, Any] = {"isolation_level": None, "check_same_thread": False}
    return sqlite3.connect(f"{real.as_uri()}?{mode}", uri=True, timeout=patience, **how)


def _unwritable(real: Path) -> Path | None:
    """The file or its folder if it may not be written."""
    return next((place for place in (real, real.parent) if not os.access(place, os.W_OK)), None)


def _size(log: Path, path: Path) -> int:
    """Bytes of a log beside a run file; 0 if there is none."""
    try:
        found = log.stat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise Refusal(f"{log} is no log of {path}, for it is no ordinary file: move it away.")
    return found.st_size


def _version(file: sqlite3.Connection, real: Path, path: Path) -> int:
    """Of the format; raise unless the file is a run file of one that is known here."""
    found = "an SQLite file of another program" if real.stat().st_size else "empty"
    try:
        pragmas = ("application_id", "user_version")
        application, version = (file.execute(f"PRAGMA {p}").fetchone()[0] for p in pragmas)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB or is_run(real):
            raise
        application, version, found = 0, 0, "not SQLite"
    if application != APPLICATION:
        raise Refusal(
            f"{path} is not a sigmascope run file: it is {found}. It was left as it is; name "
            "another file for the run."
        )
    if version > VERSION:
        raise Refusal(
            f"{path} was written by a newer sigmascope (run format {version}, this one knows "
            f"{VERSION}). It was left as it is; upgrade with `pip install -U sigmascope`."
        )
    if version < 1:
        raise Damaged(path, f"its format is {version}, and there never was one of that number")
    return version
