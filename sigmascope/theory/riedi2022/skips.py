"""What a skip connection does to the singular values of the layers it bypasses.

`M(ρ) = M + ρ Id`. `τ₋` and `τ⁺` are the smallest and the largest eigenvalue of `Mᵀ + M`. No
statement here needs simple singular values, which the paper asks for: Weyl's inequalities for
`MᵀM + ρ (Mᵀ + M) + ρ² Id` give them all.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.records import Assumption, Estimate, Sense, Spectrum
from sigmascope.theory.bounds import Bound
from sigmascope.theory.riedi2022.intervals import EPS, SOURCE, blur, exact, ratio, symmetric_ends


@dataclass(frozen=True, slots=True)
class Skip:
    """The facts: singular values without and with the skip connection.

    Attributes:
        rho: Strength of the skip connection.
        before: Of `M`.
        after: Of `M + ρ Id`.
        ends: `τ₋` and `τ⁺`.
        site: What is bypassed.
    """

    rho: float
    before: Spectrum
    after: Spectrum
    ends: tuple[float, float]
    site: str = "skip"

    @classmethod
    def of(cls, M: Float[Tensor, "n n"], rho: float = 1.0, *, site: str = "skip") -> "Skip":
        """Measure a square matrix.

        Raises:
            ValueError: If `M` is not square and finite.
        """
        if M.ndim != 2 or M.shape[0] != M.shape[1]:
            raise ValueError(
                f"`M` must be square, got shape {tuple(M.shape)}. A skip connection adds what goes "
                "in to what comes out."
            )
        M = M.detach().double().cpu()
        after = exact(M + rho * torch.eye(len(M), dtype=M.dtype))
        return cls(rho, exact(M), after, symmetric_ends(M), site)

    @property
    def gap(self) -> float:
        """Rounding of a singular value, or of `τ`."""
        return blur(self.before, self.after) + len(self.before.sigma) * 8 * EPS * abs(self.rho)

    @property
    def square_gap(self) -> float:
        """Rounding of a square of one."""
        top = max(self.before.sigma[0].item(), self.after.sigma[0].item(), abs(self.rho))
        return 4 * self.gap * top

    @property
    def first(self) -> Estimate:
        """`s₁(M)`."""
        return Estimate.within(self.before.sigma[0].item(), self.gap)

    @property
    def last(self) -> Estimate:
        """`sₙ(M)`."""
        return Estimate.within(self.before.sigma[-1].item(), self.gap)

    @property
    def tau(self) -> tuple[Estimate, Estimate]:
        """`τ₋` and `τ⁺`, each of at most twice the size of M."""
        return Estimate.within(self.ends[0], 2 * self.gap), Estimate.within(
            self.ends[1], 2 * self.gap
        )

    @property
    def least(self) -> float:
        """What Theorem 16 allows the squares to fall by, as a negative number."""
        return self.rho**2 + min(self.rho * tau for tau in self.ends)

    @property
    def most(self) -> float:
        """What Theorem 16 allows the squares to grow by."""
        return self.rho**2 + max(self.rho * tau for tau in self.ends)


@dataclass(frozen=True, slots=True)
class OfSkips(Bound):
    """A theorem about `M + ρ Id`."""

    skip: Skip

    @property
    def site(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] (read only)
        """What is bypassed."""
        return self.skip.site

    def assumptions(self) -> tuple[Assumption, ...]:
        return ()


@final
@dataclass(frozen=True, slots=True)
class SkipGrowth(OfSkips):
    """No squared singular value grows by more than the symmetric part allows."""

    name: ClassVar[str] = "skip-growth"
    source: ClassVar[str] = f"{SOURCE}, Theorem 16 (70)"
    statement: ClassVar[str] = "max_i sᵢ(ρ)² - sᵢ(0)² ≤ ρ τ⁺ + ρ² (τ₋ where ρ < 0)"

    def measured(self) -> Estimate:
        grown = self.skip.after.sigma.square() - self.skip.before.sigma.square()
        return Estimate.within(grown.max().item(), self.skip.square_gap)

    def limit(self) -> Estimate:
        return Estimate.within(self.skip.most, self.skip.square_gap)


@final
@dataclass(frozen=True, slots=True)
class SkipFall(OfSkips):
    """No squared singular value falls by more than the symmetric part allows."""

    name: ClassVar[str] = "skip-fall"
    source: ClassVar[str] = f"{SOURCE}, Theorem 16 (70)"
    statement: ClassVar[str] = "min_i sᵢ(ρ)² - sᵢ(0)² ≥ ρ τ₋ + ρ² (τ⁺ where ρ < 0)"
    sense: ClassVar[Sense] = "at least"

    def measured(self) -> Estimate:
        grown = self.skip.after.sigma.square() - self.skip.before.sigma.square()
        return Estimate.within(grown.min().item(), self.skip.square_gap)

    def limit(self) -> Estimate:
        return Estimate.within(self.skip.least, self.skip.square_gap)


@final
@dataclass(frozen=True, slots=True)
class SkipRoots(OfSkips):
    """Every singular value lies between the roots of what Theorem 16 allows for its square."""

    name: ClassVar[str] = "skip-roots"
    source: ClassVar[str] = f"{SOURCE}, Eq. (73), a negative radicand being replaced by 0"
    statement: ClassVar[str] = "√max(0, sᵢ(0)² + ρ τ₋ + ρ²) ≤ sᵢ(ρ) ≤ √(sᵢ(0)² + ρ τ⁺ + ρ²)"

    def measured(self) -> Estimate:
        before, after = self.skip.before.sigma, self.skip.after.sigma
        low = (before.square() + self.skip.least).clamp(min=0).sqrt()
        high = (before.square() + self.skip.most).clamp(min=0).sqrt()
        # a root is as uncertain as the root of the rounding of its square where that is near zero
        gap = self.skip.gap + math.sqrt(self.skip.square_gap)
        return Estimate.within(torch.maximum(low - after, after - high).max().item(), gap)

    def limit(self) -> Estimate:
        return Estimate.exactly(0.0)


@final
@dataclass(frozen=True, slots=True)
class SkipReach(OfSkips):
    """A skip connection moves no singular value further from its strength than `s₁(M)`."""

    name: ClassVar[str] = "skip-reach"
    source: ClassVar[str] = f"{SOURCE}, Lemma 17 (71)"
    statement: ClassVar[str] = "max_i |sᵢ(ρ) - |ρ|| ≤ s₁(0)"

    def measured(self) -> Estimate:
        return Estimate.within(
            (self.skip.after.sigma - abs(self.skip.rho)).abs().max().item(), self.skip.gap
        )

    def limit(self) -> Estimate:
        return Estimate.within(self.skip.before.sigma[0].item(), self.skip.gap)


@final
@dataclass(frozen=True, slots=True)
class SkipTop(OfSkips):
    """The largest singular value with a skip connection."""

    name: ClassVar[str] = "skip-top"
    source: ClassVar[str] = f"{SOURCE}, Lemma 21 (74)"
    statement: ClassVar[str] = "s₁(ρ)² ≤ s₁(0)² + ρ τ⁺ + ρ²"

    def measured(self) -> Estimate:
        return Estimate.within(self.skip.after.sigma[0].item() ** 2, self.skip.square_gap)

    def limit(self) -> Estimate:
        top = self.skip.before.sigma[0].item()
        return Estimate.within(top**2 + self.skip.most, self.skip.square_gap)


@final
@dataclass(frozen=True, slots=True)
class SkipBottom(OfSkips):
    """The smallest singular value with a skip connection."""

    name: ClassVar[str] = "skip-bottom"
    source: ClassVar[str] = f"{SOURCE}, Lemma 21 (74)"
    statement: ClassVar[str] = "sₙ(ρ)² ≥ sₙ(0)² + ρ τ₋ + ρ²"
    sense: ClassVar[Sense] = "at least"

    def measured(self) -> Estimate:
        return Estimate.within(self.skip.after.sigma[-1].item() ** 2, self.skip.square_gap)

    def limit(self) -> Estimate:
        bottom = self.skip.before.sigma[-1].item()
        return Estimate.within(bottom**2 + self.skip.least, self.skip.square_gap)


@dataclass(frozen=True, slots=True)
class SkipConditionBounds:
    """Bounds of the condition number of `M + ρ Id`, and the number itself.

    Each is infinite where its condition fails.

    Attributes:
        kappa: `s₁(ρ) / sₙ(ρ)`; infinite where rounding cannot tell `sₙ(ρ)` from 0.
        by_norm: (76), needs `s₁ < ρ`.
        by_norm_alone: (76), its second, coarser form.
        by_symmetric_part: (77), needs `ρ² + ρ τ₋ + sₙ² > 0` alone.
        by_symmetric_part_alone: (77), its coarser form, needs `τ₋ > -ρ`.
    """

    kappa: float
    by_norm: float
    by_norm_alone: float
    by_symmetric_part: float
    by_symmetric_part_alone: float


def skip_condition_bounds(skip: Skip) -> SkipConditionBounds:
    """All bounds of Theorem 22, of `M / ρ + Id`, which has the condition number of `M + ρ Id`.

    Raises:
        ValueError: If the strength is not above 0.

    Source:
        Riedi et al. 2022, Theorem 22 (76), (77).
    """
    rho = skip.rho
    if rho <= 0:
        raise ValueError(f"`rho` must be above 0 for Theorem 22, got {rho:g}. Flip the sign of M.")
    top, last = skip.before.sigma[0].item(), skip.after.sigma[-1].item()
    return SkipConditionBounds(
        kappa=skip.after.sigma[0].item() / last if last > skip.gap else math.inf,
        by_norm=SkipConditionByNorm(skip).limit().value,
        by_norm_alone=(rho + top) / (rho - top) if top < rho else math.inf,
        by_symmetric_part=SkipConditionBySymmetricPart(skip).limit().value,
        by_symmetric_part_alone=(
            (rho + top) / math.sqrt(skip.least) if skip.least > 0 else math.inf
        ),
    )


@dataclass(frozen=True, slots=True)
class _SkipCondition(OfSkips):
    """A bound of the condition number of `M + ρ Id`.

    Its denominator vanishes at the edge of its condition, and is a difference of larger numbers
    there: what rounding leaves of it decides whether the condition is known to be met.
    """

    says: ClassVar[str]

    def measured(self) -> Estimate:
        s = self.skip.after
        return ratio(s.sigma[0].item(), s.sigma[-1].item(), self.skip.gap, s.how)

    def limit(self) -> Estimate:
        top, rho = self.skip.first, self.skip.rho
        widest = (top**2 + rho * self.skip.tau[1] + rho**2).sqrt()
        return widest / self._denominator().at_least(0.0)

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("the skip connection adds, ρ > 0", self.skip.rho > 0),
            Assumption(self.says, self._room().positive),
        )

    @abstractmethod
    def _room(self) -> Estimate:
        """What the condition wants to be above zero."""

    @abstractmethod
    def _denominator(self) -> Estimate:
        """What the bound divides by."""


@final
@dataclass(frozen=True, slots=True)
class SkipConditionByNorm(_SkipCondition):
    """Small weights in the bypassed layers keep the condition number near 1."""

    name: ClassVar[str] = "skip-condition-norm"
    source: ClassVar[str] = f"{SOURCE}, Theorem 22 (76)"
    statement: ClassVar[str] = "κ(M + Id) ≤ √(1 + τ⁺ + s₁²) / (1 - s₁)"
    says: ClassVar[str] = "s₁(M) < ρ"

    def _room(self) -> Estimate:
        return self.skip.rho - self.skip.first

    def _denominator(self) -> Estimate:
        return self._room()


@final
@dataclass(frozen=True, slots=True)
class SkipConditionBySymmetricPart(_SkipCondition):
    """A symmetric part that is not too negative bounds the condition number."""

    name: ClassVar[str] = "skip-condition-symmetric"
    source: ClassVar[str] = f"{SOURCE}, Theorem 22 (77), under 1 + τ₋ + sₙ² > 0 alone"
    statement: ClassVar[str] = "κ(M + Id) ≤ √((1 + τ⁺ + s₁²) / (1 + τ₋ + sₙ²))"
    says: ClassVar[str] = "ρ² + ρ τ₋ + sₙ² > 0"

    def _room(self) -> Estimate:
        rho = self.skip.rho
        return self.skip.last**2 + rho * self.skip.tau[0] + rho**2

    def _denominator(self) -> Estimate:
        return self._room().sqrt()


OF_SKIPS: tuple[type[OfSkips], ...] = (
    SkipGrowth,
    SkipFall,
    SkipRoots,
    SkipReach,
    SkipTop,
    SkipBottom,
    SkipConditionByNorm,
    SkipConditionBySymmetricPart,
)
