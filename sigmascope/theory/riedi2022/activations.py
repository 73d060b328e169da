"""What an activation does to the singular values of the layers after it.

`D` is diagonal, with the slopes of the units that are on the negative side (`η`) or on the other
(1): 0 for ReLU, -1 for the absolute value, between 0 and 1 for leaky ReLU.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Assumption, Brief, Estimate, Spectrum
from sigmascope.theory.bounds import ANY, SIZE, OfFacts, row
from sigmascope.theory.riedi2022.intervals import EPS, SOURCE, blur, exact, ratio


@dataclass(frozen=True, slots=True, repr=False)
class Activation(Brief):
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
            Refusal: If there is not one slope for each column.
        """
        M, d = M.detach().double().cpu(), slopes.detach().double().cpu()
        if M.ndim != 2 or d.shape != M.shape[1:]:
            raise Refusal(
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

    @property
    def deleted(self) -> Estimate:
        """`deleted_sq` with its rounding."""
        return Estimate.rounded(self.deleted_sq, ulps=4 * len(self.slopes) ** 2)

    def bounded(self) -> Assumption:
        """No slope is above 1."""
        return Assumption("no slope is larger than 1", bool((self.slopes.abs() <= 1).all()))

    def zero_one(self) -> Assumption:
        """Slopes only delete and flip."""
        met = bool(((self.slopes == 0) | (self.slopes.abs() == 1)).all())
        return Assumption("slopes are 0 or ±1, as of ReLU", met)

    def squares_gap(self) -> float:
        """Rounding of a sum of squares of singular values."""
        return 4 * len(self.before.sigma) * self.gap * self.before.sigma[0].item()

    def condition(self, s: Spectrum, rank: int) -> Estimate:
        """Largest over the rank-th singular value."""
        last = s.sigma[min(rank, len(s.sigma)) - 1].item()
        return ratio(s.sigma[0].item(), last, self.gap, s.how)


def _apart(s: Spectrum, t: Spectrum, gap: float) -> Estimate:
    """How far two spectra are apart that should be equal."""
    moved = torch.dist(s.sigma, t.sigma, p=torch.inf).item()
    return Estimate(moved, max(0.0, moved - gap), moved + gap, "exact")


def _well_posed(facts: Activation) -> Iterator[Assumption]:
    """What the condition number of `M D` needs to be bounded by that of `M`."""
    rows, columns = facts.before.shape
    last = facts.before.sigma[-1].item() - facts.gap
    one = bool(facts.zero_one().met) or facts.least > 0
    yield facts.bounded()
    yield Assumption("no slope is 0, or all are 0 or ±1", one)
    yield Assumption("some unit is on", facts.off < len(facts.slopes))
    yield Assumption("M is invertible", rows == columns and last > 0)


def _condition_limit(facts: Activation) -> Estimate:
    kappa = facts.condition(facts.before, len(facts.before.sigma))
    return kappa if facts.zero_one().met else kappa * Estimate.exactly(1 / facts.least)


OF_ACTIVATIONS: tuple[type[OfFacts], ...] = (
    row(
        "absolute-value-keeps",
        f"{SOURCE}, Prop. 23",
        "max_i |sᵢ(M D) - sᵢ(M)| ≤ 0",
        "Flipping signs changes no singular value.",
        measured=lambda f: _apart(f.after, f.before, f.gap),
        limit=lambda f: Estimate.exactly(0.0),
        assuming=lambda f: [Assumption("every slope is ±1", bool((f.slopes.abs() == 1).all()))],
    ),
    row(
        "activation-shrinks",
        f"{SOURCE}, Lemma 24",
        "max_i sᵢ(M D) - sᵢ(M) ≤ 0",
        "An activation makes no singular value larger.",
        measured=lambda f: Estimate.within((f.after.sigma - f.before.sigma).max().item(), f.gap),
        limit=lambda f: Estimate.exactly(0.0),
        assuming=lambda f: [f.bounded()],
    ),
    row(
        "activation-leaks",
        f"{SOURCE}, Lemma 24, for every i and 0 ≤ η ≤ 1",
        "min_i sᵢ(M D) - η sᵢ(M) ≥ 0",
        "An activation shrinks no singular value by more than its smallest slope.",
        measured=lambda f: Estimate.within(
            (f.after.sigma - f.least * f.before.sigma).min().item(), f.gap
        ),
        limit=lambda f: Estimate.exactly(0.0),
        always=lambda f: SIZE if f.least == 0 else ANY,
        assuming=lambda f: [f.bounded()],
        sense="at least",
    ),
    row(
        "activation-condition",
        f"after {SOURCE}, Eq. (23) and Lemma 24",
        "κ(M D) ≤ κ(M) / η; κ(M D) ≤ κ(M) for slopes 0 and 1",
        "Units that are off do not make the condition number of the rest larger; leaks divide it.",
        measured=lambda f: f.condition(f.after, len(f.slopes) - f.off),
        limit=_condition_limit,
        assuming=_well_posed,
    ),
    row(
        "activation-loss",
        f"{SOURCE}, Prop. 25 (81)",
        "Σ |sᵢ(M)² - sᵢ(M D)²| ≤ Σ squares of the deleted columns",
        "ReLU takes from the squared singular values exactly the columns that it deletes.",
        measured=lambda f: Estimate.within(
            (f.before.sigma.square() - f.after.sigma.square()).abs().sum().item(), f.squares_gap()
        ),
        limit=lambda f: f.deleted,
        assuming=lambda f: [f.zero_one()],
    ),
    row(
        "activation-shift",
        f"{SOURCE}, Prop. 25 (82)",
        "Σ (sᵢ(M) - sᵢ(M D))² ≤ Σ squares of the deleted columns",
        "How far ReLU moves the singular values.",
        measured=lambda f: Estimate.within(
            (f.before.sigma - f.after.sigma).square().sum().item(), f.squares_gap()
        ),
        limit=lambda f: f.deleted,
        assuming=lambda f: [f.zero_one()],
    ),
    row(
        "activation-sides",
        f"{SOURCE}, Prop. 26",
        "max_i |sᵢ(M D) - sᵢ(D Mᵀ)| ≤ 0",
        "An activation before a layer does what it does after the transposed layer.",
        measured=lambda f: _apart(f.after, f.other, f.gap),
        limit=lambda f: Estimate.exactly(0.0),
    ),
)
