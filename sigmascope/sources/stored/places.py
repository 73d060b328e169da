"""Where bytes lie: files of this machine and addresses that fsspec knows, read by ranges.

Nothing is kept open and nothing is mapped: every range goes into fresh memory of its own size, so
that the memory of a process stays that of what it holds, and any process can read again.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from sigmascope import gate
from sigmascope.gate import Refusal, printable
from sigmascope.sources.refusals import told
from sigmascope.sources.stored.addresses import WEB, asked, entries_of, is_address, ranged

DOCUMENT = 256 << 20  # bytes of a JSON beside the tensors; an index of 1 TB has ten million
CHANGES = ("mtime", "ETag", "etag", "LastModified", "last_modified", "updated", "created", "oid")
T = TypeVar("T")


def joined(folder: str, name: str) -> str:
    """The place of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_address(folder) else str(Path(folder) / name)


def last(place: str) -> str:
    """The last part of a place: the name of a file without its folder."""
    return place.rstrip("/").rpartition("/")[2] if is_address(place) else Path(place).name


def size_at(place: str) -> int:
    """Bytes of a file.

    Raises:
        Refusal: If there is none, or it cannot be asked.
    """
    if is_address(place):
        size = asked(place, lambda fs, path: fs.size(path))
        if not isinstance(size, int):
            raise Refusal(
                f"`{printable(place)}` does not tell its size, without which a header cannot be "
                "checked: download the file and name it."
            )
        return size
    return _local(place, lambda path: path.stat().st_size)


def exists_at(place: str) -> bool:
    """Whether there is a file.

    Raises:
        Refusal: If it cannot be asked.
    """
    if is_address(place):
        return bool(asked(place, lambda fs, path: fs.exists(path)))
    return _local(place, Path.is_file)


def names_at(folder: str) -> list[str] | None:
    """Sorted names of the files in a folder; None where it is no folder, or of the web.

    Raises:
        Refusal: If it cannot be asked.
    """
    if folder.startswith(WEB):
        return None  # to list a folder there is to fetch it, and it may be a file of any size
    if is_address(folder):
        entries = asked(folder, entries_of)
        if entries is None:
            return None
        return sorted(last(e["name"]) for e in entries if e.get("type") == "file")
    if not _local(folder, Path.is_dir):
        return None
    return _local(folder, lambda path: sorted(p.name for p in path.iterdir() if p.is_file()))


def stamp(place: str) -> str:
    """What changes when a file does: its size and its time, or what a server says instead."""
    if is_address(place):
        info = asked(place, lambda fs, path: fs.info(path))
        return f"{info.get('size')} {[str(info[k]) for k in CHANGES if k in info]}"
    state = _local(place, Path.stat)
    return f"{state.st_size} {state.st_mtime_ns}"


def read_bytes(place: str, offset: int, length: int) -> Tensor:
    """A range of a file as uint8, in memory of its own.

    Raises:
        Refusal: If it cannot be read, or is not all there.
    """
    out = torch.empty(length, dtype=torch.uint8)
    if length == 0:
        return out
    view = out.numpy().data
    if is_address(place):
        got = asked(place, lambda fs, path: ranged(fs, path, offset, length))
        filled = min(len(got), length) if len(got) <= length else -1
        view[: max(filled, 0)] = got[: max(filled, 0)]
    else:
        filled = _local(place, lambda path: _fill(path, offset, view))
    if filled != length:
        raise Refusal(
            f"`{printable(place)}` must give {length} bytes from byte {offset} on, got "
            f"{'all of itself' if filled < 0 else filled}: it changed since it was opened, or is "
            "not served by ranges."
        )
    return out


def read_document(place: str) -> dict[str, Any]:
    """The JSON object in a small file.

    Raises:
        Refusal: If it is none, or is too large.
    """
    size = size_at(place)
    if size > DOCUMENT:
        raise Refusal(
            f"`{printable(place)}` must be a small JSON, got {size} bytes, and at most {DOCUMENT} "
            "are read: is it the right file?"
        )
    gate.require_room(25 * size, f"`{printable(place)}`")  # as JSON may take in memory
    try:
        content = json.loads(bytes(read_bytes(place, 0, size).numpy()))
    except (ValueError, RecursionError) as error:
        raise Refusal(f"`{printable(place)}` is not valid JSON ({told(error)}).") from error
    if not isinstance(content, dict):
        raise Refusal(f"`{printable(place)}` must hold a JSON object, got another value.")
    return content


def digest(*parts: str | bytes) -> str:
    """A short hash of parts in their order."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:32]


class Window:
    """A range of a file that can be read and sought in, as `zipfile` asks.

    Args:
        place: The file.
        start: First byte.
        size: Bytes of the range.
        most: Bytes that one reading may ask for: a header that lies asks for more.
    """

    def __init__(self, place: str, *, start: int, size: int, most: int) -> None:
        self.place, self.start, self.size, self.most = place, start, size, most
        self.at = 0

    def seekable(self) -> bool:
        """It can be sought in."""
        return True

    def tell(self) -> int:
        """Bytes before the next one."""
        return self.at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a byte, from the beginning, from here (1) or from the end (2)."""
        at = offset + (0, self.at, self.size)[whence]
        if at < 0:
            raise OSError("a negative place in a file")
        self.at = at
        return at

    def read(self, count: int = -1) -> bytes:
        """Bytes from here on, fewer at the end.

        Raises:
            Refusal: If more are asked than one reading may.
        """
        left = max(self.size - self.at, 0)
        count = left if count is None or count < 0 else min(count, left)
        if count > self.most:
            raise Refusal(
                f"`{printable(self.place)}` asks for {count} bytes of a header at once, and at "
                f"most {self.most} are read: it is damaged."
            )
        gate.require_room(count, f"A header of `{printable(self.place)}`")
        content = bytes(read_bytes(self.place, self.start + self.at, count).numpy())
        self.at += count
        return content


def _fill(path: Path, offset: int, view: memoryview) -> int:
    """Read into `view` from `offset` on; how many bytes there were."""
    done = 0
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        while done < len(view):
            got = file.readinto(view[done:])
            if not got:
                break
            done += got
    return done


def _local(place: str, do: Callable[[Path], T]) -> T:
    try:
        return do(Path(place))
    except (OSError, ValueError) as error:  # a name may hold a null byte
        why = getattr(error, "strerror", None) or told(error)
        raise Refusal(f"`{printable(place)}` cannot be read: {why}.") from error
