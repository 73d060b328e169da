"""Files that are far away, through fsspec: what is asked of them, and by ranges only."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from sigmascope.gate import Refusal, printable
from sigmascope.sources.refusals import told

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(::|://)")
WEB = ("http://", "https://")
CLIENTS = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs"}
CLIENTS |= {"http": "aiohttp", "https": "aiohttp", "abfs": "adlfs"}
T = TypeVar("T")


def is_address(place: str) -> bool:
    """Whether a place is read through fsspec: `s3://...`, `memory://...`."""
    return ADDRESS.match(place) is not None


def asked(place: str, do: Callable[[Any, str], T]) -> T:
    """What a file system of fsspec answers.

    Args:
        place: An address.
        do: Asks the file system of it about its path there.

    Raises:
        Refusal: If there is no client for such addresses, or it does not answer.
    """
    kind = place.partition(":")[0].lower()
    try:
        import fsspec
    except ImportError as missing:
        raise Refusal(f"`{printable(place)}` needs fsspec: {_client(kind)}.") from missing
    try:
        fs, path = fsspec.core.url_to_fs(place)
        return do(fs, path)
    except Refusal:
        raise
    except ImportError as missing:
        raise Refusal(
            f"`{printable(place)}` needs a client for `{kind}` ({told(missing)}): {_client(kind)}."
        ) from missing
    except Exception as error:  # every file system of fsspec raises classes of its own
        raise Refusal(f"`{printable(place)}` cannot be read ({told(error)}).") from error


def ranged(fs: Any, path: str, offset: int, length: int) -> bytes:
    """A range, without what a reader of whole files would fetch ahead."""
    ahead = path.startswith(WEB) or "hf" in (fs.protocol, *fs.protocol)
    if not ahead:
        return fs.cat_file(path, start=offset, end=offset + length)
    # of the web `cat_file` takes all that a server sends, also where it sends the whole file
    with fs.open(path, "rb", cache_type="none") as file:
        file.seek(offset)
        return file.read(length)


def entries_of(fs: Any, path: str) -> list[dict[str, Any]] | None:
    """What a folder holds; None where it is none."""
    return fs.ls(path, detail=True) if fs.isdir(path) else None


def _client(kind: str) -> str:
    return f"`pip install {' '.join(filter(None, ('fsspec', CLIENTS.get(kind))))}`"
