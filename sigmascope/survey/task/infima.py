"""How low a loss can get: over all outputs, over outputs that a model can have, over constants."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from sigmascope.probes.samples import Loss
from sigmascope.survey.task.labels import Labels

STEPS = 40  # of L-BFGS
ROOM = 1e-6  # share of the loss at usual outputs, that lies between losses that are told apart
SCALES = (1.0, 10.0, 100.0)  # of scores that take a side


UNBOUNDED = 1e3  # times the size of a loss, below which nothing seems to hold it


def constant_loss(
    output: Tensor,
    targets: Any,
    loss: Loss,
    within: Callable[[Tensor], Tensor] | None = None,
) -> float:
    """The least loss of an output that is the same for every sample; infinite if there is none.

    Args:
        output: Of the model, of which only the shape and the kind of numbers matter.
        targets: What the loss compares it with.
        loss: Zero is no output for one of probabilities, so that other constants are tried too.
        within: What makes outputs of any numbers; `domain_of(output)` if not given.
    """
    within = within or domain_of(output)
    spread = lambda row: within(row).expand(output.shape)
    dim = _samples_of(output, targets)
    return least_loss(spread, list(_constants(output, targets, dim)), targets, loss)[0]


def _samples_of(output: Tensor, targets: Any) -> int:
    """Which dimension of an output has the samples: the first, or else the one that is as long.

    Recurrent layers put time first, and so may what is made of them, while targets are by sample.
    A first one that is a multiple has samples and places in one row.
    """
    count = len(targets) if isinstance(targets, Tensor) and targets.ndim else 0
    long = [dim for dim, size in enumerate(output.shape) if size == count]
    return long[0] if len(long) == 1 and len(output) % count else 0


def domain_of(output: Tensor) -> Callable[[Tensor], Tensor]:
    """What makes outputs of any numbers: logarithms of shares, where the model's are, else nothing.

    A loss that picks one logarithm has no least value over numbers that are none.
    """
    for dim in {1, -1} if output.ndim > 1 else ():
        sums = output.detach().logsumexp(dim)
        if output.shape[dim] > 1 and bool((sums.abs() < 1e-3).all()):
            return lambda o, dim=dim: o.log_softmax(dim)
    return lambda o: o


def _constants(output: Tensor, targets: Any, dim: int) -> Iterator[Tensor]:
    row = output.detach().narrow(dim, 0, 1)
    yield torch.zeros_like(row)
    yield torch.full_like(row, 0.5)
    yield torch.full_like(row, 1 / max(row.shape[-1], 1))
    if isinstance(targets, Tensor) and targets.is_floating_point() and targets.ndim:
        mean = targets.detach().to(row).mean(0, keepdim=True)
        mean = mean.movedim(0, dim) if dim < mean.ndim else mean
        if mean.shape == row.shape:
            yield mean


def least_loss(
    outputs: Callable[[Tensor], Tensor], starts: list[Tensor], targets: Any, loss: Loss
) -> tuple[float, Tensor | None]:
    """The least loss that is found from some starts, and the outputs that have it.

    Args:
        outputs: What is compared with the targets, from what is searched over.
        starts: Where to begin; the two that are best go on, by quasi-Newton steps.
        targets: What the loss compares outputs with.
        loss: Any; where it is not finite or raises, is not gone.

    Returns:
        Infinity and None where no start has a finite loss.
    """
    tried = [(_value(outputs, s, targets, loss), s) for s in starts]
    order = sorted((pair for pair in tried if math.isfinite(pair[0])), key=lambda pair: pair[0])
    if not order:
        return math.inf, None
    best, where = order[0]
    for value, start in order[:2]:
        reached, place = _descend(outputs, start, value, targets, loss)
        if reached < best:
            best, where = reached, place
    with torch.no_grad():
        return best, outputs(where).detach()


def _value(outputs: Callable[[Tensor], Tensor], at: Tensor, targets: Any, loss: Loss) -> float:
    with suppress(Exception), torch.no_grad():  # a loss may raise anything outside of its domain
        return float(loss(outputs(at.detach()), targets))
    return math.inf


def _descend(
    outputs: Callable[[Tensor], Tensor], start: Tensor, value: float, targets: Any, loss: Loss
) -> tuple[float, Tensor]:
    """Quasi-Newton steps from a start; the best that was seen."""
    at = start.detach().clone().requires_grad_()
    best = (value, start)

    def again() -> Tensor:
        nonlocal best
        held = loss(outputs(at), targets)
        (slope,) = torch.autograd.grad(held, [at], allow_unused=True)
        at.grad = torch.zeros_like(at) if slope is None else slope
        if not bool(held.isfinite()) or not bool(at.grad.isfinite().all()):
            raise ArithmeticError  # the domain ends here
        value = held.item()
        if value < best[0]:
            best = (value, at.detach().clone())
        return held

    with torch.enable_grad(), suppress(Exception):
        _search(at).step(again)  # type: ignore[arg-type] (stubs want a float; it takes tensors)
    return best


def _search(at: Tensor) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(
        [at],
        max_iter=STEPS,
        tolerance_grad=0,
        tolerance_change=0,
        history_size=10,
        line_search_fn="strong_wolfe",
    )


def free_starts(output: Tensor, targets: Tensor, labels: Labels | None) -> list[Tensor]:
    """Outputs of which one is near the best for any common loss."""
    base = output.detach()
    starts = [base, torch.zeros_like(base), torch.full_like(base, 0.5)]
    if targets.is_floating_point() and targets.numel() == base.numel():
        starts.append(targets.detach().to(base).reshape(base.shape))
    return starts + _sides(base, labels)


def tail_starts(start: Tensor, output: Tensor, labels: Labels | None) -> list[Tensor]:
    """What the last weight could write: what it does, nothing, noise, a side for each label."""
    base = start.detach()
    noise = torch.randn(base.shape, generator=torch.Generator().manual_seed(0)).to(base)
    starts = [base, torch.zeros_like(base), noise, noise.abs()]
    return starts + (_sides(base, labels) if base.shape == output.shape else [])


def _sides(base: Tensor, labels: Labels | None) -> list[Tensor]:
    if labels is None or labels.wanted is None or labels.wanted.shape != base.shape:
        return []
    sign = 2.0 * labels.wanted.to(base) - 1.0
    shares = labels.wanted.to(base)
    return [shares, shares.clamp(1e-4, 1 - 1e-4), *(scale * sign for scale in SCALES)]


def room_of(loss: Loss, output: Tensor, targets: Tensor, now: float) -> float:
    """How far losses must lie apart to be told apart, as they are found by a search.

    Args:
        loss: What compares outputs with targets.
        output: Of the model, of which only the form matters.
        targets: Theirs.
        now: The loss of the model's outputs. That of outputs between 0 and 1 takes its place where
            it is less: a model that blows up its outputs has a loss beside which any other is zero.
    """
    drawn = torch.rand(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    try:
        with torch.no_grad():
            usual = abs(float(loss(drawn, targets)))
    except Exception:  # noqa: BLE001 (a loss may raise anything of outputs that are made up)
        usual = math.inf
    return ROOM * min(usual if math.isfinite(usual) else math.inf, abs(now))
