"""Arrays and tensors of data sets from files, weighed before they are read.

A header of eighty bytes can declare an array of terabytes, and a kilobyte of zip a gigabyte of
zeros. So sizes are read first: of an array the declared bytes must be those that the file has, of
an archive the members must be plain, and everything together must fit the budget of memory.
"""

import gzip
import io
import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from io import BufferedIOBase
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from sigmascope.core import guard
from sigmascope.core.guard import Refusal, told

PACKINGS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}
ENCRYPTED = 1
VALUE = 32  # bytes of a value in a list, at least
MEMBERS = 1_000_000  # of an archive; more is no model and no data set
READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
LARGEST = 1 << 30  # bytes of an idx file; MNIST and its kin have 47 million
KINDS = (".npy", ".npz", ".pt", ".pth", ".safetensors")
OTHERWISE = "write a function that reads it and returns `x, y`, and name that, `file.py:function`."


def read(path: Path) -> Any:
    """What an array file holds: an array, a tensor, or a mapping (or sequence) of them.

    Nothing in the file is run: pickles are read by torch's `weights_only` reader, and arrays of
    Python objects are refused.

    Raises:
        Refusal: If there is no such file, its kind is not known, or it is damaged.
    """
    if path.is_dir() and not any(p.suffix in KINDS for p in path.iterdir()):
        raise Refusal(f"`{path}` is a folder; name a file in it, or {OTHERWISE}")
    suffix = guard.require_file(path, KINDS).suffix.lower()
    if suffix not in KINDS:
        kinds = ", ".join(KINDS)
        raise Refusal(
            f"`{path}` must be a file of kind {kinds}, got `{suffix or 'none'}`: convert it, or "
            f"{OTHERWISE}"
        )
    if path.stat().st_size == 0:
        raise Refusal(f"`{path}` is empty: it has no bytes.")
    if suffix not in (".npy", ".npz"):
        return read_safetensors(path) if suffix == ".safetensors" else read_torch(path)
    try:
        packed = zipfile.is_zipfile(path)
        if packed:
            with zipfile.ZipFile(path) as archive:
                for member in _members(path):
                    if member.filename.endswith(".npy"):
                        with archive.open(member) as file:
                            name = guard.printable(member.filename)
                            _require_array(file, member.file_size, f"`{name}` in `{path}`")
        # of a damaged archive np.load would not let go
        with guard.opened(path) as whole, io.BufferedReader(whole) as file:  # pyright: ignore
            if path.suffix.lower() == ".npy" and not packed:
                _require_array(file, path.stat().st_size, f"`{path}`")
                file.seek(0)
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            with content:
                return {name: content[name] for name in content.files}
    except Refusal:
        raise
    except Exception as error:  # of bytes that are not theirs NumPy and zip raise anything
        if "Object arrays" in str(error):
            raise Refusal(
                f"`{path}` holds Python objects (dtype object), and reading them could run code: "
                "save arrays of numbers."
            ) from error
        raise Refusal(f"`{path}` is damaged or not a NumPy file ({told(error)}).") from error


def read_torch(path: Path) -> Any:
    """What `torch.save` wrote, on the CPU, if it holds only tensors and plain containers.

    Bytes that lie in the file as they are stay there until they are read.

    Raises:
        Refusal: If reading it would run code, or if it is damaged.
    """
    try:
        archive = zipfile.is_zipfile(path)  # else a pickle of older torch, with its own bytes
        plain = archive and all(m.compress_type == zipfile.ZIP_STORED for m in _members(path))
        guard.require_room(path.stat().st_size, f"`{path}`")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch speaks of storage classes here: kept nowhere
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=plain)
        guard.require_room(VALUE * _written_out(content, {}), f"`{path}`, written out,")
        return content
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


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, by name.

    Raises:
        Refusal: If it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    guard.require_room(path.stat().st_size, f"`{path}`")
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


def _written_out(value: Any, known: dict[int, int]) -> int:
    """Values in nested containers, those of one that lies in several places as often as it does.

    A file of a thousand bytes has lists of two lists each, which are one and the same.
    """
    if not isinstance(value, Mapping | list | tuple):
        return 1
    if id(value) not in known:
        known[id(value)] = 1 << 62  # one that lies in itself
        parts = value.values() if isinstance(value, Mapping) else value
        known[id(value)] = 1 + sum(_written_out(part, known) for part in parts)
    return known[id(value)]


def _members(path: Path) -> list[zipfile.ZipInfo]:
    """The members of a zip file, seen to be readable and not too large together."""
    guard.require_room(path.stat().st_size, f"`{path}`")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if len(members) > MEMBERS:
        raise Refusal(f"`{path}` must have at most {MEMBERS} members, got {len(members)}.")
    for member in members:
        name = guard.printable(member.filename)
        if member.flag_bits & ENCRYPTED:
            raise Refusal(
                f"`{path}` must be readable, but `{name}` in it is encrypted: save it bare."
            )
        if member.compress_type not in PACKINGS:
            raise Refusal(
                f"`{path}` must be packed by deflate or not at all, but `{name}` in it uses method "
                f"{member.compress_type}: save it again with NumPy or torch."
            )
    guard.require_room(sum(m.file_size for m in members), f"`{path}`, unpacked,")
    return members


def _require_array(file: IO[bytes] | BufferedIOBase, size: int, place: str) -> None:
    """Refuse an `.npy` stream that does not hold what its header declares, or holds too much.

    Args:
        file: At its beginning; left anywhere.
        size: Bytes of the whole of it.
        place: Its name in a refusal.

    Raises:
        ValueError: If it has no header that NumPy can read.
        Refusal: If the sizes do not agree, or are beyond the budget.
    """
    version = npy.read_magic(file)
    if version not in READERS:
        raise ValueError(f"format {version[0]}.{version[1]} of .npy is not known")
    shape, _, dtype = READERS[version](file)
    if dtype.hasobject:
        return  # refused by the reader, in words of its own
    declared, here = prod(map(int, shape)) * dtype.itemsize, size - file.tell()
    guard.require_room(declared, place)
    if declared != here:
        raise Refusal(
            f"{place} must hold {declared} bytes, for it declares {dtype} of shape {shape}, got "
            f"{here}: it is damaged; save it again."
        )
