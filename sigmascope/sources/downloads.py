"""Files fetched once, checked, and kept."""

import gzip
import hashlib
import os
import tempfile
import urllib.request
import zlib
from pathlib import Path

from sigmascope.gate import Refusal
from sigmascope.sources.refusals import told

LARGEST = 1 << 28  # bytes; no file fetched here is near it


def cache_folder() -> Path:
    """`sigmascope` in the user's cache folder; not created."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "sigmascope"


def fetch(url: str, path: Path, *, sha256: str) -> Path:
    """Fetch a gzipped file to `path`, unless what it holds is not what was expected.

    The file appears whole or not at all, also where two processes fetch it at once.

    Args:
        url: Where it is.
        path: Where it shall be; its folder is made.
        sha256: Of the uncompressed content.

    Returns:
        `path`.

    Raises:
        Refusal: If there is no network, the content differs, or it cannot be written.
    """
    instead = (
        f"put `{path.name}` into a folder named `fashion-mnist` and pass its parent as "
        "`--folder`, or name it in the variable SIGMASCOPE_DATA (Debian: apt install "
        "dataset-fashion-mnist)"
    )
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            content = response.read(LARGEST)
        digest = hashlib.sha256(gzip.decompress(content)).hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise Refusal(
            f"`{path.name}` is not here and cannot be fetched ({told(error)}): {instead}."
        ) from error
    if digest != sha256:
        raise Refusal(
            f"What {url} returned is not the file expected (SHA-256 {digest}): {instead}."
        )
    try:
        _write(content, path)
    except OSError as error:
        raise Refusal(f"`{path}` cannot be written ({told(error)}): {instead}.") from error
    return path


def _write(content: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    try:
        Path(file.name).replace(path)
    except OSError:
        Path(file.name).unlink()
        raise
