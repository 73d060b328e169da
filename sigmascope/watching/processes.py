"""The processes that train one model together, or this one alone.

A reading is a function of sums over samples or over shards, so that every process hands in its own
part and none needs to see that of another. What is not split (weights under
`DistributedDataParallel`) is handed in by each process and divided by their number.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sigmascope.gate import Refusal


@dataclass(frozen=True, slots=True)
class Processes:
    """Those that train one model.

    Attributes:
        count: So many.
        rank: Which of them this is, from 0.
        device: Where what they send to one another must lie.
    """

    count: int = 1
    rank: int = 0
    device: torch.device = field(default_factory=partial(torch.device, "cpu"))

    @classmethod
    def of(cls, model: nn.Module, together: bool | None) -> "Processes":
        """All processes of the default group, if they train one model.

        Args:
            model: Wrapped for training by several processes, or not.
            together: Whether they do; None to go by the model.

        Raises:
            Refusal: If they are said to, and no group of processes was started.
        """
        started = torch.distributed.is_available() and torch.distributed.is_initialized()
        if together and not started:
            raise Refusal(
                "`together=True` needs a group of processes, got none. Call "
                "`torch.distributed.init_process_group` first, or leave `together` out."
            )
        if not started or not (_is_shared(model) if together is None else together):
            return cls()
        nccl = torch.distributed.get_backend() == "nccl"
        device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
        return cls(torch.distributed.get_world_size(), torch.distributed.get_rank(), device)

    def summed(self, part: Tensor) -> Tensor:
        """The sum over all processes, in float64."""
        total = part.double()
        if self.count > 1:
            total = total.to(self.device, copy=True)
            torch.distributed.all_reduce(total)
        return total

    def agreed(self, numbers: Sequence[float]) -> list[float]:
        """The numbers of the first process."""
        if self.count == 1:
            return list(numbers)
        sent = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        torch.distributed.broadcast(sent, 0)
        return sent.tolist()

    def joined(self, rows: Tensor) -> Tensor:
        """The rows of all processes, those of the first one first; each may have its own number."""
        if self.count == 1:
            return rows
        mine = torch.tensor([len(rows)], dtype=torch.int64, device=self.device)
        counts = [torch.zeros_like(mine) for _ in range(self.count)]
        torch.distributed.all_gather(counts, mine)
        lengths = [int(c) for c in counts]
        padded = rows.new_zeros(max(lengths), *rows.shape[1:], device=self.device)
        padded[: len(rows)] = rows
        parts = [torch.zeros_like(padded) for _ in lengths]
        torch.distributed.all_gather(parts, padded)
        return torch.cat([part[:n] for part, n in zip(parts, lengths, strict=True)])


@dataclass(frozen=True, slots=True)
class Part:
    """What this process holds of a tensor.

    Attributes:
        tensor: Its own entries; all of them where the tensor is not sharded.
        copies: Processes that hold these same entries, this one included.
    """

    tensor: Tensor
    copies: int


def part(tensor: Tensor, processes: Processes) -> Part:
    """This process' entries of a tensor, or of the `DTensor` that it is."""
    kind = sharded_kind()
    if kind is None or not isinstance(tensor, kind):
        return Part(tensor, processes.count)
    held: Any = tensor
    if any(p.is_partial() for p in held.placements):
        from torch.distributed.tensor import Replicate

        whole = [Replicate() if p.is_partial() else p for p in held.placements]
        held = held.redistribute(placements=whole)
    mesh = held.device_mesh
    shards = 1
    for dim, placement in enumerate(held.placements):
        shards *= mesh.size(dim) if placement.is_shard() else 1
    return Part(held.to_local(), max(1, processes.count // shards))


def sharded_kind() -> Any:
    """The class `DTensor`; None where nothing has imported it, so that no tensor is one."""
    module = sys.modules.get("torch.distributed.tensor")
    return None if module is None else module.DTensor


def whole(tensor: Tensor) -> Tensor:
    """An activation with all of its features, where tensor parallelism has cut it."""
    kind = sharded_kind()
    held: Any = tensor
    return held.full_tensor() if kind is not None and isinstance(tensor, kind) else tensor


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own module, inside of what `torch.compile` and data parallelism put around it."""
    *_, inner = _within(model)
    return inner


def _within(model: nn.Module) -> Iterator[nn.Module]:
    yield model
    if isinstance(model, DistributedDataParallel | nn.DataParallel):
        yield from _within(model.module)
    elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):  # `torch.compile`
        yield from _within(inner)


def _is_shared(model: nn.Module) -> bool:
    wrapped = any(isinstance(each, DistributedDataParallel) for each in _within(model))
    kind = sharded_kind()
    return wrapped or (kind is not None and any(isinstance(p, kind) for p in model.parameters()))
