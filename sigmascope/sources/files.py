"""Arrays and tensors from files."""

import gzip
import pickle
import struct
import warnings
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope import gate
from sigmascope.gate import Refusal
from sigmascope.sources.archives import require_archive, require_array, require_arrays
from sigmascope.sources.refusals import listed, nearest, told

LARGEST = 1 << 30  # bytes of an idx file; MNIST and its kin have 47 million
KINDS = (".npy", ".npz", ".pt", ".pth", ".safetensors")
OTHERWISE = "write a function that reads it and returns `x, y`, and name that, `file.py:function`."


def existing(path: Path) -> Path:
    """The path, if there is a file.

    Raises:
        Refusal: If there is not; the message names the nearest neighbour.
    """
    if "\0" in str(path):
        raise Refusal("The name of a file cannot hold a null byte; name another.")
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir() if p.suffix in KINDS)
        one = f", one of {listed(inside)}" if inside else ""
        raise Refusal(f"`{path}` is a folder; name a file in it{one}.")
    if path.exists() and not path.is_file():
        raise Refusal(f"`{path}` is a device, pipe or socket; name a file.")
    if not path.is_file():
        if not path.parent.is_dir():
            raise Refusal(f"There is no file `{path}`: there is no folder `{path.parent}`.")
        beside = [p.name for p in path.parent.iterdir()]
        raise Refusal(f"There is no file `{path}`.{nearest(path.name, beside)}")
    return path


def read(path: Path) -> Any:
    """What an array file holds: an array, a tensor, or a mapping (or sequence) of them.

    Nothing in the file is run: pickles are read by torch's `weights_only` reader, and arrays of
    Python objects are refused.

    Raises:
        Refusal: If there is no such file, its kind is not known, or it is damaged.
    """
    if path.is_dir() and not any(p.suffix in KINDS for p in path.iterdir()):
        raise Refusal(f"`{path}` is a folder; name a file in it, or {OTHERWISE}")
    suffix = existing(path).suffix.lower()
    if suffix not in KINDS:
        kinds = ", ".join(KINDS)
        raise Refusal(
            f"`{path}` must be a file of kind {kinds}, got `{suffix or 'none'}`: convert it, or "
            f"{OTHERWISE}"
        )
    if path.stat().st_size == 0:
        raise Refusal(f"`{path}` is empty: it has no bytes.")
    if suffix in (".npy", ".npz"):
        return _numpy(path)
    return read_safetensors(path) if suffix == ".safetensors" else read_torch(path)


def _require_no_program(path: Path) -> None:
    if path.suffix == ".py":
        raise Refusal(
            f"`{path}` is a program, not a checkpoint: `sigmascope profile {path.name}:NAME` "
            "measures the model that a function of it returns."
        )


def read_torch(path: Path) -> Any:
    """What `torch.save` wrote, on the CPU, if it holds only tensors and plain containers.

    Bytes that lie in the file as they are stay there until they are read, so that a model that
    takes them over is never held twice.

    Raises:
        Refusal: If reading it would run code, or if it is damaged.
    """
    _require_no_program(path)
    try:
        archive = zipfile.is_zipfile(path)  # else a pickle of older torch, with its own bytes
        if archive:
            require_archive(path)
        gate.require_room(path.stat().st_size, f"`{path}`")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch speaks of storage classes here: kept nowhere
            mapped = archive and _is_plain(path)
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Refusal:
        raise
    except pickle.UnpicklingError as error:
        raise Refusal(
            f"`{path}` cannot be read as tensors alone, and reading anything else could run code "
            "that it carries: save a state dict or a dictionary of tensors with `torch.save`, or a "
            ".safetensors file."
        ) from error
    except Exception as error:  # of bytes that are no pickle torch's reader raises anything
        raise Refusal(
            f"`{path}` is damaged or not a file of `torch.save` ({told(error)}): save it again, "
            "e.g. `torch.save(model.state_dict(), path)` for weights."
        ) from error


def _is_plain(path: Path) -> bool:
    """Whether nothing in an archive is compressed: what is cannot be read in its place."""
    with zipfile.ZipFile(path) as archive:
        return all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, by name.

    Raises:
        Refusal: If it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    gate.require_room(path.stat().st_size, f"`{path}`")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise Refusal(f"`{path}` is damaged or not a .safetensors file ({told(error)}).") from error


def read_idx(path: Path) -> Tensor:
    """An array in the idx format of MNIST, of unsigned bytes, gzipped or not.

    Raises:
        Refusal: If it is damaged.

    Source:
        LeCun, Cortes & Burges, yann.lecun.com/exdb/mnist.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            content = file.read(LARGEST)
    except (OSError, EOFError, zlib.error) as error:
        raise Refusal(f"`{path}` is damaged ({told(error)}): fetch it again.") from error
    if len(content) < 4 or content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise Refusal(f"`{path}` is not an idx file of bytes: fetch it again.")
    shape = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    body = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3])
    if body.size != prod(shape):
        raise Refusal(f"`{path}` must hold {prod(shape)} bytes, got {body.size}: fetch it again.")
    return torch.from_numpy(body.reshape(shape).copy())


def _numpy(path: Path) -> Any:
    try:
        if zipfile.is_zipfile(path):
            require_arrays(path)
        with path.open("rb") as file:  # of a damaged archive np.load would not let go
            if path.suffix.lower() == ".npy" and not zipfile.is_zipfile(path):
                require_array(file, path.stat().st_size, f"`{path}`")
                file.seek(0)
            content = np.load(file, allow_pickle=False)
            return content if isinstance(content, np.ndarray) else _members(content)
    except Refusal:
        raise
    except Exception as error:  # of bytes that are not theirs NumPy and zip raise anything
        if "Object arrays" in str(error):
            raise Refusal(
                f"`{path}` holds Python objects (dtype object), and reading them could run code: "
                "save arrays of numbers."
            ) from error
        raise Refusal(f"`{path}` is damaged or not a NumPy file ({told(error)}).") from error


def _members(archive: Any) -> dict[str, np.ndarray]:
    with archive:
        return {name: archive[name] for name in archive.files}
