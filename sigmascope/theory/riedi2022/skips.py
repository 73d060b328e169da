"""What a skip connection does to the singular values of the layers it bypasses.

`M(ρ) = M + ρ Id`. `τ₋` and `τ⁺` are the smallest and the largest eigenvalue of `Mᵀ + M`. No
statement here needs simple singular values, which the paper asks for: Weyl's inequalities for
`MᵀM + ρ (Mᵀ + M) + ρ² Id` give them all.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Assumption, Estimate, Spectrum
from sigmascope.theory.bounds import SIZE, OfFacts, row
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
            Refusal: If `M` is not square and finite.
        """
        if M.ndim != 2 or M.shape[0] != M.shape[1]:
            raise Refusal(
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
    def grown(self) -> Float[Tensor, " n"]:
        """How much each square of a singular value grew."""
        return self.after.sigma.square() - self.before.sigma.square()

    def squared(self, value: float) -> Estimate:
        """A square, or a difference of two, with its rounding."""
        return Estimate.within(value, self.square_gap)

    @property
    def condition(self) -> Estimate:
        """`κ(M + ρ Id)`."""
        s = self.after
        return ratio(s.sigma[0].item(), s.sigma[-1].item(), self.gap, s.how)

    @property
    def widest(self) -> Estimate:
        """`√(s₁² + ρ τ⁺ + ρ²)`, which no singular value exceeds."""
        return (self.first**2 + self.rho * self.tau[1] + self.rho**2).sqrt()

    @property
    def norm_room(self) -> Estimate:
        """`ρ - s₁`, what (76) divides by; it vanishes at the edge of its condition."""
        return self.rho - self.first

    @property
    def symmetric_room(self) -> Estimate:
        """`ρ² + ρ τ₋ + sₙ²`, of whose root (77) is the same."""
        return self.last**2 + self.rho * self.tau[0] + self.rho**2

    @property
    def least(self) -> float:
        """What Theorem 16 allows the squares to fall by, as a negative number."""
        return self.rho**2 + min(self.rho * tau for tau in self.ends)

    @property
    def most(self) -> float:
        """What Theorem 16 allows the squares to grow by."""
        return self.rho**2 + max(self.rho * tau for tau in self.ends)


def by_norm(f: Skip) -> Estimate:
    """The bound (76)."""
    return f.widest / f.norm_room.at_least(0.0)


def by_symmetric_part(f: Skip) -> Estimate:
    """The bound (77)."""
    return f.widest / f.symmetric_room.sqrt().at_least(0.0)


def _beyond_roots(f: Skip) -> Estimate:
    """How far any singular value lies outside of the roots of what Theorem 16 allows."""
    before, after = f.before.sigma, f.after.sigma
    low = (before.square() + f.least).clamp(min=0).sqrt()
    high = (before.square() + f.most).clamp(min=0).sqrt()
    # a root is as uncertain as the root of the rounding of its square where that is near zero
    gap = f.gap + math.sqrt(f.square_gap)
    return Estimate.within(torch.maximum(low - after, after - high).max().item(), gap)


def _adds(f: Skip) -> Assumption:
    return Assumption("the skip connection adds, ρ > 0", f.rho > 0)


OF_SKIPS: tuple[type[OfFacts], ...] = (
    row(
        "skip-growth",
        f"{SOURCE}, Theorem 16 (70)",
        "max_i sᵢ(ρ)² - sᵢ(0)² ≤ ρ τ⁺ + ρ² (τ₋ where ρ < 0)",
        "No squared singular value grows by more than the symmetric part allows.",
        measured=lambda f: f.squared(f.grown.max().item()),
        limit=lambda f: f.squared(f.most),
    ),
    row(
        "skip-fall",
        f"{SOURCE}, Theorem 16 (70)",
        "min_i sᵢ(ρ)² - sᵢ(0)² ≥ ρ τ₋ + ρ² (τ⁺ where ρ < 0)",
        "No squared singular value falls by more than the symmetric part allows.",
        measured=lambda f: f.squared(f.grown.min().item()),
        limit=lambda f: f.squared(f.least),
        sense="at least",
    ),
    row(
        "skip-roots",
        f"{SOURCE}, Eq. (73), a negative radicand being replaced by 0",
        "√max(0, sᵢ(0)² + ρ τ₋ + ρ²) ≤ sᵢ(ρ) ≤ √(sᵢ(0)² + ρ τ⁺ + ρ²)",
        "Every singular value lies between the roots of what Theorem 16 allows for its square.",
        measured=_beyond_roots,
        limit=lambda f: Estimate.exactly(0.0),
    ),
    row(
        "skip-reach",
        f"{SOURCE}, Lemma 17 (71)",
        "max_i |sᵢ(ρ) - |ρ|| ≤ s₁(0)",
        "A skip connection moves no singular value further from its strength than `s₁(M)`.",
        measured=lambda f: Estimate.within((f.after.sigma - abs(f.rho)).abs().max().item(), f.gap),
        limit=lambda f: f.first,
    ),
    row(
        "skip-top",
        f"{SOURCE}, Lemma 21 (74)",
        "s₁(ρ)² ≤ s₁(0)² + ρ τ⁺ + ρ²",
        "The largest singular value with a skip connection.",
        measured=lambda f: f.squared(f.after.sigma[0].item() ** 2),
        limit=lambda f: f.squared(f.before.sigma[0].item() ** 2 + f.most),
    ),
    row(
        "skip-bottom",
        f"{SOURCE}, Lemma 21 (74)",
        "sₙ(ρ)² ≥ sₙ(0)² + ρ τ₋ + ρ²",
        "The smallest singular value with a skip connection.",
        measured=lambda f: f.squared(f.after.sigma[-1].item() ** 2),
        limit=lambda f: f.squared(f.before.sigma[-1].item() ** 2 + f.least),
        always=lambda f: SIZE,
        sense="at least",
    ),
    row(
        "skip-condition-norm",
        f"{SOURCE}, Theorem 22 (76)",
        "κ(M + Id) ≤ √(1 + τ⁺ + s₁²) / (1 - s₁)",
        "Small weights in the bypassed layers keep the condition number near 1.",
        measured=lambda f: f.condition,
        limit=by_norm,
        assuming=lambda f: [_adds(f), Assumption("s₁(M) < ρ", f.norm_room.positive)],
    ),
    row(
        "skip-condition-symmetric",
        f"{SOURCE}, Theorem 22 (77), under 1 + τ₋ + sₙ² > 0 alone",
        "κ(M + Id) ≤ √((1 + τ⁺ + s₁²) / (1 + τ₋ + sₙ²))",
        "A symmetric part that is not too negative bounds the condition number.",
        measured=lambda f: f.condition,
        limit=by_symmetric_part,
        assuming=lambda f: [
            _adds(f),
            Assumption("ρ² + ρ τ₋ + sₙ² > 0", f.symmetric_room.positive),
        ],
    ),
)


# ------------------------------------------------------------------------------
# The condition number with a skip connection, beside every bound of it.


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
        Refusal: If the strength is not above 0.

    Source:
        Riedi et al. 2022, Theorem 22 (76), (77).
    """
    rho = skip.rho
    if rho <= 0:
        raise Refusal(f"`rho` must be above 0 for Theorem 22, got {rho:g}. Flip the sign of M.")
    top, last = skip.before.sigma[0].item(), skip.after.sigma[-1].item()
    return SkipConditionBounds(
        kappa=skip.after.sigma[0].item() / last if last > skip.gap else math.inf,
        by_norm=by_norm(skip).value,
        by_norm_alone=(rho + top) / (rho - top) if top < rho else math.inf,
        by_symmetric_part=by_symmetric_part(skip).value,
        by_symmetric_part_alone=(
            (rho + top) / math.sqrt(skip.least) if skip.least > 0 else math.inf
        ),
    )
