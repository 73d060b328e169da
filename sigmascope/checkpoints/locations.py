"""Where bytes lie: files of this machine and addresses that fsspec knows, read by ranges.

Nothing is kept open and nothing is mapped: every range goes into fresh memory of its own size, so
that the memory of a process stays that of what it holds, and any process can read again. (Of a file
of 302 MB read tensor by tensor, `safetensors.safe_open` and `torch.load(mmap=True)` leave 290 MB
mapped, these ranges 2: `benchmarks/RESULTS.md`, "Readers of checkpoints".)
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import torch
from torch import Tensor

from sigmascope.core import guard
from sigmascope.core.guard import Refusal, printable, shown, told

REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(::|://)")
WEB = ("http://", "https://")
CLIENTS = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs"}
CLIENTS |= {"http": "aiohttp", "https": "aiohttp", "abfs": "adlfs"}
DOCUMENT = 256 << 20  # bytes of a JSON beside the tensors; an index of 1 TB has ten million
HEADER = 128 << 20  # bytes that are read of a header; vocabularies of 256 000 words take 10 million
BLOCK = 1 << 16  # bytes of the first reading of a header; each further one is twice as long
CHANGES = ("mtime", "ETag", "etag", "LastModified", "last_modified", "updated", "created", "oid")
T = TypeVar("T")


def is_remote(location: str) -> bool:
    """Whether a location is read through fsspec: `s3://...`, `memory://...`."""
    return REMOTE.match(location) is not None


def joined(folder: str, name: str) -> str:
    """The location of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else str(Path(folder) / name)


def name_of(location: str) -> str:
    """The name of a file without its folder."""
    return location.rstrip("/").rpartition("/")[2] if is_remote(location) else Path(location).name


def require_inside(name: str, folder: str) -> str:
    """The name of a file that another file gives, if it is of the same folder.

    Raises:
        Refusal: If it leads anywhere else.
    """
    path = PurePosixPath(name)
    bad = path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts
    if bad or is_remote(name) or (len(name) > 1 and name[1] == ":"):
        raise Refusal(
            f"`{printable(folder)}` must name files of its own folder, got `{shown(name)}`, which "
            "leads out of it: it is damaged or hostile."
        )
    return name


def size_of(location: str) -> int:
    """Bytes of a file.

    Raises:
        Refusal: If there is none, or it cannot be asked.
    """
    if not is_remote(location):
        return _local(location, lambda path: path.stat().st_size)
    size = _remote(location, lambda fs, path: fs.size(path))
    if not isinstance(size, int):
        raise Refusal(
            f"`{printable(location)}` does not tell its size, without which a header cannot be "
            "checked: download the file and name it."
        )
    return size


def is_file(location: str) -> bool:
    """Whether there is a file.

    Raises:
        Refusal: If it cannot be asked.
    """
    if is_remote(location):
        return bool(_remote(location, lambda fs, path: fs.exists(path)))
    return _local(location, Path.is_file)


def names_in(folder: str) -> list[str] | None:
    """Sorted names of the files in a folder; None where it is no folder, or of the web.

    Raises:
        Refusal: If it cannot be asked.
    """
    if folder.startswith(WEB):
        return None  # to list a folder there is to fetch it, and it may be a file of any size
    if is_remote(folder):
        listed = lambda fs, path: fs.ls(path, detail=True) if fs.isdir(path) else None
        entries = _remote(folder, listed)
        if entries is None:
            return None
        return sorted(name_of(e["name"]) for e in entries if e.get("type") == "file")
    if not _local(folder, Path.is_dir):
        return None
    return _local(folder, lambda path: sorted(p.name for p in path.iterdir() if p.is_file()))


def stamp(location: str) -> str:
    """What changes when a file does: its size and its time, or what a server says instead."""
    if is_remote(location):
        info = _remote(location, lambda fs, path: fs.info(path))
        return f"{info.get('size')} {[str(info[k]) for k in CHANGES if k in info]}"
    state = _local(location, Path.stat)
    return f"{state.st_size} {state.st_mtime_ns}"


def state_of(location: str) -> tuple[int, ...]:
    """What changes when a file of this machine is written or replaced; nothing of other files."""
    try:
        found = None if is_remote(location) else Path(location).stat()
    except (OSError, ValueError):
        found = None
    return () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def digest(*parts: str | bytes) -> str:
    """A short hash of parts in their order."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()[:32]


def read_range(location: str, offset: int, length: int) -> Tensor:
    """A range of a file as uint8, in memory of its own.

    Raises:
        Refusal: If it cannot be read, or is not all there.
    """
    out = torch.empty(length, dtype=torch.uint8)
    if length == 0:
        return out
    view = out.numpy().data

    def of_file(path: Path) -> int:
        done = 0
        with guard.opened(path) as file:
            file.seek(offset)
            while done < length and (got := file.readinto(view[done:])):  # pyright: ignore
                done += got
        return done

    def of_server(fs: Any, path: str) -> bytes:
        if not path.startswith(WEB) and "hf" not in (fs.protocol, *fs.protocol):
            return fs.cat_file(path, start=offset, end=offset + length)
        # of the web `cat_file` takes all that a server sends, also where it sends the whole file,
        # and a reader of whole files would fetch ahead
        with fs.open(path, "rb", cache_type="none") as file:
            file.seek(offset)
            return file.read(length)

    if is_remote(location):
        got = _remote(location, of_server)
        filled = len(got)
        if filled == length:
            view[:] = got
    else:
        filled = _local(location, of_file)
    if filled != length:
        raise Refusal(
            f"`{printable(location)}` must give {length} bytes from byte {offset} on, got "
            f"{'all of itself' if filled > length else filled}: it changed since it was opened, or "
            "is not served by ranges."
        )
    return out


def read_bytes(location: str, offset: int, length: int) -> bytes:
    """`read_range`, for small ones."""
    return bytes(read_range(location, offset, length).numpy())


def read_json(location: str) -> dict[str, Any]:
    """The JSON object in a small file.

    Raises:
        Refusal: If it is none, or is too large.
    """
    size = size_of(location)
    if size > DOCUMENT:
        raise Refusal(
            f"`{printable(location)}` must be a small JSON, got {size} bytes, and at most "
            f"{DOCUMENT} are read: is it the right file?"
        )
    guard.require_room(25 * size, f"`{printable(location)}`")  # as JSON may take in memory
    try:
        content = json.loads(read_bytes(location, 0, size))
    except (ValueError, RecursionError) as error:
        raise Refusal(f"`{printable(location)}` is not valid JSON ({told(error)}).") from error
    if not isinstance(content, dict):
        raise Refusal(f"`{printable(location)}` must hold a JSON object, got another value.")
    return content


class Stream:
    """A range of a file as a file of its own, for readers of headers: `zipfile`, pickles, GGUF.

    What is read comes in blocks that grow. A header that lies asks for more than there is, or than
    a header may have, and both end here.

    Args:
        location: The file.
        start: First byte.
        size: Bytes of the range; to the end where nothing is said.
        weight: Bytes in memory that a byte of it may become.
    """

    def __init__(
        self, location: str, start: int = 0, size: int | None = None, *, weight: int = 1
    ) -> None:
        self.location, self.start, self.weight = location, start, weight
        self.size = size_of(location) - start if size is None else size
        self.at = self.held_from = self.total = 0
        self.held = b""
        self.block = BLOCK

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

    def require(self, count: int) -> None:
        """Refuse to go further than the file, or a header, does.

        Raises:
            Refusal: If it would.
        """
        if self.at + count > min(self.size, HEADER):
            raise Refusal(
                f"`{printable(self.location)}` declares {count} bytes at byte {self.at} of its "
                f"header; it has {self.size} bytes in all, and headers at most {HEADER}: it is "
                "damaged or was cut."
            )

    def read(self, count: int | None = -1) -> bytes:
        """Bytes from here on, fewer at the end.

        Raises:
            Refusal: If more are asked than a header has.
        """
        left = max(self.size - self.at, 0)
        count = left if count is None or count < 0 else min(count, left)
        begin = self.at - self.held_from
        if begin < 0 or begin + count > len(self.held):
            if count > HEADER:
                raise Refusal(
                    f"`{printable(self.location)}` asks for {count} bytes of a header, and at most "
                    f"{HEADER} are read: it is damaged."
                )
            # who reads on gets larger blocks, who jumps to and fro does not
            on = 0 <= begin <= len(self.held)
            self.block = min(2 * self.block, 16 << 20) if on else BLOCK
            length = min(max(self.block, count), left)
            self.total += length
            guard.require_room(
                self.weight * self.total, f"A header of `{printable(self.location)}`"
            )
            self.held = read_bytes(self.location, self.start + self.at, length)
            self.held_from, begin = self.at, 0
        self.at += count
        return self.held[begin : begin + count]

    def readline(self) -> bytes:
        """Bytes to the next end of a line, that one too."""
        first, line = self.at, b""
        while not line.endswith(b"\n") and (more := self.read(256)):
            end = more.find(b"\n") + 1
            line += more[:end] if end else more
        self.at = first + len(line)
        return line


def _local(location: str, do: Callable[[Path], T]) -> T:
    try:
        return do(Path(location))
    except Refusal:
        raise
    except (OSError, ValueError) as error:  # a name may hold a null byte
        why = getattr(error, "strerror", None) or told(error)
        raise Refusal(f"`{printable(location)}` cannot be read: {why}.") from error


def _remote(location: str, do: Callable[[Any, str], T]) -> T:
    """What a file system of fsspec answers about a path in it."""
    kind = location.partition(":")[0].lower()
    client = f"`pip install {' '.join(filter(None, ('fsspec', CLIENTS.get(kind))))}`"
    try:
        import fsspec
    except ImportError as missing:
        raise Refusal(f"`{printable(location)}` needs fsspec: {client}.") from missing
    try:
        fs, path = fsspec.core.url_to_fs(location)
        return do(fs, path)
    except Refusal:
        raise
    except ImportError as missing:
        raise Refusal(
            f"`{printable(location)}` needs a client for `{kind}` ({told(missing)}): {client}."
        ) from missing
    except Exception as error:  # every file system of fsspec raises classes of its own
        raise Refusal(f"`{printable(location)}` cannot be read ({told(error)}).") from error
