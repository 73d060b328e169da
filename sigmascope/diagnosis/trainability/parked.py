"""What tensors hold, put into a temporary file for as long as nothing computes with them.

Of several trainings that take turns, one is in memory: its weights, its gradients and what its
optimiser remembers. The others keep their modules and tensors, whose memory is given back; their
bytes are in a file that has no name, so that nothing is left of it whatever ends the process.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from typing import IO

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal, size_words, trim

SMALL = 1 << 12  # bytes of a memory that stays: counters of steps and the like
PIECE = 1 << 22  # bytes that are written or read at once


class Parking:
    """A training whose tensors may leave the memory and come back.

    Attributes:
        size: Bytes that are parked now.
    """

    def __init__(self) -> None:
        self.size = 0
        self._file: IO[bytes] | None = None
        self._left: list[tuple[torch.UntypedStorage, int]] = []

    def park(self, tensors: Iterable[Tensor], *, but: frozenset[int]) -> None:
        """Write what tensors hold to a file and give their memory back.

        Args:
            tensors: Not used until `fetch`. Views of one memory keep sharing it.
            but: Addresses of memory that others use, which stays.

        Raises:
            Refusal: If there is no room for the file; then all of them are as they were.
        """
        left = {s.data_ptr(): s for t in tensors for s in _own(t) if s.data_ptr() not in but}
        needed = sum(s.nbytes() for s in left.values())
        try:
            file = self._file = self._file or self._made()
            file.seek(0)
            for storage in left.values():
                for piece in _pieces(storage):
                    file.write(piece.to("cpu", copy=True).numpy().data)  # no view of it
            file.flush()
        except OSError as error:
            raise no_room(needed, str(error)) from error
        for storage in left.values():
            self._left.append((storage, storage.nbytes()))
            storage.resize_(0)
        self.size = needed
        trim()

    def _made(self) -> IO[bytes]:
        """A file that is closed with this place at the latest."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 (open for as long as something is in it)
        weakref.finalize(self, file.close)
        return file

    def fetch(self) -> None:
        """Bring back what is parked, bit for bit, to where it was."""
        if self._file is None or not self._left:
            return
        self._file.seek(0)
        for storage, size in self._left:
            storage.resize_(size)
            for piece in _pieces(storage):
                read = bytearray(self._file.read(len(piece)))
                piece.copy_(torch.frombuffer(read, dtype=torch.uint8))
        self._left, self.size = [], 0

    def close(self) -> None:
        """Let go of the file, and with it of what is parked."""
        if self._file is not None:
            self._file.close()
        self._file, self._left, self.size = None, [], 0


def require_place(needed: int) -> None:
    """Refuse to begin what would not find room for its temporary files.

    Args:
        needed: Bytes that are parked at once, at most.

    Raises:
        Refusal: With what is needed and what is free.
    """
    try:
        free = shutil.disk_usage(tempfile.gettempdir()).free
    except OSError as error:  # there is no folder that takes files
        raise no_room(needed, str(error)) from error
    if needed > free:
        raise no_room(needed, f"{size_words(free)} are free")


def no_room(needed: int, got: str) -> Refusal:
    """That copies find no room, and where to give them some."""
    return Refusal(
        f"Copies that wait for their turn need {size_words(needed)} in the folder of temporary "
        f"files, got: {got}. Name a folder with more room: `TMPDIR=/path` in the environment."
    )


def memory_of(model: nn.Module) -> frozenset[int]:
    """Addresses of the memory of a model's weights and buffers."""
    own = (*model.parameters(), *model.buffers())
    return frozenset(s.data_ptr() for t in own for s in _own(t))


def _own(t: Tensor) -> list[torch.UntypedStorage]:
    """The memory of a plain tensor; none where it is small, or there is more to it."""
    if type(t) not in (Tensor, nn.Parameter) or t.layout != torch.strided or t.is_meta:
        return []
    storage = t.untyped_storage()
    plain = storage.nbytes() > SMALL and storage.resizable() and not storage.is_shared()
    return [storage] if plain else []


def _pieces(storage: torch.UntypedStorage) -> tuple[Tensor, ...]:
    """Its bytes, piece by piece."""
    whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return whole.split(PIECE)
