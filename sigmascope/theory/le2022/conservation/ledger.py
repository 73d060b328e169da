"""The account of every balance through the steps of a run, by the exact identities."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from sigmascope.core.guard import Closing, Refusal
from sigmascope.core.records import Assumption, ByValue, Estimate, Sense, Verdict
from sigmascope.theory.bounds import Bound
from sigmascope.theory.le2022.conservation.invariants import SLACKS, SOURCE, Invariant, Tensors
from sigmascope.theory.symmetry import StepSums, StillSum

# ------------------------------------------------------------------------------
# One balance, and how one step changes it if the theory is right.


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
        group: Options of the optimizer for these tensors.
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
        if invariant.kind == "norm":
            size = float(vv.max())
        else:  # the largest product of norms in the form of a step with itself
            size = invariant.size(moved, moved) if own is None else invariant.reach(own)
        account.slack += 2 * rate * SLACKS * invariant.slack * size**0.5 * account.length
    if friction == 0:
        shrink = (1 - rate * decay) ** (1 if linear else 2)
        account.expected = now * shrink + rate**2 * vv
        return
    # where there is momentum, `<θ, S v>` goes along, and is kept too
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
    if linear:
        account.expected, account.momentum = now - rate * along_u, along
    else:
        account.expected = now - 2 * rate * along_u + rate**2 * uu
        account.momentum = along - rate * uv


def _form(account: Account, left: Tensors, right: Tensors) -> Tensor:
    """`<left, S right>`; zero for a sum, which is linear in the weights."""
    if isinstance(account.invariant.what, StillSum):
        return torch.zeros_like(account.expected)
    return account.invariant.form(left, right)


# ------------------------------------------------------------------------------
# Whether a balance drifted as far as discrete steps make it, and no further.


ROOM = 8.0  # times the rounding of one step, for steps that add up like a random walk


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Drift(Bound, ByValue):
    """A balance changes by what its discrete steps say, up to rounding.

    Attributes:
        invariant: The balance.
        start: Its value at the beginning.
        now: Its value at the end.
        expected: Its change by the exact identity for the steps that were recorded, or none.
        allowed: How far from that rounding may take it; or the drift that the fall of the loss
            allows.
        slack: How much further a normaliser's `eps` may take it.
        declines: Why the theorem does not speak; empty if it does.
        suspects: What may have broken it, if it is broken.
        since: The step after which it was first seen broken.
    """

    name: ClassVar[str] = "balance-drift"
    source: ClassVar[str] = f"{SOURCE}, Theorem 1, in discrete time"
    statement: ClassVar[str] = "|Q(T) - Q(0) - Σ η² gᵀSg| ≤ 16 u √T max ‖W‖²"
    sense: ClassVar[Sense] = "at most"

    invariant: Invariant
    start: Float64[Tensor, "..."]
    now: Float64[Tensor, "..."]
    expected: Float64[Tensor, "..."]
    allowed: float
    slack: float = 0.0
    declines: str = ""
    suspects: tuple[str, ...] = ()
    since: int | None = None

    @property
    def site(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] (read only)
        """The parameters that are balanced."""
        return " ~ ".join(self.invariant.tensors)

    @property
    def drift(self) -> float:
        """Largest change of a conserved number."""
        return _largest(self.now - self.start)

    @property
    def residual(self) -> float:
        """Largest difference between the change and what the steps say."""
        return _largest(self.now - self.start - self.expected)

    def assumptions(self) -> tuple[Assumption, ...]:
        but = f" (but {self.declines})" if self.declines else ""
        kept: bool | None = True
        if self.invariant.kind == "pair":
            # not kept where pairs broke while every unit on its own kept its balance, which needs
            # no patterns: where one broke, they are no excuse
            own = (self.now - self.start - self.expected).diagonal()
            kept = None if self.residual <= self.allowed else _largest(own) > self.allowed
        return (
            Assumption(f"steps are known{but}", not self.declines),
            Assumption("units that are paired are active on the same samples all the time", kept),
        )

    def measured(self) -> Estimate:
        return Estimate.exactly(self.residual, how="recorded steps")

    def limit(self) -> Estimate:
        most = self.allowed + self.slack
        return Estimate(self.allowed, self.allowed, most, "rounding, and a normaliser's eps")

    @property
    def verdict(self) -> Verdict:
        """HOLDS, CONSISTENT where only `eps` explains it, VIOLATED, or INAPPLICABLE."""
        return self.check().verdict


def _largest(t: Tensor) -> float:
    return float(t.abs().max()) if t.numel() else 0.0


def rounding(invariant: Invariant, parameters: Tensors, steps: int) -> float:
    """How far rounding may take a balance in some steps: `16 u √steps max ‖W‖²`.

    Args:
        invariant: The balance; of a sum, the sizes of its terms count instead of squares.
        parameters: With the largest weights on the way, by name.
        steps: How many.

    Source:
        A random walk of roundings, half a unit in the last place each, with room for eight times
        its spread.
    """
    found = [parameters[n].detach() for n in invariant.tensors]
    u = max(torch.finfo(t.dtype).eps for t in found) / 2
    if isinstance(invariant.what, StillSum):
        size = math.sqrt(invariant.what.terms) * float(found[0].double().norm())
    else:
        size = max(float(t.double().square().sum()) for t in found)
    return ROOM * 2 * u * math.sqrt(max(steps, 1)) * size


def endpoint_drifts(
    invariants: Sequence[Invariant],
    before: Tensors,
    after: Tensors,
    *,
    learning_rate: float | None = None,
    loss_drop: float | None = None,
    momentum: float = 0.0,
    steps: int = 1,
) -> Iterator[Drift]:
    """Drift between two checkpoints, judged by what the fall of the loss allows.

    `|Q(T) - Q(0)| ≤ 2 η (L(0) - L(T)) κ`, with `κ = (1 + μ) / (1 - μ)²` for heavy-ball steps, where
    every step lowers the loss as the descent lemma says.

    Args:
        invariants: From `invariants`.
        before: Parameters of the first checkpoint, by name.
        after: Of the second.
        learning_rate: Of all steps between; the largest, if it changed.
        loss_drop: How far the training loss fell between.
        momentum: Of heavy-ball steps.
        steps: How many steps there were, for the rounding; 1 if it is not known.

    Raises:
        Refusal: If a parameter is in one checkpoint only, or an option is out of range.

    Source:
        Le & Jegelka 2022, Theorem 1; the sum of `η² ‖g‖²` by the descent lemma.
    """
    for name in dict.fromkeys(n for i in invariants for n in i.tensors):
        for which, tensors in (("before", before), ("after", after)):
            if name not in tensors:
                raise Refusal(
                    f"`{which}` must hold the parameter `{name}`, got {len(tensors)} others. Pass "
                    "checkpoints of the model that the invariants were found in."
                )
        if before[name].shape != after[name].shape:
            raise Refusal(
                f"`{name}` must have one shape in both checkpoints, got "
                f"{tuple(before[name].shape)} and {tuple(after[name].shape)}. Pass checkpoints of "
                "one model."
            )
    rate, fall = learning_rate or 0.0, loss_drop or 0.0
    known = learning_rate is not None and loss_drop is not None
    if not 0 <= momentum < 1 or rate < 0 or fall < 0:
        raise Refusal(
            "`learning_rate` and `loss_drop` must be at least 0 and `momentum` in [0, 1), got "
            f"{learning_rate}, {loss_drop} and {momentum}. A balance is judged where the loss fell."
        )
    declines = "" if known else "the learning rate and the fall of the loss are not known"
    kappa = (1 + momentum) / (1 - momentum) ** 2
    for invariant in invariants:
        start, now = invariant.value(before), invariant.value(after)
        room = max(rounding(invariant, p, steps) for p in (before, after))
        linear = isinstance(invariant.what, StillSum)
        step = 0.0 if linear else 2 * rate * fall * kappa
        slack = 0.0 if invariant.slack == 0 else math.inf  # eps acts all along the way
        yield Drift(invariant, start, now, torch.zeros_like(start), room + step, slack, declines)


LOOK = 64  # steps between looks at the weights themselves


@final
class Ledger(Closing):
    """Records the steps of optimizers and says which balances kept to them.

    For a step `θ₊ = θ - η g` a balance changes by exactly `η² gᵀSg`; heavy-ball and decayed steps
    have exact recursions of their own. Whatever else it changes by is no discretisation error.

    Args:
        model: Whose parameters the optimizers step.
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
        self._accounts: list[Account] = []
        for i in invariants:
            invariant = i if blocks else i.alone()
            start = invariant.value(self._parameters)
            self._accounts.append(Account(invariant, start, start.clone(), torch.zeros_like(start)))
        self._hooks: list[Any] = []
        self._watched: list[Optimizer] = []
        self._look()

    def watching(self, *optimizers: Optimizer) -> "Ledger":
        """Record every step of some optimizers until `close`.

        Args:
            optimizers: Plain SGD with any learning rate, momentum and weight decay is followed
                exactly; of others only the drift is known.
        """
        self.resume(*optimizers)
        self._hooks += [o.register_step_post_hook(self.stepped) for o in optimizers]
        return self

    def resume(self, *optimizers: Optimizer) -> None:
        """Begin with optimizers whose steps are handed in by `stepped`, and not heard by a hook.

        Args:
            optimizers: Whose momentum of earlier steps is taken over.
        """
        self._watched.extend(optimizers)
        for account in self._accounts:
            # the momentum of earlier steps is taken over
            moved: dict[str, Tensor] = {}
            for name in account.invariant.tensors:
                states = (o.state.get(self._parameters[name], {}) for o in self._watched)
                found = (
                    s["momentum_buffer"] for s in states if s.get("momentum_buffer") is not None
                )
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
    def stepped(self, optimizer: Optimizer, *_: Any) -> None:
        """Record a step that an optimizer has just made, whose gradients are still there."""
        names = {p: n for n, p in self._parameters.items()}
        groups: dict[str, Group] = {
            names[p]: group
            for group in optimizer.param_groups
            for p in group["params"]
            if p in names
        }
        problem = ""
        if type(optimizer) is not SGD:
            kind = type(optimizer).__name__
            problem = (
                f"{kind} rescales gradients entry by entry, or steps in a way that is not known"
            )
        elif any(g["nesterov"] and (g["foreach"] or g["fused"]) for g in optimizer.param_groups):
            problem = "nesterov steps of a fused or foreach SGD overwrite the gradients"
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
            # what breaks a balance by itself
            for option, words in (("lr", "learning rates"), ("weight_decay", "weight decays"),
                                  ("momentum", "momenta")):  # fmt: skip
                values = {n: groups[n].get(option, 0) for n in here}
                if len(set(values.values())) > 1:
                    listed = ", ".join(f"{n} {v:g}" for n, v in values.items())
                    account.suspects.setdefault(f"{words} differ: {listed}", self.steps)
            for name in (n for n in here if n not in gradients):
                account.suspects.setdefault(f"{name} has no gradient", self.steps)
            if len(here) < len(account.invariant.tensors) and bool(
                group.get("momentum", 0) or group.get("weight_decay", 0)
            ):
                account.declines = account.declines or (
                    "its tensors belong to optimizers with momentum or weight decay of their own"
                )
            advance(
                account, {n: gradients[n] for n in here if n in gradients}, group, buffers, sums
            )
        if self.steps % LOOK == 0:
            self._look()

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
