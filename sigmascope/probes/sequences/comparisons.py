"""Which target a loss compares with which place of the output, and where it is among the inputs.

A loss may shift targets by itself, leave some out or weigh them: what it does is read off its
gradient by the outputs, not off its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from sigmascope.probes.samples.batches import Batch
from sigmascope.probes.samples.targets import Loss

MOST_OF = 0.9  # of the change of the gradient, that must be at one place
SHORT = 4  # places below which nothing can be told of an order


@dataclass(frozen=True, slots=True)
class Copied:
    """Targets next to one of the inputs.

    Attributes:
        name: Of the input: its key, its number among the arguments, or `""` where it is the only.
        same: Share of the counted targets that are the input at the place of their output.
        next: Share that are the input one place on.
        chance: The larger of both for the targets of other samples.
    """

    name: str
    same: float
    next: float
    chance: float


def _gradient(loss: Loss, output: Tensor, targets: Tensor) -> Tensor | None:
    """Of the loss by every place of the output, `[samples, places]` norms aside, or None."""
    leaf = output.detach().clone().requires_grad_()
    with torch.enable_grad():
        value = loss(leaf, targets)
        if not isinstance(value, Tensor) or not value.requires_grad:
            return None
        (found,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True)
    return None if found is None or not bool(found.isfinite().all()) else found.flatten(2)


def ordered(output: Tensor, targets: object, count: int) -> bool:
    """Whether targets and outputs are both rows of places, as many of the one as of the other."""
    return (
        isinstance(targets, Tensor)
        and targets.ndim >= 2
        and output.ndim == 3
        and targets.shape[:1] == output.shape[:1] == (count,)
        and targets.shape[1] >= SHORT
        and targets.ndim <= 3
        and abs(targets.shape[1] - output.shape[1]) <= 2
    )


def counted(loss: Loss, output: Tensor, targets: Tensor) -> Bool[Tensor, "n t"] | None:
    """Places of the output that the loss looks at: those where it has a gradient.

    Args:
        loss: `loss(output, targets)`.
        output: `[samples, places, scores]`.
        targets: Rows of places.
    """
    found = _gradient(loss, output, targets)
    return None if found is None else (found.abs().amax(2) > 0).cpu()


def offset(loss: Loss, output: Tensor, targets: Tensor) -> int | None:
    """How many places after its output a target stands: 0 as a rule, 1 where the loss shifts.

    The targets of one place are dealt to other samples; where the gradient changes is the output
    that they are compared with.

    Args:
        loss: `loss(output, targets)`.
        output: `[samples, places, scores]`.
        targets: Rows of places.

    Returns:
        None if it is not one place, or samples do not differ in their targets.

    Cost: two gradients of the loss by its input; no run of the model.
    """
    before = _gradient(loss, output, targets)
    for place in _middle_out(targets.shape[1]):
        if before is None:
            return None
        changed = targets.clone()
        changed[:, place] = targets[:, place].roll(1, 0)
        if torch.equal(changed, targets):
            continue
        after = _gradient(loss, output, changed)
        if after is None:
            return None
        moved = (after - before).double().square().sum((0, 2))
        if not float(moved.sum()) > 0:  # left out at this place
            continue
        at = int(moved.argmax())
        return place - at if float(moved[at]) > MOST_OF * float(moved.sum()) else None
    return None


def _middle_out(length: int) -> list[int]:
    return sorted(range(1, length - 1), key=lambda t: abs(2 * t - length))[:8]


def copied(
    batch: Batch, targets: Tensor, *, looks: Bool[Tensor, "n t"], shift: int
) -> tuple[Copied, ...]:
    """For every input that has places as the targets have, how many targets are copies of it.

    Args:
        batch: The inputs.
        targets: Rows of places, `[samples, places]` or `[samples, places, values]`.
        looks: From `counted`.
        shift: From `offset`.
    """
    found = []
    for name, x in _named(batch):
        if x.shape != targets.shape or x.is_floating_point() != targets.is_floating_point():
            continue
        there = targets.to(x.device)
        same, after, chance = (
            _share(x, there, looks, shift),
            _share(x, there, looks, shift - 1),
            max(_share(x.roll(1, 0), there, looks, s) for s in (shift, shift - 1)),
        )
        found.append(Copied(name, same, after, chance))
    return tuple(found)


def _named(batch: Batch) -> list[tuple[str, Tensor]]:
    if isinstance(batch, Tensor):
        return [("", batch)]
    pairs = batch.items() if isinstance(batch, Mapping) else enumerate(batch)
    return [(str(name), t) for name, t in pairs if isinstance(t, Tensor)]


def _share(x: Tensor, targets: Tensor, looks: Bool[Tensor, "n t"], shift: int) -> float:
    """Share of the counted outputs `j` whose target, at `j + shift`, is the input at `j`."""
    length = x.shape[1]
    places = torch.arange(min(length, looks.shape[1]))
    places = places[(places + shift >= 0) & (places + shift < length)]
    if not len(places):
        return 0.0
    equal = (targets[:, places + shift] == x[:, places]).flatten(2 if x.ndim == 3 else 1)
    hits = equal.all(2) if x.ndim == 3 else equal
    counts = looks[:, places].to(hits.device)
    return float((hits & counts).sum()) / max(int(counts.sum()), 1)


def ends(targets: Shaped[Tensor, "n t"], *, least: int = 2) -> tuple[int, Bool[Tensor, "n t"]]:
    """The id that fills the ends of rows, and where; an empty mask where none does.

    A row's end is filled if its last id, or its first, is repeated `least` times or more. The id
    that fills most is padding if it stands (nearly) nowhere else, and rows of more than one length
    are left.

    Args:
        targets: Ids.
        least: How often an id is repeated.
    """
    same = lambda rows: (rows == rows[:, :1]).long().cumprod(1).bool()
    best, where = 0, torch.zeros_like(targets, dtype=torch.bool)
    for run, edge in ((same(targets.flip(1)).flip(1), -1), (same(targets), 0)):
        long = run & (run.sum(1) >= least)[:, None]
        for id_ in targets[:, edge].unique().tolist():
            mask = long & (targets == id_)
            alone = int(mask.sum()) >= ONLY_THERE * int((targets == id_).sum())
            rows = int(mask.any(1).sum())
            uneven = len(mask.sum(1).unique()) > 1
            if alone and uneven and rows >= 2 and int(mask.sum()) > int(where.sum()):
                best, where = int(id_), mask
    return best, where


ONLY_THERE = 0.95  # of an id's places that must be at ends of rows
