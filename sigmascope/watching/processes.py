"""The processes that train one model together, or this one alone.

A reading is a function of sums over samples or over shards, so that every process hands in its own
part and none needs to see that of another. What is not split (weights under
`DistributedDataParallel`) is handed in by each process and divided by their number.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sigmascope.core.guard import Refusal
from sigmascope.models.state import within


@dataclass(frozen=True, slots=True)
class Processes:
    """Those that train one model.

    Attributes:
        count: So many.
        rank: Which of them this is, from 0.
        device: Where what they send to one another must lie.
        group: Through which; None for the default one.
        first: The one that decides and writes, by its number in the default group.
        wrapper: Their model, where it is wrapped for data parallelism.
    """

    count: int = 1
    rank: int = 0
    device: torch.device = field(default_factory=partial(torch.device, "cpu"))
    group: Any = None
    first: int = 0
    wrapper: DistributedDataParallel | None = None

    @classmethod
    def of(cls, model: nn.Module, together: bool | None) -> "Processes":
        """Those that train one model together: all of the group that it is wrapped for.

        Args:
            model: Wrapped for training by several processes, or not.
            together: Whether they do; None to go by the model.

        Raises:
            Refusal: If they are said to, and no group of processes was started; of a model that is
                sharded in flat pieces.
        """
        fsdp = sys.modules.get("torch.distributed.fsdp")
        flat = getattr(fsdp, "FullyShardedDataParallel", None)
        if flat is not None and any(isinstance(m, flat) for m in model.modules()):
            raise Refusal(
                "`model` must be sharded by parameters, got a FullyShardedDataParallel, whose "
                "shards are flat pieces without rows or columns. Shard it with "
                "`torch.distributed.fsdp.fully_shard`, or wrap it in DistributedDataParallel."
            )
        started = torch.distributed.is_available() and torch.distributed.is_initialized()
        if together and not started:
            raise Refusal(
                "`together=True` needs a group of processes, got none. Call "
                "`torch.distributed.init_process_group` first, or leave `together` out."
            )
        if not started:
            return cls()
        wrapper = next((m for m in within(model) if isinstance(m, DistributedDataParallel)), None)
        if together is None:
            together = wrapper is not None or is_sharded(model)
        if not together:
            return cls()
        # that of the wrapper, or of the mesh that weights lie on; None for all
        group = None if wrapper is None else wrapper.process_group
        kind = sharded_kind()
        held: list[Any] = [p for p in model.parameters() if kind and isinstance(p, kind)]
        if held:
            mesh = max((p.device_mesh for p in held), key=lambda m: m.size())
            group = mesh.get_group() if mesh.ndim == 1 else None
        everyone = torch.distributed.get_world_size()
        if group is not None and torch.distributed.get_world_size(group) == everyone:
            group = None
        nccl = torch.distributed.get_backend(group) == "nccl"
        device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
        count = torch.distributed.get_world_size(group)
        first = 0 if group is None else torch.distributed.get_global_rank(group, 0)
        return cls(count, torch.distributed.get_rank(group), device, group, first, wrapper)

    @property
    def ending(self) -> bool:
        """Whether some may end before the others (`Join`), which then must not wait for them."""
        join = getattr(self.wrapper, "_join_config", None)  # has no public name
        return bool(getattr(join, "enable", False))

    def summed(self, part: Tensor) -> Tensor:
        """The sum over all processes, in float64."""
        total = part.double()
        if self.count > 1:
            total = total.to(self.device, copy=True)
            torch.distributed.all_reduce(total, group=self.group)
        return total

    def sent(self, part: Tensor) -> tuple[Tensor, Any]:
        """What will be the sum over all processes, of float64, and what to wait for until then."""
        total = part.to(self.device, copy=True)
        work: Any = torch.distributed.all_reduce(total, group=self.group, async_op=True)
        return total, work

    def alike(self, numbers: Sequence[float]) -> list[bool]:
        """Whether each number is the same in all processes."""
        if self.count == 1:
            return [True] * len(numbers)
        mine = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        ends = torch.cat([mine, -mine])
        torch.distributed.all_reduce(ends, torch.distributed.ReduceOp.MAX, group=self.group)
        high, low = ends.view(2, -1)
        return (high == -low).tolist()

    def agreed(self, numbers: Sequence[float]) -> list[float]:
        """The numbers of the first process."""
        if self.count == 1:
            return list(numbers)
        sent = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        torch.distributed.broadcast(sent, self.first, group=self.group)
        return sent.tolist()

    def message(self, size: int, said: bytes) -> bytes:
        """What the first process says, of a size that all know."""
        sent = torch.zeros(size, dtype=torch.uint8)
        if not self.rank:
            sent = torch.frombuffer(bytearray(said), dtype=torch.uint8)
        sent = sent.to(self.device)
        torch.distributed.broadcast(sent, self.first, group=self.group)
        return bytes(sent.cpu().tolist())

    def alone(self, number: float) -> Tensor:
        """A number of this process among zeros for all others, so that a sum tells all."""
        found = torch.zeros(self.count, dtype=torch.float64)
        found[self.rank] = number
        return found


@dataclass(frozen=True, slots=True)
class LocalShard:
    """What this process holds of a tensor.

    Attributes:
        tensor: Its own entries; all of them where the tensor is not sharded.
        copies: Processes that hold these same entries, this one included.
    """

    tensor: Tensor
    copies: int


def part(tensor: Tensor, processes: Processes) -> LocalShard:
    """This process' entries of a tensor, or of the `DTensor` that it is."""
    kind = sharded_kind()
    if kind is None or not isinstance(tensor, kind):
        return LocalShard(tensor, processes.count)
    held: Any = tensor
    mesh = held.device_mesh
    shards = 1
    for dim, placement in enumerate(held.placements):
        shards *= mesh.size(dim) if is_cut(placement) else 1
    return LocalShard(held.to_local(), max(1, processes.count // shards))


def is_sharded(model: nn.Module) -> bool:
    """Whether any weight is a `DTensor`."""
    kind = sharded_kind()
    return kind is not None and any(isinstance(p, kind) for p in model.parameters())


def is_partial(tensor: Tensor) -> bool:
    """Whether it is a part of a sum over processes that is not taken yet."""
    kind = sharded_kind()
    held: Any = tensor
    cut = kind is not None and isinstance(tensor, kind)
    return cut and any(p.is_partial() for p in held.placements)


def added_up(tensor: Tensor) -> Tensor:
    """The sum of which a tensor is a part; called by all processes together."""
    from torch.distributed.tensor import Replicate

    held: Any = tensor
    whole = [Replicate() if p.is_partial() else p for p in held.placements]
    return held.redistribute(placements=whole)


def is_cut(placement: Any) -> bool:
    """Whether a tensor is cut over a dimension of a mesh, in one piece or in strides."""
    return not (placement.is_replicate() or placement.is_partial())


def sharded_kind() -> Any:
    """The class `DTensor`; None where nothing has imported it, so that no tensor is one."""
    module = sys.modules.get("torch.distributed.tensor")
    return None if module is None else module.DTensor


def entries(activation: Tensor) -> Tensor:
    """This process' entries of an activation, which tensor parallelism may have cut.

    Raises:
        ValueError: If it is a part of a sum that was not taken yet.
    """
    kind = sharded_kind()
    held: Any = activation
    if kind is None or not isinstance(activation, kind):
        return activation
    if is_partial(activation):
        raise ValueError("an activation is a part of a sum over processes that is not taken")
    return held.to_local()


def features(activation: Tensor, dim: int) -> tuple[Tensor, slice, int]:
    """This process' entries of an activation, and which of all features they are.

    Args:
        activation: Of some samples.
        dim: That of the features.

    Returns:
        The entries, the place of their features among all, and the number of all.

    Raises:
        ValueError: As `entries`, and if the features are cut twice.
    """
    width, mine = activation.shape[dim], entries(activation)
    if mine is activation or mine.shape[dim] == width:
        return mine, slice(0, width), width
    held: Any = activation
    cuts = [d for d, p in enumerate(held.placements) if is_cut(p) and p.dim == dim]
    if len(cuts) != 1:
        raise ValueError(f"features are cut {len(cuts)} times, over several dimensions of the mesh")
    each = -(-width // held.device_mesh.size(cuts[0]))
    first = min(each * held.device_mesh.get_local_rank(cuts[0]), width)
    return mine, slice(first, first + mine.shape[dim]), width
