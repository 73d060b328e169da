"""One balance, and how one step changes it if the theory is right."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sigmascope.probes.symmetry import StepSums, StillSum
from sigmascope.theory.le2022.conservation.invariants import SLACKS, Invariant, Tensors

Group = Mapping[str, Any]


@dataclass(slots=True)
class Account:
    """One balance: what the steps say of it.

    Attributes:
        invariant: The balance.
        start: Its value when the ledger was opened.
        expected: Its value now, if the theory is right.
        momentum: The form of weights and momentum buffers, by the same theory.
        begun: Whether there are momentum buffers yet.
        length: Of the longest slab of weights.
        allowed: For rounding.
        slack: For a normaliser's `eps`.
        declines: Why the theorem stopped speaking of it.
        suspects: What was seen that breaks it, with the step.
        since: The step of the first look that found it broken.
    """

    invariant: Invariant
    start: Tensor
    expected: Tensor
    momentum: Tensor
    begun: bool = False
    length: float = 0.0
    allowed: float = 0.0
    slack: float = 0.0
    declines: str = ""
    suspects: dict[str, int] = field(default_factory=dict)
    since: int | None = None


def advance(
    account: Account,
    gradients: Tensors,
    group: Group,
    buffers: Tensors,
    sums: StepSums | None = None,
) -> None:
    """One step of `v₊ = μ v + (1 - τ)(g + λθ)`, `θ₊ = θ - η u`, as the theory has it.

    `<θ, S g> = 0` is the theory; forms of g and v are measured.

    Args:
        account: Changed in place.
        gradients: That the step used, by name; without those of tensors that it did not move.
        group: Options of the optimiser for these tensors.
        buffers: Momentum buffers after the step, by name.
        sums: Of the squares of all that moved: buffers where there is momentum, else gradients.

    Source:
        Le & Jegelka 2022, Theorem 1, in discrete time.
    """
    rate, decay = float(group["lr"]), float(group["weight_decay"])
    friction = float(group["momentum"])
    invariant, now = account.invariant, account.expected
    if not gradients:  # nothing moves
        return
    moved = {n: buffers[n] for n in gradients if n in buffers} if friction else gradients
    linear = isinstance(invariant.what, StillSum)
    own = None if linear or not invariant.diagonal else sums
    vv = _form(account, moved, moved) if own is None else invariant.squares(own)
    if invariant.slack:
        size = float(vv.max()) if invariant.kind == "norm" else _size(invariant, moved, own)
        account.slack += 2 * rate * SLACKS * invariant.slack * size**0.5 * account.length
    if friction == 0:
        shrink = (1 - rate * decay) ** (1 if linear else 2)
        account.expected = now * shrink + rate**2 * vv
    else:
        _advance_momentum(account, gradients, group, moved, vv)


def _size(invariant: Invariant, moved: Tensors, sums: StepSums | None) -> float:
    """Largest product of norms in the form of a step with itself."""
    return invariant.size(moved, moved) if sums is None else invariant.reach(sums)


def _form(account: Account, left: Tensors, right: Tensors) -> Tensor:
    """`<left, S right>`; zero for a sum, which is linear in the weights."""
    if isinstance(account.invariant.what, StillSum):
        return torch.zeros_like(account.expected)
    return account.invariant.form(left, right)


def _advance_momentum(
    account: Account,
    gradients: Tensors,
    group: Group,
    moved: Tensors,
    vv: Tensor,
) -> None:
    """The same step where there is momentum: `<θ, S v>` goes along, and is kept too."""
    rate, decay = float(group["lr"]), float(group["weight_decay"])
    friction, now = float(group["momentum"]), account.expected
    weight = 1 - float(group["dampening"]) if account.begun else 1.0
    account.begun = True
    along = friction * account.momentum + weight * decay * now  # <θ, S v₊>
    if group["nesterov"]:
        gv = _form(account, {n: gradients[n] for n in moved}, moved) + decay * along
        gg = _form(account, gradients, gradients) + decay**2 * now
        uu, uv = gg + 2 * friction * gv + friction**2 * vv, gv + friction * vv
        along_u = decay * now + friction * along
    else:
        uu, uv, along_u = vv, vv, along
    if isinstance(account.invariant.what, StillSum):
        account.expected, account.momentum = now - rate * along_u, along
        return
    account.expected = now - 2 * rate * along_u + rate**2 * uu
    account.momentum = along - rate * uv
