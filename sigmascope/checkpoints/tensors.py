"""A checkpoint as its headers declare it: tensors that can be read one at a time, anywhere."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from torch import Tensor

from sigmascope.checkpoints.arrays import Array
from sigmascope.checkpoints.decoders import Decoder
from sigmascope.core import guard
from sigmascope.core.guard import Refusal, printable, storable


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor of a checkpoint, not read yet: small, and another process can read it.

    Attributes:
        name: As the model knows it: `x.weight` also where a file holds `x.qweight` and its scales.
        shape: Of what `read` gives, in PyTorch's order.
        dtype: How the numbers are stored: "bfloat16", "Q4_K", "int4 (GPTQ)".
        bytes: That are read for all of it.
        tensors: Names in the file that it is read from.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    tensors: tuple[str, ...]
    _arrays: tuple[Array, ...] = field(repr=False)
    _decoder: Decoder = field(repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        decoder: Decoder,
        arrays: Mapping[str, Array],
    ) -> "Stored":
        """A tensor from the arrays that it is made of, in the order that the decoder takes."""
        size = sum(array.bytes for array in arrays.values())
        held = tuple(arrays.values())
        return cls(storable(name), shape, dtype, size, tuple(arrays), held, decoder)

    def read(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Rows `[start, stop)` along dimension 0, on the CPU, in memory of their own.

        Numbers of 16, 32 and 64 bits come as they are stored, all others as float32. Of plain
        numbers only these rows are read; packed ones may be read whole. A `stop` beyond the end
        is the end; a tensor without dimensions is read whole.

        Raises:
            Refusal: If the file is not there any more, has changed, or holds what it should not;
                if the rows need more memory than is allowed; if `start` is negative or after
                `stop`.
        """
        if not self.shape:
            return self._decoder.rows(self._arrays, (), 0, 1)
        end = self.shape[0] if stop is None else min(stop, self.shape[0])
        start = min(start, self.shape[0])
        if not 0 <= start <= end:
            raise Refusal(f"Rows must be from 0 on and in order, got from {start} to {end}.")
        rows = (end - start) * prod(self.shape[1:])
        guard.require_room(4 * rows, f"`{printable(self.name)}`", do="read fewer rows of it")
        return self._decoder.rows(self._arrays, self.shape, start, end)

    def key(self) -> Hashable:
        """Equal for two that read the same bytes in the same way: tied weights."""
        return (self._decoder, *(array.key() for array in self._arrays))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A tensor that cannot be read, or that holds no weights.

    Attributes:
        name: In the file.
        why: In one sentence.
    """

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Adapter:
    """A change of low rank: `weight + scaling * B @ A`.

    Attributes:
        name: Of the weight in the model that is adapted.
        A: Of shape [r, in].
        B: Of shape [out, r].
        scaling: Alpha over r, or over its root for rank-stabilised adapters.
        turned: Whether the settings say that the weight is stored as `[in, out]`, so that both have
            been transposed; None for an embedding, whose pair always is.
        shifted: Why the weight it is added to is not the one it was made from; empty if it is.
    """

    name: str
    A: Stored
    B: Stored
    scaling: float
    turned: bool | None = False
    shifted: str = ""


# What the headers of a file declare: arrays by name, what is left out, a hash of them.
Header = tuple[dict[str, Array], list[LeftOut], str]
# The same with tensors that stand for themselves, and what is said of all of them.
Parsed = tuple[list[Stored], list[LeftOut], dict[str, Any], str]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files, declared once, beside what reads its headers.

    Attributes:
        name: In words, as a checkpoint has it.
        endings: Of the names of its files.
        is_one: Whether a file is one, by its first sixteen bytes and its name.
        arrays: Reads the header of one file, whose arrays may be parts of a tensor.
        tensors: Reads that of one whose tensors are whole; one of the two is there.
        weights: What its file is called in a folder of Hugging Face, where it has a name there;
            its shards end as that does.
        parts: What the name of every part of a file has in it, where files are split by name.
    """

    name: str
    endings: tuple[str, ...]
    is_one: Callable[[bytes, str], bool]
    arrays: Callable[[str], Header] | None = None
    tensors: Callable[[str], Parsed] | None = None
    weights: str = ""
    parts: str = ""

    @property
    def sharded(self) -> str:
        """How shards end that an index names; empty where no index does."""
        return self.weights[self.weights.index(".") :] if self.weights else ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the headers of a checkpoint declare; every name in them is in one of the three lists.

    Attributes:
        name: As the user named it.
        format: In words: "safetensors, 4 shards".
        tensors: In the order of the files.
        left_out: What is not among them, and why.
        config: `config.json` of a folder, the metadata of GGUF; empty where there is none.
        fingerprint: Changes when a file does (its name, size, time or header).
        adapters: Pairs of a LoRA adapter.
    """

    name: str
    format: str
    tensors: tuple[Stored, ...]
    left_out: tuple[LeftOut, ...]
    config: Mapping[str, Any]
    fingerprint: str
    adapters: tuple[Adapter, ...] = ()
