"""What comes in and goes out: refusals, arguments, text, files, limits, Ctrl-C, chance.

Every room stands on this one. What is given to a public function is seen to be of its kind
(`door`), a user's file is opened by `opened`, text from outside is shown through `printable`, files
are written through `replacing`, `write_text` and `RowFile`, what a file declares is weighed by
`require_room`, and Ctrl-C waits while something is entered or put back (`CTRL_C`).
"""

import _thread
import collections.abc as cabc
import contextlib
import ctypes
import errno
import inspect
import json
import math
import numbers
import os
import random
import re
import secrets
import signal
import stat
import sys
import threading
import time
import unicodedata
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, wraps
from pathlib import Path
from types import CodeType, FrameType, UnionType
from typing import (
    Any,
    BinaryIO,
    ClassVar,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

__all__ = [
    "PACKAGE",
    "Budget",
    "Closing",
    "DrawnNumbers",
    "Mark",
    "OverBudget",
    "Progress",
    "Refusal",
    "RowFile",
    "allowed",
    "door",
    "door_of",
    "listed",
    "memory",
    "nearest",
    "on_cpu",
    "opened",
    "printable",
    "printable_lines",
    "random_states",
    "read_file",
    "replacing",
    "require_dense",
    "require_file",
    "require_room",
    "require_target",
    "seconds_of",
    "shown",
    "size_words",
    "storable",
    "time_words",
    "told",
    "trim",
    "write_text",
]

# ------------------------------------------------------------------------------
# What every room raises where it will not go on.

Given = ParamSpec("Given")
Back = TypeVar("Back")
Made = TypeVar("Made")
SHOWN = 40  # letters of a text that came


class Refusal(ValueError):
    """Something that cannot be done as asked: what was expected, what came, what to do now.

    The message is written for the person who asked; the command line shows it and ends with 2.
    """


class NoFolder(Refusal, FileNotFoundError):
    """A file cannot be written, for there is no folder for it."""


class NoFile(Refusal, FileNotFoundError):
    """There is no such file, or what is there is none."""


class NotAllowed(Refusal, PermissionError):
    """The rights of a file do not allow it."""


class WrongKind(Refusal, TypeError):
    """An argument is of another kind than what takes it."""


def nearest(word: str, words: Iterable[str], *, most: int = 1) -> str:
    """A question after the closest words, of so many at most; nothing where none is close."""
    close = get_close_matches(word, list(words), n=most, cutoff=0.5)
    return f" Did you mean {' or '.join(f'`{c}`' for c in close)}?" if close else ""


# Cc control (escape sequences), Cf format (text direction), Cs surrogate, Zl and Zp line ends
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def printable(text: str, *, by: Callable[[str], str] = _written) -> str:
    r"""`text` in one line with every character that would act on a screen written out.

    Example:
        >>> printable("red \x1b[31m")
        'red \\x1b[31m'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(by(c) if unicodedata.category(c) in _ACTING else c for c in text)


def storable(text: str) -> str:
    r"""`text` with halves of surrogate pairs written out, which no file in UTF-8 can hold.

    Example:
        >>> storable("half \ud800")
        'half \\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def printable_lines(text: str) -> str:
    r"""`printable` of every line; ends of lines stay.

    Example:
        >>> printable_lines("two\nlines\a")
        'two\nlines\\x07'
    """
    return "\n".join(printable(line) for line in text.split("\n"))


LONG = 200  # letters of a name in a sentence


def told(error: BaseException) -> str:
    """Class and first line of an exception, for use within a sentence.

    Then those of the exception that it was raised from, at the root: libraries hide what was wrong
    behind one that says that something was.
    """
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    heads: list[str] = []
    for e in (chain[0], chain[-1]):
        lines = [line.strip() for line in str(e).strip().splitlines()]
        head = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])
        heads.append(type(e).__name__ + (f": {head.rstrip('.')}" if lines else ""))
    return ", from ".join(dict.fromkeys(heads))


def shown(text: object) -> str:
    """A name from outside for a sentence: in one line, and not longer than a screen has."""
    name = str(text)
    return printable(name if len(name) <= LONG else name[:LONG] + "…")


def listed(words: Iterable[str], *, most: int = 5) -> str:
    """The words with commas between them, the tail counted where there are many."""
    words = list(words)
    tail = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(f"`{w if len(w) <= LONG else w[:LONG] + '…'}`" for w in words[:most]) + tail


# ------------------------------------------------------------------------------
# Ctrl-C, where nothing is half done.
#
# Python raises it between any two lines: also between a change and the `try` that would put it
# back, and within what puts it back. Inside of a door it waits while the innermost code is what
# enters or leaves a context, as is seen from the frames of the stack; anywhere else, as in training
# and in decompositions, it is raised at once.


Function = TypeVar("Function", bound=Callable[..., Any])
_UNBROKEN: set[CodeType] = set()
CONTEXTS = contextlib.__file__
SOON = 0.002  # seconds after which Ctrl-C that had to wait is tried again


def unbroken(function: Function) -> Function:
    """Let Ctrl-C wait while a function runs; of a generator, while it enters or leaves."""
    _UNBROKEN.add(function.__code__)
    return function


def _is_unbroken(code: CodeType) -> bool:
    if code in _UNBROKEN or code.co_name in ("__enter__", "__exit__", "__del__"):
        return True
    # `inner` is there as long as a function that a context decorates
    return code.co_filename == CONTEXTS and code.co_name != "inner"


class _CtrlC:
    """A context that answers for Ctrl-C; within another one it is that one."""

    def __init__(self) -> None:
        self._depth, self._waits = 0, False
        self._before: Callable[[int, FrameType | None], Any] | None = None
        self._base: FrameType | None = None  # what is outside of it is not asked

    @unbroken
    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if not self._depth and callable(before):
            self._before, self._base = before, sys._getframe(1)
            while self._base is not None and _is_unbroken(self._base.f_code):
                self._base = self._base.f_back
            signal.signal(signal.SIGINT, self._came)
        self._depth += 1

    @unbroken
    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth or self._before is None:
            return
        before, self._before, self._base = self._before, None, None
        if signal.getsignal(signal.SIGINT) == self._came:  # else the user's code has set another
            signal.signal(signal.SIGINT, before)
        waits, self._waits = self._waits, False
        if waits:
            before(signal.SIGINT, sys._getframe(1))

    @unbroken
    def _came(self, number: int, frame: FrameType | None) -> None:
        at = frame
        while at is not None and at is not self._base:
            if _is_unbroken(at.f_code):
                self._waits = True
                _thread.start_new_thread(self._again, ())  # which takes no lock of `threading`
                return
            at = at.f_back
        self._waits = False
        if self._before is not None:
            self._before(number, frame)

    def _again(self) -> None:
        time.sleep(SOON)
        if self._waits:
            _thread.interrupt_main()


CTRL_C = _CtrlC()


# ------------------------------------------------------------------------------
# The one way in which files are written: whole or not at all, and never over what is not ours.
#
# A file is written beside its target, brought to the disk, and takes the target's place in one
# step: whoever looks, and whatever interrupts, there is the old file or the new one. The target
# must be nothing, or a regular file that an earlier run of sigmascope wrote, which is told by how
# it begins and ends (words within it prove nothing: they may be quoted). Anything else (a device,
# a folder, the user's notes) is refused before any work is done.

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


def require_file(path: Path, kinds: Collection[str]) -> Path:
    """The path, if there is a file.

    Args:
        path: Of the file.
        kinds: Endings of the files that are named where it is a folder.

    Raises:
        Refusal: If there is not; the message names the nearest neighbour.
    """
    name = printable(str(path))
    try:
        if path.is_dir():
            inside = sorted(printable(p.name) for p in path.iterdir() if p.suffix in kinds)
            one = f", one of {', '.join(f'`{n}`' for n in inside[:5])}" if inside else ""
            raise Refusal(f"`{name}` is a folder; name a file in it{one}.")
        if path.is_file():
            return path
        if path.exists():
            raise Refusal(f"`{name}` is a device, pipe or socket; name a file.")
        if not path.parent.is_dir():
            folder = printable(str(path.parent))
            raise Refusal(f"There is no file `{name}`: there is no folder `{folder}`.")
        beside = [printable(p.name) for p in path.parent.iterdir() if p.is_file()]
    except OSError as error:  # a name too long, a folder that we may not enter, a link to itself
        raise Refusal(f"`{name}` cannot be read: {error.strerror}.") from error
    except ValueError as error:
        if isinstance(error, Refusal):
            raise
        raise Refusal("The name of a file cannot hold a null byte; name another.") from error
    raise Refusal(f"There is no file `{name}`.{nearest(path.name, beside)}")


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file of the user's to read from, without a buffer: the only way in which one is opened.

    What is no file is told by what was opened, not by what was there before. Neither a pipe that
    nobody writes to, nor a device that never ends, is waited for.

    Raises:
        Refusal: If it is a folder, a device, a pipe or a socket.
        OSError: If it is not there, or may not be read.
    """
    hold = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        kind = os.fstat(hold).st_mode
        if not stat.S_ISREG(kind):
            what = "a folder" if stat.S_ISDIR(kind) else "a device, pipe or socket"
            raise Refusal(f"`{printable(str(path))}` is {what}; name a file.")
        with open(hold, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(hold)


def read_file(path: str | os.PathLike[str], *, most: int) -> bytes:
    """All of a small file of the user's.

    Args:
        path: Of the file.
        most: Bytes that it may have.

    Raises:
        Refusal: If it is no file, or is larger.
        OSError: If it is not there, or may not be read.
    """
    with opened(path) as file:
        parts, left = [], most + 1
        while left and (part := file.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise Refusal(
            f"`{printable(str(path))}` must have at most {size_words(most)}, and has more: is it "
            "the right file?"
        )
    return b"".join(parts)


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

    @unbroken
    def __exit__(self, *_: object) -> None:
        with CTRL_C:
            self.close()


# ------------------------------------------------------------------------------
# Rows that are kept as they come: one append-only file of lines, which knows what made it.
#
# The first line is the recipe, every parameter that shaped the rows; a file of another recipe is
# refused. Every line carries a checksum. A line that was cut by an interruption is the last one,
# has no end, and is taken off when the file is opened to go on: nothing else is ever removed, and a
# file that does not begin as one of these is not touched.


Row = dict[str, Any]
LINE = 1 << 24  # bytes of a first line; nothing longer can be ours


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
        first = self._file.readline(LINE)
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


# ------------------------------------------------------------------------------
# How much memory what comes from outside may ask for, before any of it is given.
#
# A file of a few hundred bytes can declare terabytes. What it declares is weighed first: against
# the bytes that the file has, where the two must agree, and against a budget, which the user can
# raise.


VARIABLE = "SIGMASCOPE_MEMORY"
SHARE = 0.5  # of the machine's memory, where the user says nothing
SMALL = 4 << 30  # bytes, where the machine does not tell how much it has
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
UNITS |= {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}

BUDGET: ContextVar[int | None] = ContextVar("BUDGET", default=None)


def size_of(text: str) -> int:
    """Bytes from words: `8GB`, `512 MiB`, `2e9`.

    Raises:
        Refusal: If they are no positive size.
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]{1,2})?)\s*([kmgt]?i?)b?\s*", text.lower())
    try:
        number, unit = match.groups() if match else ("", "")
        size = float(number) * UNITS[unit]
        if not 1 <= size < 1 << 63:
            raise ValueError
    except (ValueError, KeyError, OverflowError):
        raise Refusal(
            f"A size of memory must read like `8GB`, `512MiB` or `2e9`, got `{printable(text)}`."
        ) from None
    return int(size)


@contextmanager
def memory(limit: int | str | None) -> Iterator[None]:
    """Within the block this many bytes may be asked for; nothing changes for None."""
    size = size_of(limit) if isinstance(limit, str) else limit
    token = BUDGET.set(BUDGET.get() if size is None else size)
    try:
        yield
    finally:
        BUDGET.reset(token)


def allowed() -> int:
    """Bytes that one thing from outside may take: the user's word, or half of the memory."""
    said = BUDGET.get()
    if said is not None:
        return said
    if VARIABLE in os.environ:
        return size_of(os.environ[VARIABLE])
    try:
        return int(SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return SMALL


def trim(*, short: bool = False) -> None:
    """Give memory back to the system that is free but kept, for sizes that are asked for no more.

    A C library keeps what lies between blocks that are held; where it cannot be asked, it goes on.

    Args:
        short: Only where this process holds more than half of what is allowed. Elsewhere memory
            that is had anew, page by page, takes longer than what it is had for.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            if not short or resident() > allowed() / 2:
                ctypes.CDLL(None).malloc_trim(0)


def resident() -> int:
    """Bytes of memory that this process holds, on Linux."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def require_room(
    needed: int, what: str | Path, *, gives: str = "of memory", do: str = "take less of it"
) -> None:
    """Refuse what would take more memory than is allowed.

    Args:
        needed: Bytes, or the least they could be.
        what: What needs them.
        gives: What they are for, as the end of "needs 3 GiB or more ...".
        do: What to do, other than to allow more.

    Raises:
        Refusal: With what it needs, what is allowed, and how to allow more.
    """
    if needed > allowed():
        raise Refusal(
            f"{what} needs {size_words(needed)} or more {gives}, and {size_words(allowed())} are "
            f"allowed: {do}, or allow more: `{VARIABLE}=64GB` in the environment, or `--memory "
            "64GB` for commands that name a model."
        )


def size_words(size: int) -> str:
    """Bytes as words: `1.5 GiB`."""
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if size >= 1 << power:
            number = size / (1 << power) if size < 1 << 1000 else float("inf")
            return f"{number:.3g} {unit}"
    return f"{size} bytes"


STRIDED = "torch.strided"  # by name: the command line's help does not wait for torch


def require_dense(tensor: Any, place: str) -> None:
    """Refuse a tensor that is not a plain array of numbers in memory.

    Args:
        tensor: A `torch.Tensor` of any make.
        place: Its name in a refusal.

    Raises:
        Refusal: If it is sparse, nested, quantised, on the meta device or of a kind of number that
            torch cannot turn into float32, or if it declares more than fits the budget of memory.
    """
    kind = ""
    if tensor.is_nested:
        kind = "nested tensor: pad its parts to one shape"
    elif str(tensor.layout) != STRIDED:
        kind = f"tensor of layout {tensor.layout}: pass `tensor.to_dense()`"
    elif tensor.is_quantized:
        kind = "quantised tensor: pass `tensor.dequantize()`"
    elif tensor.is_meta:
        kind = "tensor on the meta device, which holds no numbers: pass a real one"
    elif not _computes(tensor):
        kind = f"tensor of {tensor.dtype}, of which torch computes nothing: pass it as float32"
    if kind:
        raise Refusal(f"{place} must be a dense tensor, got a {kind}.")
    require_room(tensor.numel() * tensor.element_size(), place)


def _computes(tensor: Any) -> bool:
    try:
        one = tensor.new_empty(1)
        return one.is_complex() or one.float().ndim == 1
    except (RuntimeError, NotImplementedError):  # which is how torch says so
        return False


# ------------------------------------------------------------------------------
# How long training of copies may take, in the user's words, and how it is kept to.
#
# A step of torch cannot be interrupted, so that a budget holds within about one step.


SECONDS = {"": 1, "s": 1, "sec": 1, "min": 60, "h": 3600}
LONGEST = 1e9  # seconds
Progress = Callable[[str, int, int], None]  # what is being done, steps done, steps in all


class OverBudget(Refusal):
    """What was asked for takes longer than is allowed."""


def seconds_of(text: str) -> float:
    """Seconds from words: `60s`, `2min`, `1.5 h`, `90`.

    Raises:
        Refusal: If they are no time above zero.
    """
    match = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([a-z]*)\s*", text.lower())
    number, unit = match.groups() if match else ("0", "")
    seconds = float(number) * SECONDS.get(unit, 0)
    if not 0 < seconds <= LONGEST:
        raise Refusal(
            f"A budget of time must be above zero and read like `60s`, `2min` or `1h`, got "
            f"`{printable(text)}`. Write a number and its unit."
        )
    return seconds


def time_words(seconds: float) -> str:
    """Seconds as words, as `seconds_of` reads them: `0.4s`, `48s`, `12min`, `3.5h`."""
    if seconds < 90:
        return f"{seconds:.2g}s" if seconds < 10 else f"{seconds:.0f}s"
    return f"{seconds / 60:.3g}min" if seconds < 5400 else f"{seconds / 3600:.3g}h"


@dataclass(slots=True)
class Budget:
    """Seconds that training of copies may take; several in turn share them.

    Attributes:
        seconds: So many; infinite for as long as it takes.
        tell: Is told what something will cost before most of it is done.
        progress: Is told each step that is made of something, how many were, and of how many.
        clock: In seconds.
    """

    USUAL: ClassVar[float] = 120.0  # seconds, where the user says nothing

    seconds: float = USUAL
    tell: Callable[[str], None] | None = None
    progress: Progress | None = None
    clock: Callable[[], float] = time.monotonic
    _used: float = 0.0
    _since: float | None = field(default=None)

    def __post_init__(self) -> None:
        known = isinstance(self.seconds, int | float) and not isinstance(self.seconds, bool)
        if not known or not self.seconds > 0:  # a nan is not either
            raise Refusal(
                f"`budget` must be seconds above 0, got {self.seconds!r}. Pass None for as long as "
                "it takes."
            )

    @classmethod
    def of(cls, budget: "Budget | float | None") -> "Budget":
        """A budget of so many seconds; one without end for None."""
        if isinstance(budget, Budget):
            return budget
        return cls(math.inf if budget is None else budget)

    @property
    def used(self) -> float:
        """Seconds that are used."""
        return self._used + (0.0 if self._since is None else self.clock() - self._since)

    @property
    def left(self) -> float:
        """Seconds that are not used yet; negative where it was overrun."""
        return self.seconds - self.used

    @contextmanager
    def told(self, progress: Progress | None) -> Iterator[None]:
        """Steps that are made in the block are told, unless they are told to another already."""
        before = self.progress
        self.progress = before or progress
        try:
            yield
        finally:
            self.progress = before

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Time that passes in the block is used; blocks may lie in one another."""
        if self._since is not None:
            yield
            return
        self._since = self.clock()
        try:
            yield
        finally:
            self._used, self._since = self.used, None


# ------------------------------------------------------------------------------
# State of torch that belongs to the process: random states of every device, the default device.

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"  # where the code of this package lies
HANDS = 8  # frames between a mode that hears a call and the function that it hands it on to


@contextmanager
@unbroken
def random_states(seed: int | None = None) -> Iterator[None]:
    """Leave the random states of torch (on every device), NumPy and Python as they were.

    Args:
        seed: Of all of them inside of the block; they go on from where they are without one.
    """
    import numpy as np  # this room is loaded before `--help` is shown, and does not wait for these
    import torch

    kind, devices = _started()
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=devices, device_type=kind):
            if seed is not None:
                random.seed(seed)
                np.random.seed(seed % 2**32)  # which takes no others
                torch.default_generator.manual_seed(seed)
                if devices:
                    torch.get_device_module(kind).manual_seed_all(seed)
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)


class DrawnNumbers:
    """True where torch, NumPy or Python drew random numbers since this was made."""

    def __init__(self) -> None:
        self._before = self._now()

    def __bool__(self) -> bool:
        return self._before != self._now()

    @staticmethod
    def _now() -> list[Any]:
        import numpy as np
        import torch

        kind, devices = _started()
        module = torch.get_device_module(kind) if devices else None
        own = [torch.get_rng_state(), *(module.get_rng_state(d) for d in devices if module)]
        _, key, *rest = np.random.get_state()
        return [
            [t.numpy().tobytes() for t in own],
            np.asarray(key).tobytes(),
            rest,
            random.getstate(),
        ]


def _started() -> tuple[str, list[int]]:
    """The accelerator and its devices; none where nothing was drawn there yet."""
    import torch

    found = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
    kind = "cuda" if found is None else found.type  # before torch 2.6 the only one that is known
    module = getattr(torch, kind)
    if getattr(module, "is_initialized", module.is_available)():
        return kind, list(range(module.device_count()))
    return kind, []


@contextmanager
@unbroken
def on_cpu() -> Iterator[None]:
    """Make tensors of this package's own on the CPU, where another device is the default.

    Its code names a device wherever it means another one. A context, and a decorator of doors.
    """
    import torch

    with nullcontext() if torch.get_default_device().type == "cpu" else _own_on_cpu()():
        yield


@contextmanager
def differentiable() -> Iterator[None]:
    """Leave `torch.inference_mode`, in which no gradient is taken even where one is asked for."""
    import torch

    with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
        yield


@cache
def _own_on_cpu() -> Any:
    """The mode that answers for the default device where a tensor is made from here."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._device import _device_constructors

    class OwnOnCpu(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = kwargs or {}
            makes = func in _device_constructors() and "device" not in named
            if makes and _asks(func).f_code.co_filename.startswith(PACKAGE):
                there = args and isinstance(args[0], torch.Tensor)
                named = {**named, "device": args[0].device if there else "cpu"}
            return func(*args, **named)

    return OwnOnCpu


def _asks(func: Callable[..., Any]) -> FrameType:
    """Who calls a function of torch, behind modes that hand the call on, as those that trace."""
    asks = frame = sys._getframe(2)
    for _ in range(HANDS):
        if frame.f_code.co_name == "__torch_function__" and func in frame.f_locals.values():
            asks = frame.f_back or frame
        if frame.f_back is None or not frame.f_code.co_filename.startswith(PACKAGE):
            break
        frame = frame.f_back
    return asks


# ------------------------------------------------------------------------------
# Public doors: what is given to them is seen to be what they take, before anything is done.
#
# What a door takes is written once, in its annotations, which are read at the first call. What
# cannot be seen of a value without using it up (what a function returns, what an iterator gives) is
# not asked, nor what is annotated by a name that only type checkers import.


LOOSE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Arguments:
    """What a function, or the making of objects of a class, takes."""

    def __init__(self, function: Callable[..., Any], module: str, name: str) -> None:
        self._function, self._module, self._own = function, module, name
        self._hints: dict[str, Any] | None = None

    def require(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if self._hints is None:
            self._signature = inspect.signature(self._function)
            self._hints = self._read()
        try:
            given = self._signature.bind(*args, **named).arguments
        except TypeError as error:  # none of that name, or one too many or too few
            takes = self._signature.parameters
            more = any(p.kind is p.VAR_KEYWORD for p in takes.values())
            unknown = [] if more else [name for name in named if name not in takes]
            own = [n for n, p in takes.items() if n != "self" and p.kind not in LOOSE]
            by_name = [n for n in own if takes[n].kind is inspect.Parameter.KEYWORD_ONLY]
            said, guess = str(error), ""
            if unknown:  # which may be why another is missing
                said = f"got an unexpected keyword argument '{unknown[0]}'"
                guess = f"{nearest(unknown[0], own)} It takes {listed(own, most=12)}."
            elif "missing" in said:
                needed = [n for n in own if takes[n].default is inspect.Parameter.empty]
                form = [f"{n}=..." if n in by_name else n for n in needed]
                call = f"{self._name.rpartition('.')[2]}({', '.join(form)})"
                guess = f" Call it with `{call}`, of which `help({self._name})` tells."
            if "too many positional" in said:
                first = ", ".join(f"`{n}`" for n in own if n not in by_name)
                guess = f" By place it takes {first or 'nothing'}"
                guess += f"; by name {', '.join(f'`{n}=`' for n in by_name)}" if by_name else ""
                guess += f" and more, of which `help({self._name})` tells." if more else "."
            raise TypeError(f"{self._name}: {said}.{guess}") from None
        for name, hint in self._hints.items():
            if name in given and not fits(given[name], hint):
                turned = [
                    n
                    for n, other in self._hints.items()
                    if n in given and fits(given[name], other) and not fits(given[n], other)
                ]
                order = listed(n for n in given if n != "self")
                advice = (
                    (f"That is what `{turned[0]}` takes: the order is {order}." if turned else "")
                    or _advice(given[name], hint)
                    or f"`help({self._name})` says what goes there."
                )
                raise WrongKind(
                    f"`{name}` must be {kind_words(hint)}, got {came(given[name])}. {advice}"
                )
            if isinstance(given.get(name), str) and "\0" in given[name]:
                kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
                if any((get_origin(kind) or kind) in (os.PathLike, Path) for kind in kinds):
                    raise Refusal(f"`{name}` cannot hold a null byte, got {came(given[name])}.")

    @property
    def _name(self) -> str:
        """By which users find it: in the package itself if it is there."""
        doors = sys.modules["sigmascope"].__all__
        short = next((n for n in (self._own, self._own.lower()) if n in doors), None)
        return f"sigmascope.{short}" if short else f"{self._module}.{self._own}"

    def _read(self) -> dict[str, Any]:
        space = vars(sys.modules[self._module])
        found = {}
        for name, p in self._signature.parameters.items():
            if p.annotation is not p.empty and p.kind not in LOOSE:
                one = type("One", (), {"__annotations__": {name: p.annotation}})
                with suppress(NameError):
                    found[name] = get_type_hints(one, space)[name]
        return found


def door(function: Callable[Given, Back]) -> Callable[Given, Back]:
    """Refuse arguments of the wrong kind, and make what is this package's own on the CPU.

    Example:
        >>> @door
        ... def doubled(count: int) -> int:
        ...     return 2 * count
        >>> doubled("3")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        sigmascope.core.guard.WrongKind: `count` must be a whole number, got the text '3'. ...
    """
    taken = _Arguments(function, function.__module__, function.__name__)

    @wraps(function)
    def checked(*args: Given.args, **named: Given.kwargs) -> Back:
        taken.require(args, named)
        with CTRL_C, on_cpu(), differentiable():
            return function(*args, **named)

    return checked


def door_of(made: type[Made]) -> type[Made]:
    """The same for the making of objects: for public classes.

    Args:
        made: Objects of which are made by its `__init__`.
    """
    make = made.__init__
    taken = _Arguments(make, made.__module__, made.__name__)

    @wraps(make)
    def checked(self: Any, *args: Any, **named: Any) -> None:
        taken.require((self, *args), named)
        with CTRL_C, on_cpu(), differentiable():
            make(self, *args, **named)

    made.__init__ = checked
    return made


_KINDS: Mapping[Any, str] = {
    str: "a text",
    bytes: "bytes",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    os.PathLike: "a path",
    Path: "a path",
    cabc.Callable: "a function",
    cabc.Mapping: "a mapping",
    dict: "a mapping",
    type: "a class",
}
_NUMBERS = {int: numbers.Integral, float: numbers.Real, complex: numbers.Complex}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the kind that an annotation says, as far as can be seen."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is None:
        return value is None
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in args)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in args)
    if hint is Any:
        return True
    kind = getattr(hint, "array_type", None) or origin or hint  # of arrays with a shape
    if kind in _NUMBERS:
        number = isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
        return number and not (isinstance(value, int) and abs(value) >= 1 << 64)
    if kind is type and args:
        made = args[0]
        return isinstance(value, type) and (not isinstance(made, type) or issubclass(value, made))
    try:
        if not isinstance(value, kind):
            return False
    except TypeError:  # Any, a variable, a protocol: nothing that can be asked
        return True
    if isinstance(value, str | bytes):
        return not args  # one text is not several, although it has letters
    if isinstance(value, cabc.Mapping) and len(args) == 2:
        return all(fits(k, args[0]) and fits(v, args[1]) for k, v in value.items())
    if isinstance(value, tuple) and args and args[-1] is not ... and kind is tuple:
        return len(value) == len(args) and all(map(fits, value, args))
    if type(value).__name__ in ("Tensor", "Parameter") and origin is not None:
        return False  # it has a length and elements, and is no list
    if kind is cabc.Callable or not args or args[0] is Any:
        return True
    several = isinstance(value, list | tuple | set | frozenset | range)
    return not several or all(fits(one, args[0]) for one in value)


def kind_words(hint: Any) -> str:
    """What an annotation says, for a sentence: `a tensor, a list or None`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        words = [*dict.fromkeys(map(kind_words, sorted(args, key=lambda a: a is type(None))))]
        return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    if origin is Literal:
        words = [f"`{a}`" for a in args]
        return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    kind = getattr(hint, "array_type", None) or origin or hint
    if kind in _KINDS:
        return _KINDS[kind]
    name = getattr(kind, "__name__", str(kind))
    several = (
        isinstance(kind, type)
        and issubclass(kind, cabc.Iterable)
        and kind.__module__
        in (
            "builtins",
            "collections.abc",
        )
    )
    if several:
        each = f" (each {kind_words(args[0])})" if args and args[0] is not Any else ""
        return f"a {name if kind in (tuple, set) else 'list'}{each}"
    if kind.__module__.startswith("torch"):
        return "a tensor" if name == "Tensor" else f"a torch.{'nn.' * (name == 'Module')}{name}"
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def came(value: Any) -> str:
    """What was given, for a sentence."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, type):
        return f"the class {printable(value.__name__)}"
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a whole number of more than twenty digits"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | bytes):
        rest = "…" if len(value) > SHOWN else ""
        kind = "the text" if isinstance(value, str) else "the bytes"
        return f"{kind} {printable(repr(value[:SHOWN]))}{rest}"
    if isinstance(value, list | tuple) and value and not isinstance(value[0], list | tuple):
        return f"a {type(value).__name__} that begins with {came(value[0])}"
    return f"a value of type {printable(type(value).__name__)}"


def _advice(value: Any, hint: Any) -> str:
    """What to do, where it is plain from what came."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    of = [getattr(kind, "array_type", None) or get_origin(kind) or kind for kind in kinds]
    classes = tuple(kind for kind in of if isinstance(kind, type))
    if isinstance(value, type) and classes and issubclass(value, classes):
        return f"Call it: `{value.__name__}(...)`."
    if isinstance(value, str):
        choices = [a for kind in kinds if get_origin(kind) is Literal for a in get_args(kind)]
        if choices:
            return nearest(value, map(str, choices)).strip()
        if {int, float} & {*of}:
            try:
                float(value)
            except ValueError:
                return "Write a number."
            return "Write it without quotes."
        functions = sys.modules.get("torch.nn.functional")
        own = [n for n in (value, f"{value}_loss") if callable(getattr(functions, n, None))]
        if cabc.Callable in of and own:
            return f"Pass the function: `torch.nn.functional.{own[0]}`."
    # of lists of anything it is not known that one of this is meant
    listed = [kind for kind in kinds if get_args(kind) and get_args(kind)[0] is not Any]
    if any(fits([value], kind) for kind in listed):
        plain = isinstance(value, str | int | float)
        one = repr(value[:SHOWN] if isinstance(value, str) else value) if plain else "..."
        return f"Write a list of it: [{printable(one)}]."
    if isinstance(value, list) and any(fits(tuple(value), kind) for kind in listed):
        return "Make it a tuple: `tuple(...)`."
    if isinstance(value, list | tuple):
        within = [a for kind in kinds for a in get_args(kind) if get_origin(a) is Literal]
        choices = [str(choice) for one in within for choice in get_args(one)]
        odd = [v for v in value if choices and v not in choices]
        if any(kind.__name__ == "Tensor" for kind in classes) and not choices:
            return "Make it a tensor: `torch.tensor(...)`."
        return nearest(str(odd[0]), choices).strip() if odd else ""
    numbers = getattr(value, "tolist", list[Any])()
    if numbers and any(fits(numbers, kind) for kind in listed):
        return "Make it a list: `.tolist()`."
    if isinstance(value, cabc.Iterator) and any(issubclass(k, cabc.Iterable) for k in classes):
        return "Make it a list: `list(...)`."
    names = {kind.__name__ for kind in classes}
    if "Tensor" in names and type(value).__name__ == "ndarray":
        return "Make it a tensor: `torch.from_numpy(...)`."
    if "Tensor" in names and hasattr(value, "to_numpy"):
        return "Make it a tensor: `torch.tensor(frame.to_numpy())`."
    if "Tensor" in names and hasattr(value, "inputs"):
        return "Pass its `inputs`, and its `targets` by `targets=` where that is taken."
    gives = hasattr(value, "__getitem__") or isinstance(value, cabc.Iterable)
    if "Tensor" in names and gives and not isinstance(value, str | bytes):
        return "Take a batch: `inputs, targets = next(iter(loader))`; targets go by `targets=`."
    if "Generator" in names and isinstance(value, int):
        return f"Make one: `torch.Generator().manual_seed({value})`."
    if cabc.Callable in of and type(value).__name__ == "Tensor":
        return "Pass the function itself, not what it gave."
    sole = len({*classes} - {type(None)}) == 1
    if "Module" in names and isinstance(value, cabc.Mapping) and sole:
        return "These are no model: load them into one, `model.load_state_dict(...)`."
    if "Module" in names and isinstance(value, str) and sole:
        return "Make the model first; `sigmascope.open_model(...)` opens one by its name."
    for kind in classes:  # it holds what is asked for, or a door makes it
        held = kind.__name__.lower()
        if kind.__module__ != "builtins" and isinstance(getattr(value, held, None), kind):
            return f"Pass its `{held}`."
    if str in of and isinstance(getattr(value, "name", None), str):
        return "Pass its `name`."
    doors = sys.modules["sigmascope"].__all__
    for kind in (k for k in classes if sole and k.__module__.startswith("sigmascope.")):
        if kind.__name__ in doors:
            return f"Make one: `sigmascope.{kind.__name__}(...)`."
        if kind.__name__.lower() in doors:
            return f"`sigmascope.{kind.__name__.lower()}(...)` gives one."
    if "Module" in names and callable(value):
        return "A function is no model: call it where it makes one, else write a torch.nn.Module."
    return ""
