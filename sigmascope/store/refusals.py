"""What the doors of this room say about files they will not touch."""

import struct
from pathlib import Path

from sigmascope.store.tables import APPLICATION, VERSION

_MAGIC = b"SQLite format 3\0"


def require_run_file(path: Path) -> None:
    """Raise unless `path` is a run file of a version known here; the file is only read.

    The marks are read from the header and not through SQLite, which would already create files
    beside a foreign database in order to look into it.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no run file at {path}. `sigmascope profile MODEL --run {path}` writes one."
        )
    with path.open("rb") as file:
        header = file.read(100)
    application = struct.unpack(">I", header[68:72])[0] if len(header) == 100 else 0
    if not header.startswith(_MAGIC) or application != APPLICATION:
        found = "an SQLite file of another program" if header.startswith(_MAGIC) else "not SQLite"
        raise ValueError(
            f"{path} is not a sigmascope run file: it is {found if header else 'empty'}. "
            "It was left as it is; name another file for the run."
        )
    version = struct.unpack(">I", header[60:64])[0]
    if version > VERSION:
        raise ValueError(
            f"{path} was written by a newer sigmascope (run format {version}, this one knows "
            f"{VERSION}). It was left as it is; upgrade with `pip install -U sigmascope`."
        )
