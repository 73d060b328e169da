"""Norms of gradients, weights and updates: what is cheap enough for nearly every step."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sigmascope.core import quantities as q
from sigmascope.watching.probes.base import Found, Place, Probe, Sharing
from sigmascope.watching.processes import Processes, added_up, is_partial, part, sharded_kind
from sigmascope.watching.sinks import LOSS, OPTIMIZER, Column

# ------------------------------------------------------------------------------
# Squared norms of all trained parameters at once, and of whatever has their shapes.
#
# Whatever one layer costs in Python is paid for every layer at every look, so that all parameters
# of an optimizer go through one call of torch, in groups of one precision.


HALVES = (torch.float16, torch.bfloat16)
NARROW = 2**20  # entries of float32 whose squares are added up as they are
FOREACH: Any = torch  # its fused operations on lists have no public names


@dataclass(frozen=True, slots=True)
class _Group:
    """Parameters of one optimizer whose squares are added up in one precision."""

    at: list[int]
    dtype: torch.dtype
    plain: bool  # they are in that precision


class Squares:
    """Squared norms of tensors that belong to the trained parameters, by their place.

    Args:
        places: The trained layers.
        processes: Those that train the model.
    """

    def __init__(self, places: Sequence[Place], processes: Processes) -> None:
        self.places, self.processes = places, processes
        self.parameters = [p for place in places for p in place.parameters]
        parts = [part(p.detach(), processes) for p in self.parameters]
        self.sizes = [p.tensor.numel() for p in parts]
        self._copies = torch.tensor([float(p.copies) for p in parts], dtype=torch.float64)
        kind = sharded_kind()
        self.sharded = kind is not None and any(isinstance(p, kind) for p in self.parameters)
        self._groups: dict[Optimizer, list[_Group]] = {}
        for optimizer in {p.optimizer for p in places}:
            owned = (place.parameters for place in places if place.optimizer is optimizer)
            mine = {id(p) for own in owned for p in own}
            groups: dict[tuple[torch.dtype, torch.dtype], list[int]] = {}
            for i, p in enumerate(self.parameters):
                if id(p) in mine and self.sizes[i]:
                    groups.setdefault((_summing(p, self.sizes[i]), p.dtype), []).append(i)
            self._groups[optimizer] = [
                _Group(at, wide, wide == own) for (wide, own), at in groups.items()
            ]
        # by which a norm may be off, relatively: `n` roundings of the squares (Higham 2002, (3.5))
        self.error = 0.0
        for p, n in zip(parts, self.sizes, strict=True):
            narrow = _summing(p.tensor, n) != torch.float64
            error = (min(n, NARROW) + 4) * 2.0**-24 if narrow else (n + 4) * 2.0**-53
            self.error = max(self.error, error)

    def empty(self) -> Tensor:
        """Of no parameter: squares, and whether they are there."""
        return torch.zeros(2, len(self.parameters), dtype=torch.float64)

    def held(self, tensor: Tensor) -> Tensor:
        """This process' entries of a parameter or of what belongs to one."""
        if tensor.is_sparse:
            return tensor.coalesce().values()
        return part(tensor, self.processes).tensor if self.sharded else tensor

    def add(
        self, out: Tensor, optimizer: Optimizer, tensors: Callable[[int], Tensor | None]
    ) -> None:
        """Put squared norms into `out`, those of an optimizer's parameters that have a tensor."""
        for group in self._groups.get(optimizer, ()):
            found = {i: t for i in group.at if (t := tensors(i)) is not None}
            if len(found) == len(self.sizes):
                torch.div(_norms([*found.values()], group).square_(), self._copies, out=out[0])
                out[1].fill_(1)
            elif found:
                at = [*found]
                out[0, at] = _norms([*found.values()], group).square_().div_(self._copies[at])
                out[1, at] = 1

    def norms(self, total: Tensor, needed: Callable[[Sequence[float]], bool]) -> dict[str, float]:
        """The norm at each place that was read; `needed` says of which of its parameters."""
        squares, there = total.view(2, -1).tolist()
        found, i = {}, 0
        for place in self.places:
            end = i + len(place.parameters)
            if needed(there[i:end]):
                square = sum(squares[i:end])
                found[place.site] = math.sqrt(square) if square >= 0 else math.nan
            i = end
        return found

    def of(self, optimizer: Optimizer) -> list[int]:
        """The numbers of an optimizer's parameters."""
        return [i for group in self._groups.get(optimizer, ()) for i in group.at]


def _norms(tensors: list[Tensor], group: _Group) -> Tensor:
    """In float64; one that leaves the range of its format is taken again in float64."""
    args = (tensors,) if group.plain else (tensors, 2, group.dtype)
    found = torch.stack(FOREACH._foreach_norm(*args)).double().cpu()
    bad = [] if math.isfinite(float(found.sum())) else (~found.isfinite()).nonzero().flatten()
    for i in map(int, bad):
        found[i] = torch.linalg.vector_norm(tensors[i], dtype=torch.float64)
    return found


def _summing(t: Tensor, size: int) -> torch.dtype:
    if t.dtype in HALVES:
        return torch.float32
    return torch.float64 if t.dtype == torch.float32 and size > NARROW else t.dtype


COPIED = 2**24  # entries whose values before a step are kept at once


class Gradients(Probe):
    """Norm of the gradient of every trained layer, and the learning rates.

    The gradient is what the optimizer is handed: accumulated, clipped, and without the scale of a
    gradient scaler.

    Args:
        squares: Of the trained parameters.
    """

    name = "gradients"
    share = 0.25
    of_gradients = True

    def __init__(self, squares: Squares) -> None:
        self._squares = squares
        self._found = squares.empty()
        self._partial: dict[int, Tensor] = {}

    def expected(self) -> float:
        return 1e-4 + 4e-10 * sum(self._squares.sizes)

    def open(self) -> None:
        self._found = self._squares.empty()
        self._partial = {}

    def before(self, optimizer: Optimizer) -> None:
        self._squares.add(self._found, optimizer, self._gradient)
        scale = getattr(optimizer, "grad_scale", None)  # of fused steps, which divide by themselves
        if isinstance(scale, Tensor):
            self._found[0, self._squares.of(optimizer)] /= float(scale) ** 2

    def agree(self) -> Sharing:
        """What is a part of a sum is added up by all processes together, or by none."""
        if not self._squares.sharded:
            return
        at = torch.zeros(len(self._squares.sizes), dtype=torch.float64)
        at[[*self._partial]] = 1
        total = yield torch.cat([at, at.new_ones(1)])
        if bool(((total != 0) & (total != total[-1])).any()):
            raise ValueError("gradients are parts of sums in some processes only")
        whole = {i: added_up(g) for i, g in sorted(self._partial.items())}
        for optimizer in {p.optimizer: None for p in self._squares.places}:
            got = {i: self._squares.held(g) for i, g in whole.items()}
            self._squares.add(self._found, optimizer, got.get)

    def local(self) -> Tensor:
        return self._found.flatten()

    def read(self, total: Tensor) -> Iterator[Found]:
        norms = self._squares.norms(total, any)  # a parameter may have none
        yield Column(q.GRADIENT_NORM, [*norms], [*norms.values()], self._squares.error)
        optimizers = {p.optimizer: None for p in self._squares.places}
        rates = [
            (f"{i}.{j}", float(group["lr"]))
            for i, optimizer in enumerate(optimizers)
            for j, group in enumerate(optimizer.param_groups)
            if "lr" in group
        ]
        for form, rate in rates:
            yield Column(q.RATE, [OPTIMIZER], [rate], form=form if len(rates) > 1 else "")

    def _gradient(self, i: int) -> Tensor | None:
        gradient = self._squares.parameters[i].grad
        if gradient is None or not is_partial(gradient):
            return None if gradient is None else self._squares.held(gradient)
        self._partial[i] = gradient.detach().clone()
        return None


class Updates(Probe):
    """Norms of weights, of what a step adds to them, and their ratio.

    Updates of large models are read for some layers at a time.

    Args:
        squares: Of the trained parameters.
    """

    name = "updates"
    share = 0.25

    def __init__(self, squares: Squares) -> None:
        self._squares = squares
        # parameters whose copies are kept together
        turns: list[set[int]] = [set()]
        room = COPIED
        for i, size in enumerate(squares.sizes):
            if size > room and turns[-1]:
                turns.append(set())
                room = COPIED
            turns[-1].add(i)
            room -= size
        self._turns = turns
        self._turn = 0
        self._weights, self._steps = squares.empty(), squares.empty()
        self._copies: dict[int, Tensor] = {}  # memory is kept: to ask for it takes longest
        self._before: set[int] = set()

    def expected(self) -> float:
        return 3e-4 + 1.5e-9 * sum(self._squares.sizes)

    def open(self) -> None:
        self._weights, self._steps = self._squares.empty(), self._squares.empty()
        self._before.clear()

    def before(self, optimizer: Optimizer) -> None:
        turn = self._turns[self._turn % len(self._turns)]
        p = self._squares.parameters
        at = [  # a step may change it: what is frozen for now does not stop by itself
            i
            for i in self._squares.of(optimizer)
            if i in turn and (p[i].requires_grad or p[i].grad is not None)
        ]
        now = [self._held(i) for i in at]
        for i, held in zip(at, now, strict=True):
            if i not in self._copies:
                self._copies[i] = torch.empty_like(held)
        if at:
            FOREACH._foreach_copy_([self._copies[i] for i in at], now)
            self._before.update(at)

    def stepped(self, optimizer: Optimizer) -> None:
        self._squares.add(self._weights, optimizer, self._held)
        at = [i for i in self._squares.of(optimizer) if i in self._before]
        if at:
            steps = [self._copies[i] for i in at]
            FOREACH._foreach_sub_(steps, [self._held(i) for i in at])
            self._squares.add(
                self._steps, optimizer, lambda i: self._copies[i] if i in self._before else None
            )
            self._before.difference_update(at)

    def local(self) -> Tensor:
        self._turn += 1
        if len(self._turns) > 1:
            self._copies.clear()
        return torch.cat([self._weights.flatten(), self._steps.flatten()])

    def read(self, total: Tensor) -> Iterator[Found]:
        parts = zip((q.FROBENIUS_NORM, q.UPDATE_NORM), total.view(2, -1), strict=True)
        norms = {name: self._squares.norms(squares, all) for name, squares in parts}
        error = self._squares.error
        for name, by_site in norms.items():
            yield Column(name, [*by_site], [*by_site.values()], error)
        weights = norms[q.FROBENIUS_NORM]
        ratio = {s: u / w for s, u in norms[q.UPDATE_NORM].items() if (w := weights.get(s))}
        yield Column(q.UPDATE_RATIO, [*ratio], [*ratio.values()], 2 * error)

    def close(self) -> None:
        self._before.clear()
        self._copies.clear()

    def _held(self, i: int) -> Tensor:
        parameter: nn.Parameter = self._squares.parameters[i]
        return self._squares.held(parameter)


# ------------------------------------------------------------------------------
# The losses that the training loop hands in.


KEPT = 64  # losses since the last look, at most


class Losses(Probe):
    """The last loss and the largest since the last look, in the mean over processes.

    A look is taken within a step of the optimizer, where its own loss is not handed in yet: each
    goes with the step that it is of.
    """

    name = q.LOSS
    share = 0.0

    def __init__(self) -> None:
        self._given: list[tuple[int, Tensor | float]] = []
        self._steps: list[int] = []  # of the losses that were handed on last

    def add(self, step: int, loss: float | Tensor) -> None:
        """The loss of one step; a tensor is looked at only when the next look is taken."""
        self._given.append((step, loss.detach() if isinstance(loss, Tensor) else loss))
        if len(self._given) > 2 * KEPT:
            del self._given[:-KEPT]

    def local(self) -> Tensor:
        values = [float(loss) for _, loss in self._given[-KEPT:]]
        self._steps = [step for step, _ in self._given[-KEPT:]]
        self._given.clear()
        rest = [0.0] * (KEPT - len(values))
        return torch.tensor([*values, *rest, *[1.0] * len(values), *rest], dtype=torch.float64)

    def read(self, total: Tensor) -> Iterator[Found]:
        numbers = total.tolist()
        pairs = zip(numbers[:KEPT], numbers[KEPT:], strict=True)
        losses = [summed / count for summed, count in pairs if count > 0]
        if losses:
            at = next((i for i, x in enumerate(losses) if math.isnan(x)), len(losses) - 1)
            last = losses[at]
            largest = last if math.isnan(last) else max(losses)
            step = self._steps[at] if at < len(self._steps) else None
            yield Column(q.LOSS, [LOSS], [last], step=step)
            yield Column(q.LOSS, [LOSS], [largest], form="largest", step=step)

    def rest(self) -> list[Column]:
        """Those of this process that no look has read, for when none follows."""
        return [c for c in self.read(self.local()) if isinstance(c, Column)]
