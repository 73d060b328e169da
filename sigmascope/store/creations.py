"""Empty run files."""

import os
import secrets
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from sigmascope.store.refusals import Unwritable
from sigmascope.store.tables import script


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
    _require_alone(path)
    try:
        _place(_empty(), path)
    except OSError as error:
        raise Unwritable(
            f"No run file can be made at {path}: {error.strerror or error}. Nothing is left there; "
            "see that the folder may be written and has room."
        ) from error


def _require_alone(path: Path) -> None:
    for end in ("-wal", "-journal"):
        left = Path(f"{path}{end}")
        if os.path.lexists(left):
            raise Unwritable(
                f"No run file is made at {path}, for {left.name} of another file of that name lies "
                "there and would be taken for its log. Move it away, or name another file."
            )


def _empty() -> bytes:
    """The bytes of a run file without steps."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
        file.executescript(script(secrets.token_hex(16)))
        image = bytearray(file.serialize())
    image[18:20] = b"\2\2"  # with a write-ahead log
    return bytes(image)


def _place(image: bytes, path: Path) -> None:
    if sys.platform == "linux" and _unnamed(image, path):
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        fresh = Path(folder) / path.name
        with fresh.open("xb") as file:
            _fill(file.fileno(), image)
        try:
            os.link(fresh, path)  # unlike a rename it never replaces what another just made
        except FileExistsError:
            return
        except OSError:  # a file system without hard links
            fresh.replace(path)


def _unnamed(image: bytes, path: Path) -> bool:
    """Through a file without a name, of which nothing stays if we are killed; False if none can."""
    try:
        file = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:  # a file system that has none
        return False
    root = os.open("/", os.O_RDONLY)  # Python follows links of /proc only from an open folder
    try:
        _fill(file, image)
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=root)
    except FileExistsError:  # two first writers at once: the file of either will do
        return True
    except (FileNotFoundError, PermissionError):  # no /proc
        return False
    finally:
        os.close(file)
        os.close(root)
    return True


def _fill(file: int, image: bytes) -> None:
    rest = memoryview(image)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)
