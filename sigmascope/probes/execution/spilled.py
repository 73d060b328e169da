"""Copies of tensors in a temporary file, where memory has no room for them.

The file has no name, so that nothing is left of it whatever ends the process. It is written and
read by pieces: no more than one of them is in memory.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal, allowed, size_words
from sigmascope.linalg import sums

LARGE = 2**20  # bytes of a tensor that is worth a place in a file
PIECE = 2**22  # bytes that are written or read at once


def spills(t: Tensor) -> bool:
    """Whether a tensor's copy may lie in a file: plain numbers, many, in one piece of memory."""
    plain = type(t) in (Tensor, nn.Parameter) and t.layout == torch.strided
    if not plain or t.device.type != "cpu" or t.is_quantized or t.is_complex():
        return False
    return t.numel() * t.itemsize >= LARGE and sums.as_it_lies(t).is_contiguous()


@dataclass(frozen=True, slots=True)
class Spilled:
    """A copy of one tensor.

    Attributes:
        file: Where it lies.
        start: Its first byte there.
    """

    file: "Spill"
    start: int

    def holds(self, t: Tensor) -> bool:
        """Whether a tensor of the same shape and strides has the same bits."""
        return all(torch.equal(own, kept) for own, kept in self._both(t))

    def restore(self, t: Tensor) -> None:
        """Put the copy back into the tensor."""
        for own, kept in self._both(t):
            own.copy_(kept)

    def _both(self, t: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        file = self.file.file
        file.seek(self.start)
        for own in _pieces(t):
            read = bytearray(own.numel() * own.itemsize)
            if file.readinto(read) != len(read):  # pyright: ignore[reportAttributeAccessIssue]
                raise OSError("A temporary file ended early: somebody has cut it.")
            yield own, torch.frombuffer(read, dtype=own.dtype)


class Spill:
    """A file for the copies of some tensors; it goes when the last of these does.

    Attributes:
        file: Itself.

    Args:
        needed: Bytes of them all.
        share: Of the memory allowed that copies may take; named in the refusal.

    Raises:
        Refusal: If there is no room for it on disk, with what is needed there or in memory.
    """

    def __init__(self, needed: int, share: float) -> None:
        self._needed, self._share, self._end = needed, share, 0
        try:
            free = shutil.disk_usage(tempfile.gettempdir()).free
            if needed > free:
                raise self._no_room(f"{size_words(free)} are free")
            self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (open while it is used)
        except OSError as error:
            raise self._no_room(str(error)) from error
        weakref.finalize(self, self.file.close)

    def put(self, t: Tensor) -> Spilled:
        """Write a tensor that `spills`.

        Raises:
            Refusal: If the disk is full meanwhile.
        """
        start = self._end
        try:
            self.file.seek(start)
            for piece in _pieces(t):
                self.file.write(piece.numpy().data)
            self.file.flush()
        except OSError as error:
            raise self._no_room(str(error)) from error
        self._end += t.numel() * t.itemsize
        return Spilled(self, start)

    def _no_room(self, got: str) -> Refusal:
        return Refusal(
            f"The first run of a model needs a copy of its weights, {size_words(self._needed)}, "
            f"which {size_words(allowed())} of memory have no room for, and neither has the folder "
            f"of temporary files, got: {got}. Allow {size_words(int(self._needed / self._share))} "
            "of memory by `memory=` (`--memory`), or name a folder with more room: "
            "`TMPDIR=/path` in the environment."
        )


def _pieces(t: Tensor) -> tuple[Tensor, ...]:
    """Its bits, piece by piece, as they lie in memory."""
    flat = sums.as_it_lies(t.detach()).view(-1)
    words = flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.itemsize])
    return words.split(PIECE // t.itemsize)
