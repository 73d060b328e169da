"""How far adjacent linear layers are from aligned, and their tail from rank one."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg import Estimate
from sigmascope.probes import Subject, Symmetry
from sigmascope.theory.bounds import Assumption, OfModels, Sense
from sigmascope.theory.le2022.invariants import SOURCE, Tensors

EPS = 2.0**-52


def alignment(below: Float[Tensor, "h a"], above: Float[Tensor, "c h"]) -> Estimate:
    """`⟨v, u⟩²`: v the first right singular vector of a layer, u the first left one below it.

    Args:
        below: The layer whose rows are the shared units.
        above: The layer whose columns they are.

    Returns:
        Between 0 and 1; all of it where a first singular value is not single.

    Source:
        Le & Jegelka 2022, Theorem 2 and (15).
    """
    return Pair.of(below, above).alignment


def alignment_lower_bound(
    below: Float[Tensor, "h a"],
    above: Float[Tensor, "c h"],
    balance: Float[Tensor, "h h"] | None = None,
) -> float:
    """What the conserved `C = W₂ᵀW₂ - W₁W₁ᵀ` forces `⟨v, u⟩²` to be at least.

    `(s₁(W₂)² - vᵀCv - s₂(W₁)²) / (s₁(W₁)² - s₂(W₁)²)`.

    Args:
        below: `W₁`.
        above: `W₂`.
        balance: C; of these weights if not given. From the beginning of training it tells what
            the weights of today must obey.

    Returns:
        At most 1; negative where it says nothing, minus infinity where `s₁ = s₂`.

    Source:
        Le & Jegelka 2022, (15), at finite time.
    """
    return Pair.of(below, above).least(balance)


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """Two adjacent linear layers, by what they do to the units between.

    Attributes:
        below: Gram matrix `W₁W₁ᵀ` (with the bias, if there is one).
        above: Gram matrix `W₂ᵀW₂`.
    """

    below: Float64[Tensor, "h h"]
    above: Float64[Tensor, "h h"]

    @classmethod
    def of(cls, below: Float[Tensor, "h a"], above: Float[Tensor, "c h"]) -> "Pair":
        """Of two weights."""
        W1, W2 = below.detach().double().cpu(), above.detach().double().cpu()
        return cls(W1 @ W1.mT, W2.mT @ W2)

    @property
    def _ends(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        lam, U = torch.linalg.eigh(self.below)
        mu, V = torch.linalg.eigh(self.above)
        return lam, U[:, -1], mu, V[:, -1]

    @property
    def alignment(self) -> Estimate:
        """`⟨v, u⟩²`, with what rounding of the two vectors may do."""
        lam, u, mu, v = self._ends
        value = min(float(u @ v) ** 2, 1.0)
        turn = sum(_turn(e) for e in (lam, mu))
        if turn >= 1:
            return Estimate(value, 0.0, 1.0, "a first singular value is not single")
        angle = math.acos(math.sqrt(value))
        low, high = angle + 2 * turn, max(angle - 2 * turn, 0.0)
        least = 0.0 if low >= math.pi / 2 else math.cos(low) ** 2
        return Estimate(value, least, math.cos(high) ** 2, "exact")

    def least(self, balance: Tensor | None = None) -> float:
        """The lower bound, with a balance of an earlier time if one is given."""
        lam, _, mu, v = self._ends
        second = float(lam[-2]) if len(lam) > 1 else 0.0
        gap = float(lam[-1]) - second
        if gap <= 0:
            return -math.inf
        C = self.above - self.below if balance is None else balance.double().cpu()
        return min((float(mu[-1]) - float(v @ C @ v) - second) / gap, 1.0)

    @property
    def gap(self) -> float:
        """Relative distance of the first two eigenvalues below."""
        lam = self._ends[0]
        second = float(lam[-2]) if len(lam) > 1 else 0.0
        return (float(lam[-1]) - second) / float(lam[-1]) if float(lam[-1]) > 0 else 0.0


def _turn(lam: Tensor) -> float:
    """How far rounding may turn the first eigenvector (Davis & Kahan 1970)."""
    if len(lam) < 2:
        return 0.0
    gap = float(lam[-1] - lam[-2])
    size = float(lam.abs().max())
    return math.inf if gap <= 0 else 16 * len(lam) * EPS * size / gap


def linear_pairs(subject: Subject) -> Iterator[tuple[str, str, Pair]]:
    """Adjacent layers with nothing but linear maps between: names of the tensors, and the pair.

    Args:
        subject: Whose units all of which may be mixed.
    """
    parameters = dict(subject.model.named_parameters())
    for family in subject.symmetries.scalings:
        if family.slack or family.groups > 1 or family.units < 2:
            continue
        sides = {side: _gram(family, parameters, side) for side in (-1, 1)}
        if sides[-1] is not None and sides[1] is not None:
            yield _names(family, -1), _names(family, 1), Pair(sides[-1], sides[1])


def _names(family: Symmetry, sign: int) -> str:
    parts = [p for p in family.parts if p.factor * sign > 0 and p.side != "entries"]
    return " + ".join(dict.fromkeys(p.tensor for p in parts))


def _gram(family: Symmetry, parameters: Tensors, sign: int) -> Tensor | None:
    """Of what comes in (-1) or goes out (+1); None where the factors are not all one."""
    parts = [p for p in family.parts if p.factor * sign > 0]
    if not parts or any(abs(p.factor) != 1 for p in parts):
        return None
    slabs = [p.slabs(parameters[p.tensor].detach()).double().cpu() for p in parts]
    return sum((s @ s.mT for s in slabs), torch.zeros(()))


@final
@dataclass(frozen=True, slots=True)
class Alignment(OfModels):
    """Adjacent linear layers are as aligned as their balance forces them to be."""

    name: ClassVar[str] = "alignment"
    source: ClassVar[str] = f"{SOURCE}, Eq. (15), at finite time"
    statement: ClassVar[str] = "⟨v,u⟩² ≥ (s₁(W₂)² - vᵀCv - s₂(W₁)²) / (s₁(W₁)² - s₂(W₁)²)"
    sense: ClassVar[Sense] = "at least"
    views: ClassVar[tuple[str, ...]] = ("balances",)

    site: str
    pair: Pair
    balance: Float64[Tensor, "h h"] | None = None

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("the layers meet with linear maps only between them", True),
            Assumption("the first singular value below is single", self.pair.gap > 1e-12),
        )

    def measured(self) -> Estimate:
        return self.pair.alignment

    def limit(self) -> Estimate:
        value = max(self.pair.least(self.balance), 0.0)
        gap = 64 * len(self.pair.below) * EPS / max(self.pair.gap, EPS)
        return Estimate(value, value - gap, value + gap, "exact")

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["Alignment"]:
        for below, above, pair in linear_pairs(subject):
            yield cls(f"{below} ~ {above}", pair)
