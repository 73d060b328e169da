"""The account of every balance through the steps of a run, by the exact identities."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from sigmascope.gate import Closing
from sigmascope.probes.symmetry import StepSums, StillSum
from sigmascope.theory.le2022.conservation.accounts import Account, Group, advance
from sigmascope.theory.le2022.conservation.drifts import Drift, rounding
from sigmascope.theory.le2022.conservation.invariants import Invariant, Tensors

LOOK = 64  # steps between looks at the weights themselves


@final
class Ledger(Closing):
    """Records the steps of optimisers and says which balances kept to them.

    For a step `θ₊ = θ - η g` a balance changes by exactly `η² gᵀSg`; heavy-ball and decayed steps
    have exact recursions of their own. Whatever else it changes by is no discretisation error.

    Args:
        model: Whose parameters the optimisers step.
        invariants: From `invariants`, for the weights as they are now.
        blocks: Whether to follow pairs of units that may be mixed too, whose products cost more
            than a small network's step, and not only each unit by itself.

    Source:
        Le & Jegelka 2022, Theorem 1, in discrete time.

    Example:
        >>> from sigmascope.theory.le2022.conservation import invariants
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> x, opt = torch.ones(2, 3), torch.optim.SGD(net.parameters(), lr=0.1)
        >>> with Ledger(net, invariants(net, x)).watching(opt) as ledger:
        ...     net(x).sum().backward()
        ...     opt.step()
        >>> [str(d.verdict) for d in ledger.drifts()]
        ['holds']
    """

    def __init__(
        self, model: nn.Module, invariants: Sequence[Invariant], *, blocks: bool = True
    ) -> None:
        self.steps = 0
        self._parameters = dict(model.named_parameters())
        self._accounts = [self._opened(i if blocks else i.alone()) for i in invariants]
        self._hooks: list[Any] = []
        self._watched: list[Optimizer] = []
        self._look()

    def _opened(self, invariant: Invariant) -> Account:
        start = invariant.value(self._parameters)
        return Account(invariant, start, start.clone(), torch.zeros_like(start))

    def watching(self, *optimizers: Optimizer) -> "Ledger":
        """Record every step of some optimisers until `close`.

        Args:
            optimizers: Plain SGD with any learning rate, momentum and weight decay is followed
                exactly; of others only the drift is known.
        """
        self._watched.extend(optimizers)
        for account in self._accounts:
            self._resume(account)
        self._hooks += [o.register_step_post_hook(self._stepped) for o in optimizers]
        return self

    def _resume(self, account: Account) -> None:
        """Take over the momentum of earlier steps."""
        moved: dict[str, Tensor] = {}
        for name in account.invariant.tensors:
            states = (o.state.get(self._parameters[name], {}) for o in self._watched)
            found = (s["momentum_buffer"] for s in states if s.get("momentum_buffer") is not None)
            moved.update((name, buffer) for buffer in found)
        if moved:
            linear = isinstance(account.invariant.what, StillSum)
            left = moved if linear else {n: self._parameters[n] for n in moved}
            account.momentum = account.invariant.form(left, moved)
            account.begun = True

    def close(self) -> None:
        """Stop recording."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._watched.clear()

    def observe(self, gradients: Tensors, *, learning_rate: float) -> None:
        """Record one plain step of a hand-written loop.

        Args:
            gradients: That the step used, by name.
            learning_rate: Of the step.
        """
        plain = {"lr": learning_rate, "momentum": 0.0, "weight_decay": 0.0, "dampening": 0.0}
        self._advance(gradients, dict.fromkeys(gradients, plain), {})

    def drifts(self) -> tuple[Drift, ...]:
        """How far each balance is from where the steps say, with a verdict."""
        self._look()
        return tuple(
            Drift(
                a.invariant,
                a.start,
                a.invariant.value(self._parameters),
                a.expected - a.start,
                a.allowed,
                a.slack,
                a.declines,
                tuple(f"{what} (step {step})" for what, step in a.suspects.items()),
                a.since,
            )
            for a in self._accounts
        )

    @torch.no_grad()
    def _stepped(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        names = {p: n for n, p in self._parameters.items()}
        groups: dict[str, Group] = {
            names[p]: group
            for group in optimizer.param_groups
            for p in group["params"]
            if p in names
        }
        problem = _unfollowed(optimizer)
        if problem:
            self.steps += 1
            for account in self._accounts:
                if any(n in groups for n in account.invariant.tensors):
                    account.declines = account.declines or problem
            return
        gradients = {n: g for n in groups if (g := self._parameters[n].grad) is not None}
        buffers = {
            n: b
            for n in gradients
            if (b := optimizer.state[self._parameters[n]].get("momentum_buffer")) is not None
        }
        self._advance(gradients, groups, buffers)

    def _advance(self, gradients: Tensors, groups: Mapping[str, Group], buffers: Tensors) -> None:
        self.steps += 1
        remember = {n: buffers[n] for n in buffers if groups[n]["momentum"]}
        sums = StepSums({n: remember.get(n, g).detach() for n, g in gradients.items()})
        for account in self._accounts:
            here = [n for n in account.invariant.tensors if n in groups]
            if not here:
                continue
            group = groups[here[0]]
            self._suspect(account, here, gradients, groups)
            if len(here) < len(account.invariant.tensors) and _remembers(group):
                account.declines = account.declines or (
                    "its tensors belong to optimisers with momentum or weight decay of their own"
                )
            advance(
                account, {n: gradients[n] for n in here if n in gradients}, group, buffers, sums
            )
        if self.steps % LOOK == 0:
            self._look()

    def _suspect(
        self,
        account: Account,
        here: Sequence[str],
        gradients: Tensors,
        groups: Mapping[str, Group],
    ) -> None:
        """Note what breaks a balance by itself."""
        for option, words in (("lr", "learning rates"), ("weight_decay", "weight decays"),
                              ("momentum", "momenta")):  # fmt: skip
            values = {n: groups[n].get(option, 0) for n in here}
            if len(set(values.values())) > 1:
                listed = ", ".join(f"{n} {v:g}" for n, v in values.items())
                account.suspects.setdefault(f"{words} differ: {listed}", self.steps)
        for name in here:
            if name not in gradients:
                account.suspects.setdefault(f"{name} has no gradient", self.steps)

    def _look(self) -> None:
        """Compare with the weights themselves, and take note of how large they are."""
        for account in self._accounts:
            room = rounding(account.invariant, self._parameters, self.steps)
            account.allowed = max(account.allowed, room)
            if account.invariant.slack:
                size = account.invariant.size(self._parameters, self._parameters)
                account.length = max(account.length, size**0.5)
            now = account.invariant.value(self._parameters)
            gap = float((now - account.expected).abs().max()) if now.numel() else 0.0
            if gap > account.allowed + account.slack and account.since is None and self.steps:
                account.since = self.steps


def _unfollowed(optimizer: Optimizer) -> str:
    """Why the steps of an optimiser have no exact identity; empty if they have."""
    if type(optimizer) is not SGD:
        kind = type(optimizer).__name__
        return f"{kind} rescales gradients entry by entry, or steps in a way that is not known"
    inplace = any(g["nesterov"] and (g["foreach"] or g["fused"]) for g in optimizer.param_groups)
    if inplace:
        return "nesterov steps of a fused or foreach SGD overwrite the gradients"
    return ""


def _remembers(group: Group) -> bool:
    return bool(group.get("momentum", 0) or group.get("weight_decay", 0))
