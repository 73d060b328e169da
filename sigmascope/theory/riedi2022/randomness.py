"""Bounds with high probability, for Gaussian weights of a residual layer.

`W = σ K`, `K [n, n]` of independent standard Gaussians and `σ = 1 / (r √(8n))` (111); the layer
after the trained one is `D₁ W + Id`, read through the activation `D`.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Float64
from scipy.stats import chi2
from torch import Tensor

from sigmascope.records import Assumption, Estimate, Spectrum
from sigmascope.theory.bounds import Bound
from sigmascope.theory.riedi2022.intervals import SOURCE, blur, exact, ratio
from sigmascope.theory.riedi2022.scales import chance_of_negative, chance_of_norm, weight_spread

REFUTED = 1e-9  # chance below which the sum of squares of Gaussian weights is not what was found


@dataclass(frozen=True, slots=True)
class ResidualLayer:
    """The facts: one residual layer between activations, with Gaussian weights.

    Attributes:
        weight: Singular values of `W`.
        plain: Of `D₁ W D`.
        skipped: Of `(D₁ W + Id) D`.
        inner: Diagonal of `D₁`.
        outer: Diagonal of `D`.
        r: Inverse scale of the weights.
        site: Which layer.
        drawn: Whether the weights were drawn from the Gaussian law (111); None where that is not
            known. Of a given matrix it can be refuted, and never proved.
    """

    weight: Spectrum
    plain: Spectrum
    skipped: Spectrum
    inner: Float64[Tensor, " n"]
    outer: Float64[Tensor, " n"]
    r: float
    site: str = "residual layer"
    drawn: bool | None = None

    @classmethod
    def of(
        cls,
        W: Float[Tensor, "n n"],
        inner: Float[Tensor, " n"],
        outer: Float[Tensor, " n"],
        *,
        r: float,
        site: str = "residual layer",
        drawn: bool | None = None,
    ) -> "ResidualLayer":
        """Measure a layer.

        Args:
            W: Its weights.
            inner: The slopes before the skip connection joins.
            outer: The slopes of the trained layer.
            r: Inverse scale of the weights.
            site: Which layer.
            drawn: True where the weights were drawn with `weight_spread(n, r)`.

        Raises:
            ValueError: If the sizes do not fit.
        """
        n = len(W)
        if W.shape != (n, n) or inner.shape != (n,) or outer.shape != (n,):
            raise ValueError(
                f"`W` must be square with two diagonals of its size, got shapes {tuple(W.shape)}, "
                f"{tuple(inner.shape)} and {tuple(outer.shape)}."
            )
        W, inner, outer = W.double(), inner.double(), outer.double()
        half = inner[:, None] * W
        skipped = (half + torch.eye(n, dtype=torch.float64)) * outer
        return cls(exact(W), exact(half * outer), exact(skipped), inner, outer, r, site, drawn)

    @property
    def n(self) -> int:
        """Width."""
        return len(self.inner)

    @property
    def off(self) -> tuple[int, int]:
        """Units that are off, before and after the layer."""
        return int((self.inner == 0).sum()), int((self.outer == 0).sum())

    @property
    def nu(self) -> float:
        """How much the two activations take together (127)."""
        before, after = self.off
        return before + after - before * after / self.n

    @property
    def rank(self) -> int:
        """Singular values of `(D₁ W + Id) D` that are not zero by construction."""
        return self.n - self.off[1]

    @property
    def gap(self) -> float:
        """Rounding of a singular value."""
        return blur(self.weight, self.plain, self.skipped)

    def gaussian(self) -> Assumption:
        """Whether the weights are Gaussian of the scale that r says; by their size, if not told."""
        met = self.drawn
        if met is None:
            size = self.weight.sigma.square().sum().item() / weight_spread(self.n, self.r) ** 2
            tails = chi2.cdf(size, self.n**2), chi2.sf(size, self.n**2)
            met = False if min(tails) < REFUTED else None
        return Assumption("weights are independent Gaussians of variance 1/(8 n r²)", met)

    def condition(self, s: Spectrum) -> Estimate:
        """Largest over smallest of the values that are not zero by construction."""
        last = s.sigma[max(self.rank, 1) - 1].item()
        return ratio(s.sigma[0].item(), last, self.gap, s.how)


@dataclass(frozen=True, slots=True)
class OfResidualLayers(Bound):
    """A theorem about `(D₁ W + Id) D`."""

    layer: ResidualLayer

    @property
    def site(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] (read only)
        """Which layer."""
        return self.layer.site

    def measured(self) -> Estimate:
        return self.layer.condition(self.layer.skipped)

    def _slopes(self, *allowed: float) -> bool:
        both = torch.cat([self.layer.inner, self.layer.outer])
        return bool(torch.isin(both, torch.tensor(allowed, dtype=both.dtype)).all())

    def _some_on(self) -> Assumption:
        return Assumption("some unit of the trained layer is on", self.layer.off[1] < self.layer.n)


def _theta(n: int) -> float:
    """The smallest θ the theorem admits, with room: the chance of failure is `2 exp(-θ²/2)`."""
    return min(4.5, 2 * math.sqrt(n))


@dataclass(frozen=True, slots=True)
class BetweenReLUs(OfResidualLayers):
    """`2 (1 + top) / (1 - (2 + 2 taken + θ) / r)`, with a chance of failure."""

    needs: ClassVar[str]
    label: ClassVar[str]

    @abstractmethod
    def taken(self) -> float:
        """How much the activations take."""

    @abstractmethod
    def top(self) -> float:
        """What bounds the norm of the weights."""

    @abstractmethod
    def exception(self) -> float:
        """The chance that the weights are larger than they should be."""

    @property
    def room(self) -> float:
        """What `r` has to exceed."""
        return 2 + 2 * self.taken() + _theta(self.layer.n)

    def assumptions(self) -> tuple[Assumption, ...]:
        layer = self.layer
        return (
            layer.gaussian(),
            Assumption("slopes are 0 or 1", self._slopes(0.0, 1.0)),
            Assumption("some unit is off", sum(layer.off) >= 1),
            Assumption("m < n and n ≥ 5", layer.off[1] < layer.n and layer.n >= 5),
            Assumption(self.needs, layer.r > self.room),
        )

    def limit(self) -> Estimate:
        below = 1 - self.room / self.layer.r
        found = 2 * (1 + self.top()) / below if below > 0 else math.inf
        risk = 2 * math.exp(-(_theta(self.layer.n) ** 2) / 2) + self.exception()
        return Estimate(found, found, found, self.label, min(1.0, risk))


@final
@dataclass(frozen=True, slots=True)
class ResidualReLU(BetweenReLUs):
    """A residual layer between ReLUs is well conditioned if its weights are small enough."""

    name: ClassVar[str] = "residual-relu"
    source: ClassVar[str] = (
        f"{SOURCE}, Theorem 39 (128), failing with 2 exp(-θ²/2) + P[s₁(W) ≥ 1/r] as proved"
    )
    statement: ClassVar[str] = "κ((D₁ W + Id) D) ≤ 2 (1 + 1/r) / (1 - (2 + 2ν + θ)/r), θ = 4.5"
    needs: ClassVar[str] = "r > 2 + 2ν + θ"
    label: ClassVar[str] = "(128)"

    def taken(self) -> float:
        return self.layer.nu

    def top(self) -> float:
        return 1 / self.layer.r

    def exception(self) -> float:
        return chance_of_norm(self.layer.n, self.layer.r, norm=1 / self.layer.r)


@final
@dataclass(frozen=True, slots=True)
class ResidualReLUBySize(BetweenReLUs):
    """The same with the measured norm of the weights, and r' = 2."""

    name: ClassVar[str] = "residual-relu-norm"
    source: ClassVar[str] = f"{SOURCE}, Theorem 39 (129)"
    statement: ClassVar[str] = (
        "κ((D₁ W + Id) D) ≤ 2 (1 + s₁(W)) / (1 - (r' + r'ν + θ)/r), r' = 2, θ = 4.5"
    )
    needs: ClassVar[str] = "r > r' + r'ν + θ"
    label: ClassVar[str] = "(129)"

    def taken(self) -> float:
        return self.layer.nu

    def top(self) -> float:
        return self.layer.weight.sigma[0].item()

    def exception(self) -> float:
        return chance_of_negative(self.layer.n, 2.0)


@final
@dataclass(frozen=True, slots=True)
class ResidualEverywhere(BetweenReLUs):
    """One bound for all regions of activation, of the singular values that are not zero."""

    name: ClassVar[str] = "residual-everywhere"
    source: ClassVar[str] = f"{SOURCE}, Cor. 40 (151), for i ≤ n - m"
    statement: ClassVar[str] = "κ((D₁ W + Id) D) ≤ 2 (1 + 1/r) / (1 - (2 + 2n + θ)/r), θ = 4.5"
    needs: ClassVar[str] = "r > 2 + 2n + θ"
    label: ClassVar[str] = "(151)"

    def taken(self) -> float:
        return self.layer.n

    def top(self) -> float:
        return 1 / self.layer.r

    def exception(self) -> float:
        return chance_of_norm(self.layer.n, self.layer.r, norm=1 / self.layer.r)


@final
@dataclass(frozen=True, slots=True)
class ResidualSure(OfResidualLayers):
    """What the norm of the weights promises, for every region at once."""

    name: ClassVar[str] = "residual-sure"
    source: ClassVar[str] = f"sharper than {SOURCE}, Theorem 39 and Cor. 40, by their Eq. (23)"
    statement: ClassVar[str] = "κ((D₁ W + Id) D) ≤ (1 + s₁(W)) / (η (1 - s₁(W)))"

    def assumptions(self) -> tuple[Assumption, ...]:
        sizes = torch.cat([self.layer.inner, self.layer.outer]).abs()
        kept = self.layer.outer.abs()
        pure = bool(((kept == 0) | (kept == 1)).all()) or bool((kept > 0).all())
        return (
            Assumption("s₁(W) < 1", self.layer.weight.sigma[0].item() < 1),
            Assumption("no slope is larger than 1", bool((sizes <= 1).all())),
            Assumption("slopes of the trained layer are 0 or ±1, or none is 0", pure),
            self._some_on(),
        )

    def limit(self) -> Estimate:
        top, kept = self.layer.weight.sigma[0].item(), self.layer.outer.abs()
        least = kept[kept > 0].min().item() if bool((kept > 0).any()) else 1.0
        found = (1 + top) / (least * (1 - top)) if top < 1 else math.inf
        return Estimate.within(found, 1e-12 * found * (1 + min(found, 1e9)))


@final
@dataclass(frozen=True, slots=True)
class ResidualImproves(OfResidualLayers):
    """A skip connection improves the conditioning of a layer that is badly conditioned enough."""

    name: ClassVar[str] = "residual-improves"
    source: ClassVar[str] = f"{SOURCE}, Theorem 42 (153)"
    statement: ClassVar[str] = "κ((D₁ W + Id) D) ≤ κ(D₁ W D)"

    def assumptions(self) -> tuple[Assumption, ...]:
        top = self.layer.weight.sigma[0].item()
        wanted = (1 + top) / (1 - top) if top < 1 else math.inf
        bad = self.layer.condition(self.layer.weight)
        return (
            Assumption("slopes are ±1, as of the absolute value", self._slopes(-1.0, 1.0)),
            Assumption("κ(W) ≥ (1 + s₁) / (1 - s₁) > 0 (152)", top < 1 and bad.low >= wanted),
        )

    def limit(self) -> Estimate:
        return self.layer.condition(self.layer.plain)


OF_RESIDUAL_LAYERS: tuple[type[OfResidualLayers], ...] = (
    ResidualReLU,
    ResidualReLUBySize,
    ResidualEverywhere,
    ResidualSure,
    ResidualImproves,
)
