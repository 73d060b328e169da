"""Sure bounds of the condition number from the size of the weights alone.

`Mo = D_p W_p ... D_1 W_1` with `|W_i[j, k]| ≤ c` and `|D_i| ≤ 1` is bypassed by a skip connection,
`M(1) = Mo + Id`, and read through the activation `D` of the trained layer, `m` of whose `n` units
are on the negative side, where its slope is `η`.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sigmascope.records import Assumption, Estimate, Sense, Spectrum
from sigmascope.theory.bounds import Bound
from sigmascope.theory.riedi2022.intervals import EPS, SOURCE, blur, exact, ratio


@dataclass(frozen=True, slots=True)
class HardBounds:
    """What is known of `κ(M(1) D)` from `c`, `n`, `m` and `η`; infinite where a condition fails.

    Attributes:
        printed: By equation number, as the paper has them.
        sharper: `(101)` with the root that its own proof gives.
        best: By interlacing, `(1 + cn) / (1 - cn)` over `η` for leaky activations: never larger
            than any of the others.
    """

    printed: dict[str, float]
    sharper: float
    best: float


def hard_bounds(c: float, n: int, *, m: int, eta: float) -> HardBounds:
    """Every sure bound of `κ(M(1) D)`.

    Args:
        c: Largest size of a weight.
        n: Width.
        m: Units on the negative side.
        eta: Their slope, in [-1, 1]; the bounds in print are for -1 and for 0 to 1.

    Raises:
        ValueError: If a number is out of range.

    Source:
        Riedi et al. 2022, Theorems 30 to 32; interlacing by their Eq. (23) and Lemma 24.

    Example:
        >>> found = hard_bounds(1 / 24, 8, m=2, eta=0)
        >>> round(found.printed["(90)"], 6), round(found.best, 6)
        (8.0, 2.0)
    """
    if not (c >= 0 and n >= 1 and 0 <= m <= n and -1 <= eta <= 1):
        raise ValueError(
            f"`hard_bounds` needs c >= 0, n >= 1, 0 <= m <= n and -1 <= eta <= 1, got c={c}, n={n},"
            f" m={m}, eta={eta}."
        )
    cn, width = c * n, n
    left = float(1 - Fraction(c) * n)  # 1 - cn, of which rounding would leave nothing near c = 1/n
    small = left > 0
    relu = small and eta == 0 and 1 <= m < n
    leaky = small and 0 <= eta <= 1
    loss = (1 - eta) * m * (3 * c + 1)
    printed = {
        "(88)": _over(cn, left) if small and eta == -1 else math.inf,
        "(89)": _over(cn, _root(1 - 2 * cn * (1 + width))) if relu else math.inf,
        "(90)": _over(cn, left - math.sqrt(m / n)) if relu else math.inf,
        "(91)": _over(cn, _root(1 - 2 * cn * (1 + 2 * m))) if relu else math.inf,
        "(100)": _over(cn, _root(left**2 - 4 * (1 - eta) * math.sqrt(m)))
        if leaky and n >= 5 and eta > 0
        else math.inf,
        "(101)": _over(cn, left - loss) if leaky and eta > 0 else math.inf,
    }
    root = (1 - eta) * math.sqrt(m * (3 * c + 1))
    sharper = _over(cn, left - root) if leaky and eta > 0 else math.inf
    slope = abs(eta) if eta != 0 and m > 0 else 1.0
    best = _over(cn, left) / slope if small and (m < n or eta != 0) else math.inf
    return HardBounds(printed, sharper, best)


def _over(cn: float, below: float) -> float:
    return (1 + cn) / below if below > 0 else math.inf


def _root(x: float) -> float:
    return math.sqrt(x) if x > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Weights:
    """The facts: how large the weights are, and the singular values of what they make.

    Attributes:
        c: Largest size of a weight.
        n: Width.
        m: Units of the trained layer on the negative side.
        eta: Their slope.
        bypassed: Singular values of `Mo`.
        largest_entry: Of `Mo`.
        skipped: Of `M(1)`.
        read: Of `M(1) D`.
        site: Which layers.
    """

    c: float
    n: int
    m: int
    eta: float
    bypassed: Spectrum
    largest_entry: float
    skipped: Spectrum
    read: Spectrum
    site: str = "weights"

    @classmethod
    def of(
        cls,
        weights: Sequence[Float[Tensor, "n n"]],
        slopes: Sequence[Float[Tensor, " n"]],
        *,
        off: Bool[Tensor, " n"],
        eta: float,
        site: str = "weights",
    ) -> "Weights":
        """Multiply layers out.

        Args:
            weights: `W_1` to `W_p`, square, of one size.
            slopes: Diagonals of `D_1` to `D_p`, none above 1 in size.
            off: The units of the trained layer that are on the negative side.
            eta: Their slope.
            site: Which layers.

        Raises:
            ValueError: If the sizes do not fit.
        """
        Ws = [W.detach().double().cpu() for W in weights]
        n = len(off)
        if not Ws or any(W.shape != (n, n) for W in Ws) or len(slopes) != len(Ws):
            raise ValueError(
                f"`weights` must be square matrices of the size {n} of `off`, with one diagonal "
                f"each, got shapes {[tuple(W.shape) for W in Ws]} and {len(slopes)} diagonals."
            )
        Mo = torch.eye(n, dtype=torch.float64)
        for W, d in zip(Ws, slopes, strict=True):
            Mo = d.double()[:, None] * (W @ Mo)
        skipped = Mo + torch.eye(n, dtype=torch.float64)
        D = torch.ones(n, dtype=torch.float64).masked_fill(off, eta)
        return cls(
            max(W.abs().max().item() for W in Ws),
            n,
            int(off.sum()),
            eta,
            exact(Mo),
            Mo.abs().max().item(),
            exact(skipped),
            exact(skipped * D),
            site,
        )

    @property
    def gap(self) -> float:
        """Rounding of a singular value."""
        return blur(self.bypassed, self.skipped, self.read) + 8 * self.n * EPS

    @property
    def bounds(self) -> HardBounds:
        """What the size of the weights promises."""
        return hard_bounds(self.c, self.n, m=self.m, eta=self.eta)


@dataclass(frozen=True, slots=True)
class OfWeights(Bound):
    """A sure bound from the size of the weights."""

    facts: Weights

    @property
    def site(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] (read only)
        """Which layers."""
        return self.facts.site

    def assumptions(self) -> tuple[Assumption, ...]:
        return (Assumption("c < 1/n", Fraction(self.facts.c) * self.facts.n < 1),)


@final
@dataclass(frozen=True, slots=True)
class EntriesNorm(OfWeights):
    """Layers with small entries, multiplied, have a small norm."""

    name: ClassVar[str] = "entries-norm"
    source: ClassVar[str] = f"{SOURCE}, Lemmas 27 and 28 (85)"
    statement: ClassVar[str] = "s₁(Mo) ≤ c n"

    def measured(self) -> Estimate:
        return Estimate.within(self.facts.bypassed.sigma[0].item(), self.facts.gap)

    def limit(self) -> Estimate:
        return Estimate.rounded(self.facts.c * self.facts.n, ulps=8 * self.facts.n)


@final
@dataclass(frozen=True, slots=True)
class EntriesProduct(OfWeights):
    """Layers with small entries, multiplied, have small entries."""

    name: ClassVar[str] = "entries-product"
    source: ClassVar[str] = f"{SOURCE}, Lemma 28"
    statement: ClassVar[str] = "max |Mo[j, k]| ≤ c"

    def measured(self) -> Estimate:
        return Estimate.rounded(self.facts.largest_entry, ulps=8 * self.facts.n)

    def limit(self) -> Estimate:
        return Estimate.rounded(self.facts.c, ulps=8 * self.facts.n)


@final
@dataclass(frozen=True, slots=True)
class EntriesSkip(OfWeights):
    """With a skip connection, every singular value is near one."""

    name: ClassVar[str] = "entries-skip"
    source: ClassVar[str] = f"{SOURCE}, Lemma 29 (86)"
    statement: ClassVar[str] = "max_i |sᵢ(M(1)) - 1| ≤ c n"

    def measured(self) -> Estimate:
        return Estimate.within((self.facts.skipped.sigma - 1).abs().max().item(), self.facts.gap)

    def limit(self) -> Estimate:
        return Estimate.rounded(self.facts.c * self.facts.n, ulps=8 * self.facts.n)


@dataclass(frozen=True, slots=True)
class _Condition(OfWeights):
    """A bound of the condition number of `M(1) D`."""

    sense: ClassVar[Sense] = "at most"

    def measured(self) -> Estimate:
        rank = self.facts.n - (self.facts.m if self.facts.eta == 0 else 0)
        s, gap = self.facts.read.sigma, self.facts.gap
        if rank == 0:
            return Estimate.exactly(math.inf, how="no unit is on")
        return ratio(s[0].item(), s[rank - 1].item(), gap)

    def limit(self) -> Estimate:
        found = self._bound(self.facts.bounds)
        return Estimate.within(found, 1e-12 * found * (1 + min(found, 1e9) ** 2))

    def assumptions(self) -> tuple[Assumption, ...]:
        says, met = self._condition()
        return (*super(_Condition, self).assumptions(), Assumption(says, met))

    @abstractmethod
    def _bound(self, bounds: HardBounds) -> float: ...

    @abstractmethod
    def _condition(self) -> tuple[str, bool]: ...


@final
@dataclass(frozen=True, slots=True)
class HardAbsolute(_Condition):
    """The absolute value keeps the condition number that the skip connection gives."""

    name: ClassVar[str] = "hard-absolute"
    source: ClassVar[str] = f"{SOURCE}, Theorem 30 (88), Lemma 29 (87)"
    statement: ClassVar[str] = "κ(M(1) D) ≤ (1 + cn) / (1 - cn)"

    def _bound(self, bounds: HardBounds) -> float:
        return bounds.printed["(88)"]

    def _condition(self) -> tuple[str, bool]:
        return "the activation is the absolute value", self.facts.eta == -1


@dataclass(frozen=True, slots=True)
class _HardReLU(_Condition):
    equation: ClassVar[str]

    def _bound(self, bounds: HardBounds) -> float:
        return bounds.printed[self.equation]

    def _condition(self) -> tuple[str, bool]:
        says = f"ReLU with 1 ≤ m < n units off, and the condition of {self.equation}"
        return says, math.isfinite(self.facts.bounds.printed[self.equation])


@final
@dataclass(frozen=True, slots=True)
class HardReLUAny(_HardReLU):
    """ReLU, however many units are off."""

    name: ClassVar[str] = "hard-relu-any"
    source: ClassVar[str] = f"{SOURCE}, Theorem 31 (89)"
    statement: ClassVar[str] = "κ(M(1) D) ≤ (1 + cn) / √(1 - 2cn(1 + n))"
    equation: ClassVar[str] = "(89)"


@final
@dataclass(frozen=True, slots=True)
class HardReLUShare(_HardReLU):
    """ReLU, from the share of units that are off."""

    name: ClassVar[str] = "hard-relu-share"
    source: ClassVar[str] = f"{SOURCE}, Theorem 31 (90), m < n(1 - cn)² alone"
    statement: ClassVar[str] = "κ(M(1) D) ≤ (1 + cn) / (1 - cn - √(m/n))"
    equation: ClassVar[str] = "(90)"


@final
@dataclass(frozen=True, slots=True)
class HardReLUCount(_HardReLU):
    """ReLU, from the number of units that are off."""

    name: ClassVar[str] = "hard-relu-count"
    source: ClassVar[str] = f"{SOURCE}, Theorem 31 (91)"
    statement: ClassVar[str] = "κ(M(1) D) ≤ (1 + cn) / √(1 - 2cn(1 + 2m))"
    equation: ClassVar[str] = "(91)"


@final
@dataclass(frozen=True, slots=True)
class HardLeakySquares(_HardReLU):
    """Leaky ReLU, by the squares of the singular values."""

    name: ClassVar[str] = "hard-leaky-squares"
    source: ClassVar[str] = f"{SOURCE}, Theorem 32 (100)"
    statement: ClassVar[str] = "κ(M(1) D) ≤ (1 + cn) / √((1 - cn)² - 4(1 - η)√m)"
    equation: ClassVar[str] = "(100)"

    def _condition(self) -> tuple[str, bool]:
        met = math.isfinite(self.facts.bounds.printed[self.equation])
        return "leaky ReLU, n ≥ 5 and the condition of (100)", met


@final
@dataclass(frozen=True, slots=True)
class HardLeaky(_Condition):
    """Leaky ReLU, by the singular values; with the root that the printed proof gives."""

    name: ClassVar[str] = "hard-leaky"
    source: ClassVar[str] = f"{SOURCE}, Theorem 32 (101), with √(m(3c + 1)) as in its proof"
    statement: ClassVar[str] = "κ(M(1) D) ≤ (1 + cn) / (1 - cn - (1 - η)√(m(3c + 1)))"

    def _bound(self, bounds: HardBounds) -> float:
        return bounds.sharper

    def _condition(self) -> tuple[str, bool]:
        return "leaky ReLU, 1 - cn > (1 - η)√(m(3c + 1))", math.isfinite(self.facts.bounds.sharper)


@final
@dataclass(frozen=True, slots=True)
class HardAny(_Condition):
    """By interlacing: any activation with slopes 1 and η."""

    name: ClassVar[str] = "hard-any"
    source: ClassVar[str] = f"sharper than {SOURCE}, Theorems 31 and 32, by their Eq. (23)"
    statement: ClassVar[str] = "κ(M(1) D) ≤ (1 + cn) / (1 - cn), over |η| where η ≠ 0"

    def _bound(self, bounds: HardBounds) -> float:
        return bounds.best

    def _condition(self) -> tuple[str, bool]:
        return "some unit is on", self.facts.m < self.facts.n or self.facts.eta != 0


OF_WEIGHTS: tuple[type[OfWeights], ...] = (
    EntriesNorm,
    EntriesProduct,
    EntriesSkip,
    HardAbsolute,
    HardReLUAny,
    HardReLUShare,
    HardReLUCount,
    HardLeakySquares,
    HardLeaky,
    HardAny,
)
