"""Bounds with high probability, for Gaussian weights of a residual layer.

`W = σ K`, `K [n, n]` of independent standard Gaussians and `σ = 1 / (r √(8n))` (111); the layer
after the trained one is `D₁ W + Id`, read through the activation `D`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg import EdelmanCondition, Estimate, Spectrum, singular_edge, symmetric_edge
from sigmascope.theory.bounds import Assumption, Bound
from sigmascope.theory.riedi2022.intervals import SOURCE, blur, exact, near, ratio

Piecewise = Literal["linear", "abs", "relu", "leaky"]
EDELMAN_TERM = 0.7  # times 1/n: the distance to the limit law that was found at n = 5 to 100


def weight_spread(n: int, r: float) -> float:
    """The standard deviation `1 / (r √(8n))` of the weights.

    Source:
        Riedi et al. 2022, Eq. (111).
    """
    return 1 / (r * math.sqrt(8 * n))


def condition_limits(r: float) -> tuple[float, float]:
    """What bounds (116) and (114) of `κ(W + Id)` tend to as the width grows.

    Args:
        r: Above 1.

    Returns:
        (121) and (122). The limit of `κ(W + Id)` itself is the ratio of
        `linalg.shifted_limits(1 / (r √8))`.

    Source:
        Riedi et al. 2022, Theorem 38.

    Example:
        >>> [round(x, 4) for x in condition_limits(2)]
        [1.8028, 1.9719]
    """
    if not r > 1:
        raise ValueError(f"`r` must be above 1, got {r}. It is the inverse scale of the weights.")
    top = r * r + r + 0.5
    return math.sqrt(top / (r * r - r)), math.sqrt(top) / (r - 1 / math.sqrt(2))


def chance_of_norm(n: int, r: float, *, norm: float = 1.0) -> float:
    """The chance that `s₁(W)` exceeds `norm`, by the Tracy-Widom law at this size.

    Source:
        Riedi et al. 2022, Lemma 36 (113).
    """
    return singular_edge(n).tail((norm / weight_spread(n, r)) ** 2)


def chance_of_negative(n: int, r: float) -> float:
    """The chance that the smallest eigenvalue of `Wᵀ + W` is -1 or less, by the same law.

    Source:
        Riedi et al. 2022, Lemma 36, with the scale of `linalg.symmetric_edge`.
    """
    return symmetric_edge(n).tail(1 / weight_spread(n, r))


@dataclass(frozen=True, slots=True)
class WeightScale:
    """How large weights may be.

    Attributes:
        std: Standard deviation of independent Gaussian weights.
        entry: Largest size of a weight, whatever its law, for which the condition number is sure.
        norm: Spectral norm of the layer up to which it is sure.
        how: What bounds the norm of Gaussian weights.
    """

    std: float
    entry: float
    norm: float
    how: str


def weight_scale(
    width: int,
    *,
    condition: float,
    activation: Piecewise = "relu",
    slope: float = 0.01,
    probability: float = 0.95,
    law: Literal["concentration", "tracy-widom"] = "concentration",
) -> WeightScale:
    """The weight scale that keeps the condition number of a residual layer below a wanted value.

    `κ((D₁ W + Id) D) ≤ (1 + s₁(W)) / (η (1 - s₁(W)))` for any `D₁` and any `D` that leaves a unit
    on, with `η = 1` but for leaky activations; so the norm of `W` decides.

    Args:
        width: Rows and columns of the layer.
        condition: Wanted bound, above `1/η`.
        activation: Of the trained layer.
        slope: `η` of a leaky one, in (0, 1].
        probability: Chance that Gaussian weights keep to it, in (0, 1).
        law: `"concentration"` is proved at every width; `"tracy-widom"` is sharper, and right up to
            the finite-size error of that law.

    Raises:
        ValueError: If a number is out of range.

    Source:
        After Riedi et al. 2022, Theorems 31 and 39, by interlacing (23); Davidson & Szarek 2001,
        Theorem II.13, for the norm of Gaussian matrices.

    Example:
        >>> round(weight_scale(100, condition=3.0).std, 4)
        0.0223
    """
    least = slope if activation == "leaky" else 1.0
    if width < 2 or not 0 < least <= 1 or not 0 < probability < 1:
        raise ValueError(
            f"`weight_scale` needs width >= 2, 0 < slope <= 1 and 0 < probability < 1, got width "
            f"{width}, slope {slope:g}, probability {probability:g}."
        )
    wanted = condition * least
    if not wanted > 1:
        raise ValueError(
            f"`condition` must be above {1 / least:g} for this activation, got {condition:g}: no "
            "weights, however small, do better. Ask for more, or change the activation."
        )
    norm = (wanted - 1) / (wanted + 1)
    if law == "concentration":
        top = 2 * math.sqrt(width) + math.sqrt(2 * math.log(1 / (1 - probability)))
    else:
        top = math.sqrt(singular_edge(width).quantile(probability))
    return WeightScale(norm / top, norm / width, norm, law)


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
    """

    weight: Spectrum
    plain: Spectrum
    skipped: Spectrum
    inner: Float64[Tensor, " n"]
    outer: Float64[Tensor, " n"]
    r: float
    site: str = "residual layer"

    @classmethod
    def of(
        cls,
        W: Float[Tensor, "n n"],
        inner: Float[Tensor, " n"],
        outer: Float[Tensor, " n"],
        *,
        r: float,
        site: str = "residual layer",
    ) -> "ResidualLayer":
        """Measure a layer.

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
        return cls(exact(W), exact(half * outer), exact(skipped), inner, outer, r, site)

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


@final
@dataclass(frozen=True, slots=True)
class ResidualReLU(OfResidualLayers):
    """A residual layer between ReLUs is well conditioned if its weights are small enough."""

    name: ClassVar[str] = "residual-relu"
    source: ClassVar[str] = (
        f"{SOURCE}, Theorem 39 (128), failing with 2 exp(-θ²/2) + P[s₁(W) ≥ 1/r] as proved"
    )
    statement: ClassVar[str] = "κ((D₁ W + Id) D) ≤ 2 (1 + 1/r) / (1 - (2 + 2ν + θ)/r), θ = 4.5"

    def assumptions(self) -> tuple[Assumption, ...]:
        layer = self.layer
        return (
            Assumption("slopes are 0 or 1", self._slopes(0.0, 1.0)),
            Assumption("some unit is off", sum(layer.off) >= 1),
            Assumption("m < n and n ≥ 5", layer.off[1] < layer.n and layer.n >= 5),
            Assumption("r > 2 + 2ν + θ", layer.r > 2 + 2 * layer.nu + _theta(layer.n)),
        )

    def limit(self) -> Estimate:
        layer, theta = self.layer, _theta(self.layer.n)
        below = 1 - (2 + 2 * layer.nu + theta) / layer.r
        found = 2 * (1 + 1 / layer.r) / below if below > 0 else math.inf
        risk = 2 * math.exp(-(theta**2) / 2) + chance_of_norm(layer.n, layer.r, norm=1 / layer.r)
        return Estimate(found, found, found, "(128)", min(1.0, risk))


@final
@dataclass(frozen=True, slots=True)
class ResidualReLUBySize(OfResidualLayers):
    """The same with the measured norm of the weights, and r' = 2."""

    name: ClassVar[str] = "residual-relu-norm"
    source: ClassVar[str] = f"{SOURCE}, Theorem 39 (129)"
    statement: ClassVar[str] = (
        "κ((D₁ W + Id) D) ≤ 2 (1 + s₁(W)) / (1 - (r' + r'ν + θ)/r), r' = 2, θ = 4.5"
    )

    def assumptions(self) -> tuple[Assumption, ...]:
        layer = self.layer
        return (
            Assumption("slopes are 0 or 1", self._slopes(0.0, 1.0)),
            Assumption("some unit is off", sum(layer.off) >= 1),
            Assumption("m < n and n ≥ 5", layer.off[1] < layer.n and layer.n >= 5),
            Assumption("r > r' + r'ν + θ", layer.r > 2 + 2 * layer.nu + _theta(layer.n)),
        )

    def limit(self) -> Estimate:
        layer, theta = self.layer, _theta(self.layer.n)
        below = 1 - (2 + 2 * layer.nu + theta) / layer.r
        top = 2 * (1 + layer.weight.sigma[0].item())
        found = top / below if below > 0 else math.inf
        risk = 2 * math.exp(-(theta**2) / 2) + chance_of_negative(layer.n, 2.0)
        return Estimate(found, found, found, "(129)", min(1.0, risk))


@final
@dataclass(frozen=True, slots=True)
class ResidualEverywhere(OfResidualLayers):
    """One bound for all regions of activation, of the singular values that are not zero."""

    name: ClassVar[str] = "residual-everywhere"
    source: ClassVar[str] = f"{SOURCE}, Cor. 40 (151), for i ≤ n - m"
    statement: ClassVar[str] = "κ((D₁ W + Id) D) ≤ 2 (1 + 1/r) / (1 - (2 + 2n + θ)/r), θ = 4.5"

    def assumptions(self) -> tuple[Assumption, ...]:
        layer = self.layer
        return (
            Assumption("slopes are 0 or 1", self._slopes(0.0, 1.0)),
            Assumption("some unit is off", sum(layer.off) >= 1),
            Assumption("m < n and n ≥ 5", layer.off[1] < layer.n and layer.n >= 5),
            Assumption("r > 2 + 2n + θ", layer.r > 2 + 2 * layer.n + _theta(layer.n)),
        )

    def limit(self) -> Estimate:
        layer, theta = self.layer, _theta(self.layer.n)
        below = 1 - (2 + 2 * layer.n + theta) / layer.r
        found = 2 * (1 + 1 / layer.r) / below if below > 0 else math.inf
        risk = 2 * math.exp(-(theta**2) / 2) + chance_of_norm(layer.n, layer.r, norm=1 / layer.r)
        return Estimate(found, found, found, "(151)", min(1.0, risk))


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
        return near(found, 1e-12 * found * (1 + min(found, 1e9)))


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


@final
@dataclass(frozen=True, slots=True)
class EdelmanLaw(Bound):
    """The condition number of Gaussian matrices grows like their size, with a known law."""

    name: ClassVar[str] = "edelman-law"
    source: ClassVar[str] = (
        f"Edelman 1988, Theorem 6.1, in {SOURCE}, Eq. (154); finite-size term found numerically"
    )
    statement: ClassVar[str] = "sup_t |share(κ/n ≤ t) - exp(-2/t - 2/t²)| ≤ 0.7/n + sampling"

    n: int
    conditions: tuple[float, ...]
    site: str = "Gaussian matrices"

    def assumptions(self) -> tuple[Assumption, ...]:
        return (Assumption("20 matrices or more", len(self.conditions) >= 20),)

    def measured(self) -> Estimate:
        count, law = len(self.conditions), EdelmanCondition()
        levels = [law.cdf(k / self.n) for k in sorted(self.conditions)]
        gaps = [max((i + 1) / count - F, F - i / count) for i, F in enumerate(levels)]
        return Estimate.rounded(max(gaps), ulps=64)

    def limit(self) -> Estimate:
        risk = 1e-6
        spread = math.sqrt(math.log(2 / risk) / (2 * len(self.conditions)))
        found = EDELMAN_TERM / self.n + spread
        return Estimate(found, found, found, "Dvoretzky-Kiefer-Wolfowitz", risk)

    @classmethod
    def of(cls, matrices: Sequence[Float[Tensor, "n n"]]) -> "EdelmanLaw":
        """Measure square matrices of one size."""
        found = [torch.linalg.svdvals(M.double()) for M in matrices]
        return cls(len(matrices[0]), tuple((s[0] / s[-1]).item() for s in found))


OF_RESIDUAL_LAYERS: tuple[type[OfResidualLayers], ...] = (
    ResidualReLU,
    ResidualReLUBySize,
    ResidualEverywhere,
    ResidualSure,
    ResidualImproves,
)
