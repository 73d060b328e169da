"""Layers whose weights are drawn from a law: bounds with a chance of failure."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Assumption, Brief, Estimate, Spectrum
from sigmascope.linalg.random_matrix import EdelmanCondition, singular_edge, symmetric_edge
from sigmascope.theory.bounds import Bound, OfFacts, row
from sigmascope.theory.riedi2022.intervals import SOURCE, blur, exact, ratio

__all__ = [
    "OF_RESIDUAL_LAYERS",
    "EdelmanLaw",
    "ResidualLayer",
    "WeightScale",
    "chance_of_negative",
    "chance_of_norm",
    "condition_limits",
    "weight_scale",
    "weight_spread",
]

# ------------------------------------------------------------------------------
# Edelman's law of the condition number of Gaussian matrices.


EDELMAN_TERM = 0.7  # times 1/n: the distance to the limit law that was found at n = 5 to 100


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

    def always(self) -> tuple[float, float]:
        return 0.0, 1.0

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


# ------------------------------------------------------------------------------
# How large the Gaussian weights of a residual layer are, may be, and by which laws.
#
# `W = σ K`, `K [n, n]` of independent standard Gaussians and `σ = 1 / (r √(8n))` (111).


Piecewise = Literal["linear", "abs", "relu", "leaky"]


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
        `linalg.random_matrix.shifted_limits(1 / (r √8))`.

    Source:
        Riedi et al. 2022, Theorem 38.

    Example:
        >>> [round(x, 4) for x in condition_limits(2)]
        [1.8028, 1.9719]
    """
    if not r > 1:
        raise Refusal(f"`r` must be above 1, got {r}. It is the inverse scale of the weights.")
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
        Riedi et al. 2022, Lemma 36, with the scale of `linalg.random_matrix.symmetric_edge`.
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
        Refusal: If a number is out of range.

    Source:
        After Riedi et al. 2022, Theorems 31 and 39, by interlacing (23); Davidson & Szarek 2001,
        Theorem II.13, for the norm of Gaussian matrices.

    Example:
        >>> round(weight_scale(100, condition=3.0).std, 4)
        0.0223
    """
    least = slope if activation == "leaky" else 1.0
    if width < 2 or not 0 < least <= 1 or not 0 < probability < 1:
        raise Refusal(
            f"`weight_scale` needs width >= 2, 0 < slope <= 1 and 0 < probability < 1, got width "
            f"{width}, slope {slope:g}, probability {probability:g}."
        )
    wanted = condition * least
    if not wanted > 1:
        raise Refusal(
            f"`condition` must be above {1 / least:g} for this activation, got {condition:g}: no "
            "weights, however small, do better. Ask for more, or change the activation."
        )
    norm = (wanted - 1) / (wanted + 1)
    if law == "concentration":
        top = 2 * math.sqrt(width) + math.sqrt(2 * math.log(1 / (1 - probability)))
    else:
        top = math.sqrt(singular_edge(width).quantile(probability))
    return WeightScale(norm / top, norm / width, norm, law)


# ------------------------------------------------------------------------------
# One residual layer between activations, measured: the facts of its theorems.


REFUTED = 1e-9  # chance below which the sum of squares of Gaussian weights is not what was found


@dataclass(frozen=True, slots=True, repr=False)
class ResidualLayer(Brief):
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
            Refusal: If the sizes do not fit.
        """
        n = len(W)
        if W.shape != (n, n) or inner.shape != (n,) or outer.shape != (n,):
            raise Refusal(
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
            tails = scipy.stats.chi2.cdf(size, self.n**2), scipy.stats.chi2.sf(size, self.n**2)
            met = False if min(tails) < REFUTED else None
        return Assumption("weights are independent Gaussians of variance 1/(8 n r²)", met)

    @property
    def top(self) -> float:
        """`s₁(W)`."""
        return self.weight.sigma[0].item()

    def slopes_are(self, *allowed: float) -> bool:
        """Whether both activations have these slopes alone."""
        both = torch.cat([self.inner, self.outer])
        return bool(torch.isin(both, torch.tensor(allowed, dtype=both.dtype)).all())

    def condition(self, s: Spectrum) -> Estimate:
        """Largest over smallest of the values that are not zero by construction."""
        last = s.sigma[max(self.rank, 1) - 1].item()
        return ratio(s.sigma[0].item(), last, self.gap, s.how)


# ------------------------------------------------------------------------------
# Bounds with high probability, for Gaussian weights of a residual layer.
#
# `W = σ K`, `K [n, n]` of independent standard Gaussians and `σ = 1 / (r √(8n))` (111); the layer
# after the trained one is `D₁ W + Id`, read through the activation `D`.


THETA = 4.5  # for which `exp(-θ²/2)` is 4e-5


def _theta(n: int) -> float:
    """The smallest θ the theorem admits, with room: the chance of failure is `2 exp(-θ²/2)`."""
    return min(THETA, 2 * math.sqrt(n))


def _between_relus(
    name: str,
    source: str,
    statement: str,
    says: str,
    *,
    needs: str,
    label: str,
    taken: Callable[[ResidualLayer], float],
    top: Callable[[ResidualLayer], float],
    exception: Callable[[ResidualLayer], float],
) -> type[OfFacts]:
    """`2 (1 + top) / (1 - (2 + 2 taken + θ) / r)`, with a chance of failure.

    `taken` is how much the activations take, `top` bounds the norm of the weights, `exception` is
    the chance that they are larger than they should be.
    """

    def room(f: ResidualLayer) -> float:
        return 2 + 2 * taken(f) + _theta(f.n)

    def limit(f: ResidualLayer) -> Estimate:
        below = 1 - room(f) / f.r
        found = 2 * (1 + top(f)) / below if below > 0 else math.inf
        risk = 2 * math.exp(-(_theta(f.n) ** 2) / 2) + exception(f)
        return Estimate(found, found, found, label, risk)

    def assuming(f: ResidualLayer) -> Iterator[Assumption]:
        yield f.gaussian()
        yield Assumption("slopes are 0 or 1", f.slopes_are(0.0, 1.0))
        yield Assumption("some unit is off", sum(f.off) >= 1)
        yield Assumption("m < n and n ≥ 5", f.off[1] < f.n and f.n >= 5)
        yield Assumption(needs, f.r > room(f))

    measured = lambda f: f.condition(f.skipped)
    return row(name, source, statement, says, measured=measured, limit=limit, assuming=assuming)


def _too_large(f: ResidualLayer) -> float:
    return chance_of_norm(f.n, f.r, norm=1 / f.r)


def _by_interlacing(f: ResidualLayer, norm: float, how: str, *, risk: float = 0.0) -> Estimate:
    """`(1 + norm) / (η (1 - norm))`, for every region at once."""
    kept = f.outer.abs()
    least = kept[kept > 0].min().item() if bool((kept > 0).any()) else 1.0
    found = (1 + norm) / (least * (1 - norm)) if norm < 1 else math.inf
    gap = 1e-12 * found * (1 + min(found, 1e9))
    return Estimate(found, found - gap if norm < 1 else found, found + gap, how, risk)


def _drawn_norm(f: ResidualLayer) -> float:
    """What Gaussian weights of this scale exceed with chance `exp(-θ²/2)` at most."""
    return (2 * math.sqrt(f.n) + THETA) * weight_spread(f.n, f.r)


def _piecewise(f: ResidualLayer) -> Iterator[Assumption]:
    """What interlacing needs of the activations."""
    sizes = torch.cat([f.inner, f.outer]).abs()
    kept = f.outer.abs()
    pure = bool(((kept == 0) | (kept == 1)).all()) or bool((kept > 0).all())
    yield Assumption("no slope is larger than 1", bool((sizes <= 1).all()))
    yield Assumption("slopes of the trained layer are 0 or ±1, or none is 0", pure)
    yield Assumption("some unit of the trained layer is on", f.off[1] < f.n)


def _badly_conditioned(f: ResidualLayer) -> Iterator[Assumption]:
    wanted = (1 + f.top) / (1 - f.top) if f.top < 1 else math.inf
    bad = f.top < 1 and f.condition(f.weight).low >= wanted
    yield Assumption("slopes are ±1, as of the absolute value", f.slopes_are(-1.0, 1.0))
    yield Assumption("κ(W) ≥ (1 + s₁) / (1 - s₁) > 0 (152)", bad)


OF_RESIDUAL_LAYERS: tuple[type[OfFacts], ...] = (
    _between_relus(
        "residual-relu",
        f"{SOURCE}, Theorem 39 (128), failing with 2 exp(-θ²/2) + P[s₁(W) ≥ 1/r] as proved",
        "κ((D₁ W + Id) D) ≤ 2 (1 + 1/r) / (1 - (2 + 2ν + θ)/r), θ = 4.5",
        "A residual layer between ReLUs is well conditioned if its weights are small enough.",
        needs="r > 2 + 2ν + θ",
        label="(128)",
        taken=lambda f: f.nu,
        top=lambda f: 1 / f.r,
        exception=_too_large,
    ),
    _between_relus(
        "residual-relu-norm",
        f"{SOURCE}, Theorem 39 (129)",
        "κ((D₁ W + Id) D) ≤ 2 (1 + s₁(W)) / (1 - (r' + r'ν + θ)/r), r' = 2, θ = 4.5",
        "The same with the measured norm of the weights, and r' = 2.",
        needs="r > r' + r'ν + θ",
        label="(129)",
        taken=lambda f: f.nu,
        top=lambda f: f.top,
        exception=lambda f: chance_of_negative(f.n, 2.0),
    ),
    _between_relus(
        "residual-everywhere",
        f"{SOURCE}, Cor. 40 (151), for i ≤ n - m",
        "κ((D₁ W + Id) D) ≤ 2 (1 + 1/r) / (1 - (2 + 2n + θ)/r), θ = 4.5",
        "One bound for all regions of activation, of the singular values that are not zero.",
        needs="r > 2 + 2n + θ",
        label="(151)",
        taken=lambda f: f.n,
        top=lambda f: 1 / f.r,
        exception=_too_large,
    ),
    row(
        "residual-sure",
        f"sharper than {SOURCE}, Theorem 39 and Cor. 40, by their Eq. (23)",
        "κ((D₁ W + Id) D) ≤ (1 + s₁(W)) / (η (1 - s₁(W)))",
        "What the norm of the weights promises, for every region at once.",
        measured=lambda f: f.condition(f.skipped),
        limit=lambda f: _by_interlacing(f, f.top, "exact"),
        assuming=lambda f: [Assumption("s₁(W) < 1", f.top < 1), *_piecewise(f)],
    ),
    row(
        "residual-drawn",
        f"sharper than {SOURCE}, Theorem 39 and Cor. 40: their Eq. (23), and Davidson & Szarek "
        "2001, Theorem II.13",
        "κ((D₁ W + Id) D) ≤ (1 + a/r) / (η (1 - a/r)), a = 1/√2 + θ/√(8n), θ = 4.5",
        "What the scale of the weights promises before they are drawn, for every region at once.",
        measured=lambda f: f.condition(f.skipped),
        limit=lambda f: _by_interlacing(
            f, _drawn_norm(f), "Davidson-Szarek", risk=math.exp(-(THETA**2) / 2)
        ),
        assuming=lambda f: (
            f.gaussian(),
            Assumption("r > 1/√2 + θ/√(8n)", _drawn_norm(f) < 1),
            *_piecewise(f),
        ),
    ),
    row(
        "residual-improves",
        f"{SOURCE}, Theorem 42 (153)",
        "κ((D₁ W + Id) D) ≤ κ(D₁ W D)",
        "A skip connection improves the conditioning of a layer that is badly conditioned enough.",
        measured=lambda f: f.condition(f.skipped),
        limit=lambda f: f.condition(f.plain),
        assuming=_badly_conditioned,
    ),
)
