"""Files of `torch.save` that are no ranges: pickles of older torch, and compressed archives.

They are read whole, by torch's reader of weights alone, and the last file that was read is kept.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from sigmascope import gate
from sigmascope.gate import Refusal, printable
from sigmascope.sources.files import read_torch
from sigmascope.sources.stored.places import stamp
from sigmascope.sources.stored.raws import Raw, word
from sigmascope.sources.stored.tensors import LeftOut
from sigmascope.sources.stored.trees import leaves


@dataclass(frozen=True, slots=True)
class Loaded(Raw):
    """A tensor of a file that is read whole for it.

    Attributes:
        place: The file.
        name: Of the tensor in it.
        storage: Which of the file's storages it has, and where in it.
    """

    place: str
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    storage: tuple[int, ...]

    def rows(self, start: int, stop: int) -> Tensor:
        tensor = _content(self.place, stamp(self.place))[0].get(self.name)
        if tensor is None or tensor.dtype != self.dtype or tuple(tensor.shape) != self.shape:
            raise Refusal(f"`{printable(self.place)}` changed since it was opened.")
        part = tensor.detach()
        part = part[start:stop] if part.ndim else part
        gate.require_room(part.numel() * part.element_size(), f"`{printable(self.name)}`")
        return part.clone(memory_format=torch.contiguous_format)

    def key(self) -> Hashable:
        return (self.place, self.storage, word(self.dtype), self.shape)


def read_loaded(place: str) -> tuple[dict[str, Raw], list[LeftOut]]:
    """The tensors of a file that is read whole, by name, and what else it holds.

    Raises:
        Refusal: If it cannot be read as tensors alone, or is too large to be read whole.
    """
    content, left = _content(place, stamp(place))
    first = {id_: n for n, id_ in enumerate({_id(t): None for t in content.values()})}
    raws, odd = {}, []
    for name, tensor in content.items():
        if why := why_no_array(tensor):
            odd.append(LeftOut(name, why))
            continue
        where = (first[_id(tensor)], int(tensor.storage_offset()), *tensor.stride())
        raws[name] = Loaded(place, name, tensor.dtype, tuple(tensor.shape), where)
    return raws, [*left, *odd]


def why_no_array(tensor: Tensor) -> str:
    """Why a tensor in memory is no plain array of numbers; nothing where it is one."""
    if tensor.is_meta or is_lazy(tensor):
        return "Without numbers: on the meta device, or not initialised."
    if tensor.is_nested or tensor.layout != torch.strided or tensor.is_quantized:
        return "Sparse, nested or quantised by torch, not an array of numbers: save it dense."
    return ""


def _id(tensor: Tensor) -> int:
    plain = tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized
    return tensor.untyped_storage().data_ptr() if plain else -id(tensor)


@lru_cache(maxsize=1)
def _content(place: str, when: str) -> tuple[dict[str, Tensor], list[LeftOut]]:
    return leaves(read_torch(Path(place)), place, Tensor)
