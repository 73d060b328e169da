"""What a file says of itself, weighed before it is read.

A header of eighty bytes can declare an array of terabytes, and a kilobyte of zip a gigabyte of
zeros. So sizes are read first: of an array the declared bytes must be those that the file has, of
an archive the members must be plain, and everything together must fit the budget of memory.
"""

import zipfile
from io import BufferedIOBase
from math import prod
from pathlib import Path
from typing import IO

from numpy.lib import format as npy

from sigmascope import gate
from sigmascope.gate import Refusal

PLAIN = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}
ENCRYPTED = 1
MEMBERS = 1_000_000  # of an archive; more is no model and no data set
READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def require_array(file: IO[bytes] | BufferedIOBase, size: int, place: str) -> None:
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
    gate.require_room(declared, place)
    if declared != here:
        raise Refusal(
            f"{place} must hold {declared} bytes, for it declares {dtype} of shape {shape}, got "
            f"{here}: it is damaged; save it again."
        )


def require_archive(path: Path) -> None:
    """Refuse a zip file whose members are encrypted, packed in ways unknown, or too large together.

    Raises:
        zipfile.BadZipFile: If it has no list of members.
        Refusal: As above.
    """
    gate.require_room(path.stat().st_size, f"`{path}`")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if len(members) > MEMBERS:
        raise Refusal(f"`{path}` must have at most {MEMBERS} members, got {len(members)}.")
    for member in members:
        name = gate.printable(member.filename)
        if member.flag_bits & ENCRYPTED:
            raise Refusal(
                f"`{path}` must be readable, but `{name}` in it is encrypted: save it bare."
            )
        if member.compress_type not in PLAIN:
            raise Refusal(
                f"`{path}` must be packed by deflate or not at all, but `{name}` in it uses method "
                f"{member.compress_type}: save it again with NumPy or torch."
            )
    gate.require_room(sum(m.file_size for m in members), f"`{path}`, unpacked,")


def require_arrays(path: Path) -> None:
    """`require_archive`, and `require_array` of every `.npy` member.

    Raises:
        zipfile.BadZipFile: As `require_archive`.
        ValueError: As `require_array`.
        Refusal: As both.
    """
    require_archive(path)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as file:
                    name = gate.printable(member.filename)
                    require_array(file, member.file_size, f"`{name}` in `{path}`")
