"""Whether a balance drifted as far as discrete steps make it, and no further."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.probes.symmetry import StillSum
from sigmascope.records import Assumption, Estimate, Sense, Verdict
from sigmascope.theory.bounds import Bound
from sigmascope.theory.le2022.conservation.invariants import SOURCE, Invariant, Tensors

ROOM = 8.0  # times the rounding of one step, for steps that add up like a random walk


@final
@dataclass(frozen=True, slots=True)
class Drift(Bound):
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
        return (
            Assumption(f"steps are known{self._but()}", not self.declines),
            Assumption(
                "units that are paired are active on the same samples all the time",
                self._patterns_kept(),
            ),
        )

    def _but(self) -> str:
        return f" (but {self.declines})" if self.declines else ""

    def _patterns_kept(self) -> bool | None:
        """Not where pairs broke while every unit on its own kept its balance.

        A unit on its own needs no patterns: where one broke, they are no excuse.
        """
        if self.invariant.kind != "pair":
            return True
        if self.residual <= self.allowed:
            return None
        own = (self.now - self.start - self.expected).diagonal()
        return _largest(own) > self.allowed

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
        ValueError: If a parameter is in one checkpoint only, or an option is out of range.

    Source:
        Le & Jegelka 2022, Theorem 1; the sum of `η² ‖g‖²` by the descent lemma.
    """
    _require_checkpoints(invariants, before, after)
    rate, fall = learning_rate or 0.0, loss_drop or 0.0
    known = learning_rate is not None and loss_drop is not None
    if not 0 <= momentum < 1 or rate < 0 or fall < 0:
        raise ValueError(
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


def _require_checkpoints(invariants: Sequence[Invariant], before: Tensors, after: Tensors) -> None:
    for name in dict.fromkeys(n for i in invariants for n in i.tensors):
        for which, tensors in (("before", before), ("after", after)):
            if name not in tensors:
                raise ValueError(
                    f"`{which}` must hold the parameter `{name}`, got {len(tensors)} others. Pass "
                    "checkpoints of the model that the invariants were found in."
                )
        if before[name].shape != after[name].shape:
            raise ValueError(
                f"`{name}` must have one shape in both checkpoints, got "
                f"{tuple(before[name].shape)} and {tuple(after[name].shape)}. Pass checkpoints of "
                "one model."
            )
