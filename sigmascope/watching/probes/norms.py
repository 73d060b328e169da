"""Norms of gradients, weights and updates: what is cheap enough for nearly every step."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sigmascope import quantities as q
from sigmascope.watching.columns import Column
from sigmascope.watching.looks import OPTIMISER
from sigmascope.watching.probes.base import Found, Probe, Sharing
from sigmascope.watching.processes import added_up, is_partial
from sigmascope.watching.squares import FOREACH, Squares

COPIED = 2**24  # entries whose values before a step are kept at once


class Gradients(Probe):
    """Norm of the gradient of every trained layer, and the learning rates.

    The gradient is what the optimiser is handed: accumulated, clipped, and without the scale of a
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
            yield Column(q.RATE, [OPTIMISER], [rate], form=form if len(rates) > 1 else "")

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
        self._turns = _in_turns(squares.sizes)
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
        at = [i for i in self._squares.of(optimizer) if i in turn and self._trains(i)]
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

    def _trains(self, i: int) -> bool:
        """Whether a step may change it: what is frozen for now does not stop by itself."""
        parameter = self._squares.parameters[i]
        return parameter.requires_grad or parameter.grad is not None

    def _held(self, i: int) -> Tensor:
        parameter: nn.Parameter = self._squares.parameters[i]
        return self._squares.held(parameter)


def _in_turns(sizes: Sequence[int]) -> list[set[int]]:
    """Parameters whose copies are kept together."""
    turns: list[set[int]] = [set()]
    room = COPIED
    for i, size in enumerate(sizes):
        if size > room and turns[-1]:
            turns.append(set())
            room = COPIED
        turns[-1].add(i)
        room -= size
    return turns
