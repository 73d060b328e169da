"""Laws of the singular values of large random matrices."""

import math
from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.random_matrix.tracy_widom import TracyWidom
from sigmascope.linalg.refusals import require_between, require_positive, require_probability


@dataclass(frozen=True, slots=True)
class EdgeLaw:
    """The Tracy-Widom law, moved and stretched to a matrix of finite size.

    Attributes:
        centre: Where 0 goes.
        scale: Where 1 goes, less the centre.
    """

    centre: float
    scale: float

    @property
    def mean(self) -> float:
        """The mean of the law."""
        return self.centre + self.scale * TracyWidom().mean

    def cdf(self, x: float) -> float:
        """The chance of at most `x`."""
        return TracyWidom().cdf((x - self.centre) / self.scale)

    def tail(self, x: float) -> float:
        """The chance of more than `x`."""
        return TracyWidom().tail((x - self.centre) / self.scale)

    def pdf(self, x: float) -> float:
        """The density at `x`."""
        return TracyWidom().pdf((x - self.centre) / self.scale) / self.scale

    def quantile(self, p: float) -> float:
        """The value that is exceeded with chance `1 - p`."""
        return self.centre + self.scale * TracyWidom().quantile(p)


def symmetric_edge(n: int) -> EdgeLaw:
    """The law of the largest eigenvalue of `K + Kᵀ`, `K` with independent standard Gaussians.

    Args:
        n: Rows of `K`; from 5 on the law is right to about 1 % of its spread.

    Source:
        Tracy & Widom 1996. `K + Kᵀ` is √2 times the Gaussian orthogonal ensemble, so that Riedi et
        al. 2022, Eq. (107), tends to √2 times the standard law. Centre and scale at finite size
        `√(8n - 4)` and `√2 (n - 1/2)^(-1/6)`.
    """
    _require_size(n, least=2)
    return EdgeLaw(math.sqrt(8 * n - 4), math.sqrt(2) * (n - 0.5) ** (-1 / 6))


def singular_edge(n: int) -> EdgeLaw:
    """The law of the square of the largest singular value of `n x n` standard Gaussians.

    Args:
        n: Rows and columns.

    Source:
        Johnstone 2001; Riedi et al. 2022, Eq. (110).
    """
    _require_size(n, least=2)
    roots = math.sqrt(n - 1), math.sqrt(n)
    scale = sum(roots) * (1 / roots[0] + 1 / roots[1]) ** (1 / 3)
    return EdgeLaw(sum(roots) ** 2, scale)


@dataclass(frozen=True, slots=True)
class EdelmanCondition:
    """The limit law of `κ / n`, the condition number of `n x n` independent Gaussians over `n`.

    Source:
        Edelman 1988, Theorem 6.1: `P(κ / n ≤ t) → exp(-2/t - 2/t²)`.
    """

    def cdf(self, t: float) -> float:
        """The chance of at most `t`."""
        return math.exp(-2 / t - 2 / t**2) if t > 0 else 0.0

    def pdf(self, t: float) -> float:
        """The density at `t`; its tail falls like `2/t²`, so that there is no mean."""
        return (2 * t + 4) / t**3 * self.cdf(t) if t > 1e-3 else 0.0

    def quantile(self, p: float) -> float:
        """The value that is exceeded with chance `1 - p`."""
        require_probability(p, name="p")
        return 2 / (math.sqrt(1 - 2 * math.log(p)) - 1)


@dataclass(frozen=True, slots=True)
class MarchenkoPastur:
    """The limit law of the eigenvalues of `X Xᵀ / n`, `X` of `m x n` independent entries.

    Attributes:
        ratio: `m / n`.
        variance: Of the entries.

    Source:
        Marchenko & Pastur 1967.
    """

    ratio: float
    variance: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self.ratio, name="ratio", instead="It is rows over columns.")
        require_positive(self.variance, name="variance", instead="It is that of the entries.")

    @property
    def support(self) -> tuple[float, float]:
        """The ends of the continuous part, `variance (1 ∓ √ratio)²`."""
        root = math.sqrt(self.ratio)
        return self.variance * (1 - root) ** 2, self.variance * (1 + root) ** 2

    @property
    def at_zero(self) -> float:
        """The share of eigenvalues that are 0: `1 - 1/ratio` where there are more rows."""
        return max(0.0, 1 - 1 / self.ratio)

    def pdf(self, x: float) -> float:
        """The density of the continuous part at `x`."""
        low, high = self.support
        if not low < x < high:
            return 0.0
        root = math.sqrt((x - low) * (high - x))
        return root / (2 * math.pi * self.ratio * self.variance * x)

    def cdf(self, x: float) -> float:
        """The chance of at most `x`."""
        low, high = self.support
        if x < 0:
            return 0.0
        if x <= low:
            return self.at_zero
        return 1.0 if x >= high else self._inside(x / self.variance)

    def _inside(self, x: float) -> float:
        c = self.ratio
        low, high = (1 - math.sqrt(c)) ** 2, (1 + math.sqrt(c)) ** 2
        r = math.sqrt((high - x) / (x - low))
        total = math.pi * c + math.sqrt((high - x) * (x - low))
        total -= (1 + c) * math.atan((r * r - 1) / (2 * r))
        if c != 1:
            total += (1 - c) * math.atan((low * r * r - high) / (2 * (1 - c) * r))
        found = total / (2 * math.pi * c)
        # for more rows than columns the last term jumps by the other half of the mass at zero
        return found if c <= 1 else found + self.at_zero / 2

    def quantile(self, p: float) -> float:
        """The least value that is exceeded with chance `1 - p` at most."""
        require_probability(p, name="p")
        low, high = self.support
        if p <= self.at_zero:
            return 0.0
        found = scipy.optimize.brentq(lambda x: self.cdf(x) - p, low, high, xtol=1e-14 * high)
        return float(found)  # pyright: ignore[reportArgumentType] (a number without full_output)

    def distance(self, lam: Float[Tensor, " m"]) -> float:
        """Largest gap between the law and the share of `lam` up to each value (Kolmogorov).

        Args:
            lam: Eigenvalues of `X Xᵀ / n`, squares of singular values over `n`.
        """
        lam = lam.detach().double().cpu()
        lam = torch.where(lam <= 64 * 2.0**-52 * lam.max(), 0.0, lam)
        values, counts = lam.unique(return_counts=True)
        shares = (counts.cumsum(0) / len(lam)).tolist()
        gap, below = 0.0, 0.0
        for x, share in zip(values.tolist(), shares, strict=True):
            law = self.cdf(x)
            before = law if x > 0 else 0.0  # the law jumps at 0 alone
            gap = max(gap, abs(share - law), abs(below - before))
            below = share
        return gap


def shifted_limits(spread: float) -> tuple[float, float]:
    """Largest and smallest singular value of `Id + W` in the limit of large width.

    Args:
        spread: `√n` times the standard deviation of the independent entries of `W [n, n]`, in
            `[0, 1)`; from 1 on the smallest value tends to 0.

    Returns:
        `(s_1, s_n)`; their ratio is the condition number of a residual layer at the start.

    Source:
        The stationary points of `z(u) = 1/u² - s²/(u (u - 1))`, ends of the spectrum of
        information-plus-noise matrices (Dozier & Silverstein 2007). Riedi et al. 2022 bound the
        same ratio by Eqs. (121) and (122).

    Example:
        >>> top, bottom = shifted_limits(1 / (2 * 8**0.5))
        >>> round(top / bottom, 4)
        1.658
    """
    require_between(spread, 0.0, 1.0, name="spread", instead="Scale the weights down.")
    if spread == 0:
        return 1.0, 1.0
    s_sq = spread**2
    root = spread * math.sqrt(8 + s_sq)

    def end(sign: int) -> float:
        u = (4 - s_sq + sign * root) / (4 * (1 - s_sq))
        return math.sqrt(1 / u**2 - s_sq / (u * (u - 1)))

    return end(-1), end(1)


def _require_size(n: int, *, least: int) -> None:
    if n < least:
        raise ValueError(f"`n` must be {least} or more, got {n}. It is the size of the matrix.")
