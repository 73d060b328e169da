"""What an activation does to the singular values of the layers after it.

`D` is diagonal, with the slopes of the units that are on the negative side (`η`) or on the other
(1): 0 for ReLU, -1 for the absolute value, between 0 and 1 for leaky ReLU.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.records import Assumption, Estimate, Sense, Spectrum
from sigmascope.theory.bounds import Bound
from sigmascope.theory.riedi2022.intervals import EPS, SOURCE, blur, exact, ratio


@dataclass(frozen=True, slots=True)
class Activation:
    """The facts: singular values of `M`, `M D` and `D Mᵀ`, and the slopes.

    Attributes:
        before: Of `M`, `n x n`.
        after: Of `M D`.
        other: Of `D Mᵀ`.
        slopes: The diagonal of `D`.
        deleted_sq: Sum of the squares of the columns of `M` whose slope is 0.
        site: Which activation.
    """

    before: Spectrum
    after: Spectrum
    other: Spectrum
    slopes: Float64[Tensor, " n"]
    deleted_sq: float
    site: str = "activation"

    @classmethod
    def of(
        cls, M: Float[Tensor, "m n"], slopes: Float[Tensor, " n"], *, site: str = "activation"
    ) -> "Activation":
        """Measure a matrix and the slopes of the units that it reads.

        Raises:
            ValueError: If there is not one slope for each column.
        """
        M, d = M.detach().double().cpu(), slopes.detach().double().cpu()
        if M.ndim != 2 or d.shape != M.shape[1:]:
            raise ValueError(
                f"`slopes` must have one number for each column of `M` {tuple(M.shape)}, got shape "
                f"{tuple(d.shape)}."
            )
        deleted = M[:, d == 0].square().sum().item()
        return cls(exact(M), exact(M * d), exact(d[:, None] * M.mT), d, deleted, site)

    @property
    def gap(self) -> float:
        """Rounding of a singular value."""
        return blur(self.before, self.after) + self.before.sigma[0].item() * EPS

    @property
    def off(self) -> int:
        """How many units have slope 0."""
        return int((self.slopes == 0).sum())

    @property
    def least(self) -> float:
        """The smallest size of a slope."""
        return self.slopes.abs().min().item()

    def bounded(self) -> Assumption:
        """No slope is above 1."""
        return Assumption("no slope is larger than 1", bool((self.slopes.abs() <= 1).all()))


@dataclass(frozen=True, slots=True)
class OfActivations(Bound):
    """A theorem about `M D`."""

    facts: Activation

    @property
    def site(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] (read only)
        """Which activation."""
        return self.facts.site

    def _zero_one(self) -> Assumption:
        met = bool(((self.facts.slopes == 0) | (self.facts.slopes.abs() == 1)).all())
        return Assumption("slopes are 0 or ±1, as of ReLU", met)


@final
@dataclass(frozen=True, slots=True)
class AbsoluteValueKeeps(OfActivations):
    """Flipping signs changes no singular value."""

    name: ClassVar[str] = "absolute-value-keeps"
    source: ClassVar[str] = f"{SOURCE}, Prop. 23"
    statement: ClassVar[str] = "max_i |sᵢ(M D) - sᵢ(M)| ≤ 0"

    def assumptions(self) -> tuple[Assumption, ...]:
        return (Assumption("every slope is ±1", bool((self.facts.slopes.abs() == 1).all())),)

    def measured(self) -> Estimate:
        moved = (self.facts.after.sigma - self.facts.before.sigma).abs().max().item()
        return Estimate(moved, max(0.0, moved - self.facts.gap), moved + self.facts.gap, "exact")

    def limit(self) -> Estimate:
        return Estimate.exactly(0.0)


@final
@dataclass(frozen=True, slots=True)
class ActivationShrinks(OfActivations):
    """An activation makes no singular value larger."""

    name: ClassVar[str] = "activation-shrinks"
    source: ClassVar[str] = f"{SOURCE}, Lemma 24"
    statement: ClassVar[str] = "max_i sᵢ(M D) - sᵢ(M) ≤ 0"

    def assumptions(self) -> tuple[Assumption, ...]:
        return (self.facts.bounded(),)

    def measured(self) -> Estimate:
        grown = self.facts.after.sigma - self.facts.before.sigma
        return Estimate.within(grown.max().item(), self.facts.gap)

    def limit(self) -> Estimate:
        return Estimate.exactly(0.0)


@final
@dataclass(frozen=True, slots=True)
class ActivationLeaks(OfActivations):
    """An activation shrinks no singular value by more than its smallest slope."""

    name: ClassVar[str] = "activation-leaks"
    source: ClassVar[str] = f"{SOURCE}, Lemma 24, for every i and 0 ≤ η ≤ 1"
    statement: ClassVar[str] = "min_i sᵢ(M D) - η sᵢ(M) ≥ 0"
    sense: ClassVar[Sense] = "at least"

    def assumptions(self) -> tuple[Assumption, ...]:
        return (self.facts.bounded(),)

    def measured(self) -> Estimate:
        kept = self.facts.after.sigma - self.facts.least * self.facts.before.sigma
        return Estimate.within(kept.min().item(), self.facts.gap)

    def limit(self) -> Estimate:
        return Estimate.exactly(0.0)


@final
@dataclass(frozen=True, slots=True)
class ActivationCondition(OfActivations):
    """Units that are off do not make the condition number of the rest larger; leaks divide it."""

    name: ClassVar[str] = "activation-condition"
    source: ClassVar[str] = f"after {SOURCE}, Eq. (23) and Lemma 24"
    statement: ClassVar[str] = "κ(M D) ≤ κ(M) / η; κ(M D) ≤ κ(M) for slopes 0 and 1"

    def assumptions(self) -> tuple[Assumption, ...]:
        zero_one = self._zero_one().met
        rows, columns = self.facts.before.shape
        last = self.facts.before.sigma[-1].item() - self.facts.gap
        return (
            self.facts.bounded(),
            Assumption("no slope is 0, or all are 0 or ±1", zero_one or self.facts.least > 0),
            Assumption("some unit is on", self.facts.off < len(self.facts.slopes)),
            Assumption("M is invertible", rows == columns and last > 0),
        )

    def measured(self) -> Estimate:
        return self._condition(self.facts.after, len(self.facts.slopes) - self.facts.off)

    def limit(self) -> Estimate:
        ratio = self._condition(self.facts.before, len(self.facts.before.sigma))
        return ratio if self._zero_one().met else ratio * Estimate.exactly(1 / self.facts.least)

    def _condition(self, s: Spectrum, rank: int) -> Estimate:
        last = s.sigma[min(rank, len(s.sigma)) - 1].item()
        return ratio(s.sigma[0].item(), last, self.facts.gap, s.how)


@final
@dataclass(frozen=True, slots=True)
class ActivationLoss(OfActivations):
    """ReLU takes from the squared singular values exactly the columns that it deletes."""

    name: ClassVar[str] = "activation-loss"
    source: ClassVar[str] = f"{SOURCE}, Prop. 25 (81)"
    statement: ClassVar[str] = "Σ |sᵢ(M)² - sᵢ(M D)²| ≤ Σ squares of the deleted columns"

    def assumptions(self) -> tuple[Assumption, ...]:
        return (self._zero_one(),)

    def measured(self) -> Estimate:
        lost = self.facts.before.sigma.square() - self.facts.after.sigma.square()
        gap = 4 * len(lost) * self.facts.gap * self.facts.before.sigma[0].item()
        return Estimate.within(lost.abs().sum().item(), gap)

    def limit(self) -> Estimate:
        return Estimate.rounded(self.facts.deleted_sq, ulps=4 * len(self.facts.slopes) ** 2)


@final
@dataclass(frozen=True, slots=True)
class ActivationShift(OfActivations):
    """How far ReLU moves the singular values."""

    name: ClassVar[str] = "activation-shift"
    source: ClassVar[str] = f"{SOURCE}, Prop. 25 (82)"
    statement: ClassVar[str] = "Σ (sᵢ(M) - sᵢ(M D))² ≤ Σ squares of the deleted columns"

    def assumptions(self) -> tuple[Assumption, ...]:
        return (self._zero_one(),)

    def measured(self) -> Estimate:
        moved = self.facts.before.sigma - self.facts.after.sigma
        gap = 4 * len(moved) * self.facts.gap * self.facts.before.sigma[0].item()
        return Estimate.within(moved.square().sum().item(), gap)

    def limit(self) -> Estimate:
        return Estimate.rounded(self.facts.deleted_sq, ulps=4 * len(self.facts.slopes) ** 2)


@final
@dataclass(frozen=True, slots=True)
class ActivationSides(OfActivations):
    """An activation before a layer does what it does after the transposed layer."""

    name: ClassVar[str] = "activation-sides"
    source: ClassVar[str] = f"{SOURCE}, Prop. 26"
    statement: ClassVar[str] = "max_i |sᵢ(M D) - sᵢ(D Mᵀ)| ≤ 0"

    def assumptions(self) -> tuple[Assumption, ...]:
        return ()

    def measured(self) -> Estimate:
        apart = torch.dist(self.facts.after.sigma, self.facts.other.sigma, p=torch.inf).item()
        return Estimate(apart, max(0.0, apart - self.facts.gap), apart + self.facts.gap, "exact")

    def limit(self) -> Estimate:
        return Estimate.exactly(0.0)


OF_ACTIVATIONS: tuple[type[OfActivations], ...] = (
    AbsoluteValueKeeps,
    ActivationShrinks,
    ActivationLeaks,
    ActivationCondition,
    ActivationLoss,
    ActivationShift,
    ActivationSides,
)
