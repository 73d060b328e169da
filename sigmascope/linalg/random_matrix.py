"""Laws of large random matrices."""

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial

import numpy as np
import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Spectrum
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.krylov.operators import WORKING, energy_of
from sigmascope.linalg.krylov.singular_values import BLOCK, largest, leading, short_of
from sigmascope.linalg.refusals import require_between, require_positive, require_probability

__all__ = [
    "FALSE_ALARMS",
    "EdelmanCondition",
    "EdgeLaw",
    "MarchenkoPastur",
    "Noise",
    "PowerLaw",
    "RandomSigns",
    "TracyWidom",
    "has_spikes",
    "noise",
    "power_law",
    "shifted_limits",
    "singular_edge",
    "symmetric_edge",
    "wishart_edge",
]

# ------------------------------------------------------------------------------
# The Tracy-Widom law of order 1: how the top of a random spectrum fluctuates.


LEFT, RIGHT = -13.0, 16.0  # beyond these, less than 1e-20 is left of either tail
REACH = 14.0  # Ai is below 1e-15 there


@dataclass(frozen=True, slots=True)
class TracyWidom:
    """The limit law of the largest eigenvalue of real symmetric random matrices, standardised.

    `F(x) = det(1 - B)` with the kernel `Ai(s + t + x)` on the half-line, discretised by
    Gauss-Legendre quadrature; the error is below 1e-13 in absolute value.

    Source:
        Tracy & Widom 1996; Ferrari & Spohn 2005 for the determinant; Bornemann 2010 for the method.

    Example:
        >>> round(TracyWidom().cdf(0.9793), 4), round(TracyWidom().cdf(2.0234), 4)
        (0.95, 0.99)
    """

    @property
    def mean(self) -> float:
        """Its mean, to 13 digits (Bornemann 2010, Table 10)."""
        return -1.2065335745820

    @property
    def std(self) -> float:
        """Its standard deviation, from the variance to 13 digits (Bornemann 2010, Table 10)."""
        return math.sqrt(1.607781034581)

    def cdf(self, x: float) -> float:
        """The chance of at most `x`."""
        return math.exp(_log_cdf(x)) if x > LEFT else 0.0

    def tail(self, x: float) -> float:
        """The chance of more than `x`, to full relative precision as long as it is above 1e-14."""
        return -math.expm1(_log_cdf(x)) if x > LEFT else 1.0

    def pdf(self, x: float) -> float:
        """The density at `x`: `-F(x) Tr((1 - B)⁻¹ dB/dx)`."""
        if not LEFT < x < RIGHT:
            return 0.0
        B, slope = _kernels(x)
        inverse_times = np.linalg.solve(np.eye(len(B)) - B, slope)
        return max(0.0, -math.exp(_log_cdf(x)) * float(np.trace(inverse_times)))

    def quantile(self, p: float) -> float:
        """The value that is exceeded with chance `1 - p`.

        Raises:
            Refusal: If `p` is not between 0 and 1.
        """
        require_probability(p)
        found = scipy.optimize.brentq(lambda x: self.cdf(x) - p, LEFT, RIGHT, xtol=1e-13)
        return float(found)  # pyright: ignore[reportArgumentType] (a number without full_output)


def _log_cdf(x: float) -> float:
    if x >= RIGHT:
        return 0.0
    lam = np.linalg.eigvalsh(_kernels(x)[0])
    return float(np.log1p(-np.minimum(lam, 1 - 2.0**-53)).sum())


def _kernels(x: float) -> tuple[np.ndarray, np.ndarray]:
    """The kernel at `x` and its derivative, weighted by the quadrature."""
    nodes, weights = _rule(math.ceil(max(0.0, -x)))
    Ai, slope, _, _ = scipy.special.airy(nodes[:, None] + nodes + x)
    roots = np.sqrt(weights)
    return roots[:, None] * Ai * roots, roots[:, None] * slope * roots


@lru_cache(maxsize=32)
def _rule(left: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on the stretch where `Ai(t - left)` is not negligible."""
    nodes, weights = np.polynomial.legendre.leggauss(48 + 4 * left)
    length = REACH + left
    return length * (nodes + 1) / 2, length * weights / 2


# ------------------------------------------------------------------------------
# Laws of the singular values of large random matrices.


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
    _require_size(n)
    return EdgeLaw(math.sqrt(8 * n - 4), math.sqrt(2) * (n - 0.5) ** (-1 / 6))


def singular_edge(n: int) -> EdgeLaw:
    """The law of the square of the largest singular value of `n x n` standard Gaussians.

    Args:
        n: Rows and columns.

    Source:
        Johnstone 2001; Riedi et al. 2022, Eq. (110).
    """
    _require_size(n)
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
        require_probability(p)
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
        if x >= high:
            return 1.0
        c, x = self.ratio, x / self.variance
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
        require_probability(p)
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
        lam = torch.where(lam <= 64 * EPS * lam.max(), 0.0, lam)
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


def _require_size(n: int) -> None:
    if n < 2:
        raise Refusal(f"`n` must be 2 or more, got {n}. It is the size of the matrix.")


# ------------------------------------------------------------------------------
# What energy a spectrum has left without its first values, in spite of rounding.


@dataclass(frozen=True)
class Left:
    """Energy that is left without the first k values: of a spectrum that is not whole, at most.

    Attributes:
        s: The spectrum.
        known: Without how many values what is left was added up entry by entry; taking squares of
            computed values off a sum leaves what rounding left of them.
        energy: What that came to.
    """

    s: Spectrum
    known: int
    energy: float

    def without(self, k: int) -> float:
        """Without the first k."""
        if self.s.complete:  # from the smallest on, so that nothing cancels
            return self._tails[k] if k < len(self.s.sigma) else 0.0
        return max(self.energy - float(self.s.low[self.known : k].square().sum()), 0.0)

    def sharp(self, k: int) -> bool:
        """Whether that is known to a hundredth, in spite of what rounding took from the values."""
        if self.s.complete:
            return True
        sigma, low = (end[self.known : k].square().sum() for end in (self.s.sigma, self.s.low))
        return float(sigma - low) <= 0.01 * self.without(k)

    @cached_property
    def _tails(self) -> list[float]:
        return self.s.sigma.square().flip(0).cumsum(0).flip(0).tolist()


# ------------------------------------------------------------------------------
# The same entries with random signs: what a matrix would be if only its magnitudes were meant.


PANEL = 2**18  # entries whose signs are drawn at a time
MOST = 96  # directions that are taken off before signs are drawn again
FINE = 24  # steps, with which the largest value is right to some thousandths
COARSE = 14  # the same to a hundredth and a half
BEFORE = 6  # steps of a block to which those for more directions are added
AGREES = 1.05  # times the value of Gaussians
EVEN = 1.03  # norms of the longest row and column, over those of equal ones
LIGHT = 7.0  # largest entry over their root mean square, beyond what Gaussians of any size have


def wishart_edge(m: int, n: int) -> EdgeLaw:
    """The law of the square of the largest singular value of `m x n` standard Gaussians.

    Args:
        m: Rows.
        n: Columns; the law is right to some per cent of its spread from 8 by 8 on.

    Source:
        Johnstone 2001, with the centre and scale of second order of Ma 2012, Theorem 2.
    """
    long, short = math.sqrt(max(m, n) - 0.5), math.sqrt(min(m, n) - 0.5)
    return EdgeLaw((long + short) ** 2, (long + short) * (1 / long + 1 / short) ** (1 / 3))


class RandomSigns:
    """Largest singular values of a matrix whose entries take random signs, drawn as asked.

    If the entries were independent and symmetric about zero, any draw would be as likely as the
    matrix itself: what draws do not reach is no noise, whatever the magnitudes, be they sparse,
    heavy-tailed or larger in some rows.

    Args:
        A: The matrix.
        rms: Root mean square of its entries, positive.
        longest: Norms of its longest row and column, if known. Where they are near those of equal
            ones and no entry sticks out, no draw is needed.
        largest: Its largest absolute entry, if known.
        generator: Source of the signs.

    Source:
        Hong, Sheng & Dobriban 2020, signflip parallel analysis; Bandeira & van Handel 2016,
        Theorem 1.1, for the norms of rows and columns.
    """

    def __init__(
        self,
        A: Float[Tensor, "m n"],
        *,
        rms: float,
        longest: tuple[float, float] | None = None,
        largest: float = math.inf,
        generator: torch.Generator | None,
    ) -> None:
        m, n = A.shape
        self.A, self.rms, self.generator = A, rms, generator
        self.spare = False  # whether its entries may be turned in place: nobody else has them
        self.expected = rms * math.sqrt(wishart_edge(m, n).mean)
        equal = rms * (math.sqrt(n) + math.sqrt(m))
        even = longest is not None and sum(longest) <= EVEN * equal
        self.plain = even and largest <= LIGHT * rms

    @property
    def energy(self) -> float:
        """Sum of the squared entries."""
        return self.rms**2 * self.A.numel()

    @cached_property
    def baseline(self) -> Estimate:
        """The largest singular value of one draw; of Gaussians where the entries are like them."""
        if self.plain:
            return Estimate.within(self.expected, 0.03 * self.expected, how="as of Gaussians")
        found = self._draw(COARSE)
        return Estimate(found, found, short_of(COARSE) * found, f"random signs, {COARSE} steps")

    @property
    def excess(self) -> float:
        """The same over that of Gaussians of this size; 1 where they agree."""
        if self.plain or self.expected == 0:
            return 1.0
        ratio = self.baseline.high / self.expected
        return 1.0 if ratio <= AGREES else ratio

    def sure_excess(self) -> float:
        """The same of four draws, plus the range between them, which noise seldom exceeds."""
        found = [self._draw(FINE) / self.expected for _ in range(4)]
        return max(1.0, 2 * max(found) - min(found))

    def without(self, count: int) -> "RandomSigns":
        """Those of what is left of the matrix without its leading directions, a hundred at most."""
        count = min(count, MOST)
        steps = BEFORE + count // BLOCK
        found = leading(self.A, count=count, energy=math.inf, steps=steps, generator=self.generator)
        rest = self.A.to(found.right.dtype, copy=True)
        rest.addmm_(rest @ found.right, found.right.mT, alpha=-1)
        rms = math.sqrt(float(energy_of(rest)) / rest.numel())
        left = RandomSigns(rest, rms=rms, generator=self.generator)
        left.spare = True
        return left

    def _draw(self, steps: int) -> float:
        return largest(self._flipped(), steps=steps, generator=self.generator)

    def _flipped(self) -> Float[Tensor, "m n"]:
        """The entries with signs from the bits of random bytes, a sign for each."""
        n = self.A.shape[1]
        flipped = self.A.to(WORKING.get(self.A.dtype, torch.float32), copy=not self.spare)
        for panel in flipped.split(max(1, PANEL // n)):
            count = panel.numel()
            drawn = torch.randint(256, (-(-count // 8),), generator=self.generator)
            bits = np.unpackbits(drawn.numpy().astype(np.uint8))[:count]
            panel.mul_(torch.from_numpy(bits.view(np.int8) * 2 - 1).view_as(panel))
        return flipped


# ------------------------------------------------------------------------------
# What of a spectrum is noise: its level, its edge, and what sticks out.
#
# The idea: take off the largest values one by one, as long as each is larger than noise of what is
# left would have it with a chance of some thousandths. The invariant: the first step alone decides
# whether anything is flagged, so that its chance is the rate of false alarms of the whole; the
# later steps are made on what is left of matrix, energy and entries after the values before them.


FALSE_ALARMS = 0.01  # what is promised of pure noise; the quantile leaves room for its finite size
QUANTILE = 0.998
FEWEST = 8  # of the smaller side: below, there is no bulk to speak of
ROUNDS = 4  # of taking off what surely sticks out and drawing signs for the rest
SUMMED = 1 + 1e-5  # times what single precision leaves: more than its rounding takes from the sum
CLEAR = 1.5  # times the edge: no noise whose signs were drawn once comes near


@dataclass(frozen=True, slots=True)
class Noise:
    """What of a matrix is noise.

    Attributes:
        level: Standard deviation of the entries of what is left without the spikes.
        edge: The largest singular value that noise of this level has, in the unit of the entries.
        spikes: How many singular values are larger.
        energy: Their share of the squared norm.
        distance: Between the bulk and the law of Marchenko and Pastur (Kolmogorov); None where the
            bulk is not known.
        baseline: Largest singular value of the same entries with random signs.
        whole: Whether a bulk is left: fewer than half of the values are spikes.
    """

    level: Estimate
    edge: Estimate
    spikes: Estimate
    energy: Estimate
    distance: Estimate | None
    baseline: Estimate
    whole: bool


def noise(s: Spectrum, *, energy: Estimate, signs: RandomSigns) -> Noise:
    """Level and edge of the noise in a matrix, and the spikes above it.

    Of independent entries, of any law that is symmetric about zero or has light tails, something is
    flagged with a chance of a hundredth at most.

    Args:
        s: Its singular values, all or the leading ones.
        energy: `‖A‖_F²`.
        signs: Of the matrix.

    Raises:
        Refusal: If the smaller side is below 8, or the matrix is zero.

    Source:
        Johnstone 2001; Ma 2012; Hong, Sheng & Dobriban 2020.
    """
    left, found, excess = _found(s, energy, signs)
    count, level, edge = found
    how = f"{s.how}, Tracy-Widom {QUANTILE:g}"
    how += f" x {excess:.3g} for the entries" if excess > 1 else ""
    if s.complete:
        rest = float(s.low[count:].square().sum()), float(s.high[count:].square().sum())
    else:
        rest = energy.low - float(s.high[:count].square().sum()), left.without(count)
    entries = (s.shape[0] - count) * (s.shape[1] - count)
    low, high = (math.sqrt(max(end, 0.0) / entries) for end in rest)
    whole = count < min(s.shape) // 2
    ends = [float(end[:count].square().sum()) for end in (s.low, s.sigma, s.high)]
    value = min(ends[1] / energy.value, 1.0)
    least, most = ends[0] / energy.high, ends[2] / energy.low
    share = Estimate(value, min(least, value), max(min(most, 1.0), value), s.how, s.risk)
    # spikes, from those that surely exceed the edge to those that may; of unknown values their
    # energy tells
    known = how
    fewest, most = int((s.low > edge).sum()), int((s.high > edge).sum())
    if not s.complete:
        unknown = rest[1] / edge / edge if edge > 0 else math.inf
        most = int(min(float(min(s.shape)), count + max(unknown, 0.0)))
        known += f", of {len(s.sigma)} leading values" + (" all" if count == len(s.sigma) else "")
    spikes = float(count), float(min(fewest, count)), float(max(most, count))
    # of the bulk, from the law of its own level; rounding moves it by a step of it
    distance = None
    if s.complete and whole and level > 0:
        short, long = sorted((s.shape[0] - count, s.shape[1] - count))
        bulk: Float64[Tensor, " r"] = (s.sigma[count:] / (level * math.sqrt(long))).square()
        value, step = MarchenkoPastur(short / long).distance(bulk[:short]), 1 / short
        distance = Estimate(value, max(value - step, 0.0), min(value + step, 1.0), s.how)
    return Noise(
        Estimate(level, min(low, level), max(high, level), s.how, s.risk),
        Estimate.exactly(edge, how=how),
        Estimate(*spikes, known, s.risk),
        share,
        distance,
        signs.baseline,
        whole,
    )


def has_spikes(s: Spectrum, count: int, *, energy: Estimate, signs: RandomSigns) -> bool:
    """Whether so many singular values stick out of the noise: `noise(...).spikes` is that large.

    Signs are drawn only until that is known, in the order of `noise`.

    Args:
        s: Its singular values, all or the leading ones.
        count: Of spikes.
        energy: `‖A‖_F²`.
        signs: Of the matrix, from which nothing was drawn yet.

    Raises:
        Refusal: As of `noise`.

    Source:
        Johnstone 2001; Ma 2012; Hong, Sheng & Dobriban 2020.
    """
    return _found(s, energy, signs, count)[1][0] >= count


def _found(
    s: Spectrum, energy: Estimate, signs: RandomSigns, enough: float = math.inf
) -> tuple[Left, tuple[int, float, float], float]:
    """What is left, how many stick out of it with level and edge, and the excess of the signs.

    Args:
        s: Singular values.
        energy: Of the matrix.
        signs: Of it.
        enough: Spikes, of which no more are counted where there are as many.
    """
    if min(s.shape) < FEWEST or energy.value <= 0:
        raise Refusal(
            f"A non-zero matrix of at least {FEWEST} rows and columns was expected, got "
            f"{tuple(s.shape)} with squared norm {energy.value:g}: it has no bulk of noise."
        )
    left = Left(s, 0, energy.high)
    found, excess, start = _peeled(s, left, 1.0), 1.0, 0
    for _ in range(ROUNDS if found[0] else 0):
        rest = signs.without(start) if start else signs
        if start and not s.complete:
            left = Left(s, min(start, MOST), rest.energy * SUMMED)
        # how many values stick out, and by how much random signs exceed Gaussians; the first
        # `start` do, and are not among the entries that have the signs
        excess = rest.excess
        found = _peeled(s, left, excess, start)
        if found[0] > start and float(s.sigma[start]) < CLEAR * found[2]:
            excess = max(excess, rest.sure_excess())  # noise may look like this: ask more
            found = _peeled(s, left, excess, start)
        del rest  # as large as the matrix: the next is made without it
        if found[0] == start or (excess == 1 and left.sharp(found[0])):
            break
        # How many stick out even if what exceeds Gaussians is all in the rest; one more at least.
        # Spikes that are spread evenly add to the entries what Gaussians would: the signs of the
        # whole then exceed Gaussians by less than those of the noise in it. The squares of edges
        # add up.
        whole, start = left.without(start), start + 1
        while start < min(len(s.sigma), min(s.shape) // 2) and float(s.low[start]) > 0:
            beyond = left.without(start)
            own = (excess**2 - 1) * whole / beyond if beyond > 0 else 0.0
            if float(s.sigma[start]) <= _edge(s.shape, start, beyond, math.sqrt(1 + own))[1]:
                break
            start += 1
        if start >= enough:  # what follows counts these as well
            break
    return left, found, excess


@cache
def _quantile() -> float:
    return TracyWidom().quantile(QUANTILE)


def _peeled(s: Spectrum, left: Left, excess: float, start: int = 0) -> tuple[int, float, float]:
    """How many values stick out, `start` at least, and level and edge of what is left."""
    last = min(len(s.sigma), min(s.shape) // 2)
    k, (level, edge) = start, _edge(s.shape, start, left.without(start), excess)
    while k < last and float(s.low[k]) > 0 and float(s.sigma[k]) > edge:
        k += 1
        level, edge = _edge(s.shape, k, left.without(k), excess)
    return k, level, edge


def _edge(shape: tuple[int, int], k: int, rest: float, excess: float) -> tuple[float, float]:
    m, n = shape[0] - k, shape[1] - k
    level = math.sqrt(rest / (m * n))
    law = wishart_edge(m, n)
    return level, level * excess * math.sqrt(law.centre + law.scale * _quantile())


# ------------------------------------------------------------------------------
# Whether the tail of a spectrum is a power law, with which exponent, and how sure that is.
#
# The idea: the threshold at which the tail begins is the one from which on a power law fits best;
# how well it fits is judged against samples that are power laws beyond it, each fitted in the same
# way, threshold included. The invariant: data and samples pass the same function, so that the
# p-value knows of every freedom that the fit has.


SAMPLES = 100
REJECTED = 0.1  # below this p-value (Clauset, Shalizi & Newman 2009, section 4)
THRESHOLDS = 32  # candidates, spread evenly over the logarithm of the length of the tail
SHORTEST = 25  # values in a tail
FEWEST_VALUES = 50  # values in all
SPAN = 10.0  # largest over smallest of the tail, below which nothing tells a power law apart
RISK = 0.05


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """A fit of `p(x) ∝ x^-α` from a threshold on.

    Attributes:
        exponent: `α`, given the threshold.
        threshold: Where the tail begins.
        tail: How many values are in it.
        distance: Between the tail and the law (Kolmogorov).
        p: Chance that samples of the law lie farther from their own fit; None where the span of the
            tail refuses the fit before any is drawn.
        refused: Why no exponent should be read off; empty where it may.
    """

    exponent: Estimate
    threshold: float
    tail: int
    distance: float
    p: Estimate | None
    refused: str


def power_law(
    values: Float64[Tensor, " n"], *, generator: torch.Generator | None = None
) -> PowerLaw | None:
    """The power law that the tail of positive values follows best, and whether it does.

    Args:
        values: Squared singular values; zeros are left out.
        generator: Source of the samples for the p-value.

    Returns:
        The fit; None for fewer than 50 positive values, of which no fit means anything.

    Source:
        Clauset, Shalizi & Newman 2009, Eq. (3.1) and sections 3.3 and 4.1. The interval is the
        wider of that of the gamma law, which the sum of logarithms has beyond a fixed threshold,
        and of that of the samples, each with a threshold of its own.

    Cost: one fit; a hundred more of as many values, in one go, where the tail is wide enough.

    Example:
        >>> u = (torch.arange(400, dtype=torch.float64) + 0.5) / 400
        >>> fit = power_law(u ** (-1 / 1.5), generator=torch.Generator().manual_seed(0))
        >>> round(fit.exponent.value, 1), fit.refused
        (2.5, '')
    """
    x = values[values > 0].sort(descending=True).values
    if len(x) < FEWEST_VALUES:
        return None
    exponents, tails, distances = _fit(x.log()[None])
    exponent, tail, distance = float(exponents[0]), int(tails[0]), float(distances[0])
    span = float(x[0] / x[tail - 1])
    told = partial(PowerLaw, threshold=float(x[tail - 1]), tail=tail, distance=distance)
    if span < SPAN:  # whatever samples of the law would say
        why = f"its tail spans a factor of {span:.3g} only, over which any law looks straight"
        return told(_interval(exponent, tail, None), p=None, refused=why)
    # logarithms of samples: the law beyond the threshold, the values themselves below it
    n, logs = len(x), x.log()
    draw = lambda: torch.rand(SAMPLES, n, generator=generator, dtype=x.dtype)
    drawn = logs[tail - 1] - draw().clamp_min(1e-300).log() / (exponent - 1)
    if tail < n:
        body = logs[tail:][(draw() * (n - tail)).long().clamp_max(n - tail - 1)]
        drawn = torch.where(draw() * n < tail, drawn, body)
    again, _, apart = _fit(drawn.sort(dim=1, descending=True).values)
    farther = int((apart >= distance).sum())
    p, closer = farther / SAMPLES, SAMPLES - farther
    # Clopper and Pearson's interval
    low = float(scipy.special.betaincinv(farther, closer + 1, RISK / 2)) if farther else 0.0
    high = float(scipy.special.betaincinv(farther + 1, closer, 1 - RISK / 2)) if closer else 1.0
    why = f"samples of the best power law lie closer to it than these values (p = {p:.2g})"
    return told(
        _interval(exponent, tail, again),
        p=Estimate(p, low, high, f"{SAMPLES} samples of the fit", RISK),
        refused=why if p < REJECTED else "",
    )


def _fit(logs: Float64[Tensor, "b n"]) -> tuple[Tensor, Tensor, Tensor]:
    """Exponent, length of the tail and distance of the best fit, of each descending row."""
    n = logs.shape[1]
    sums = logs.cumsum(1)
    found: list[tuple[Tensor, Tensor]] = []
    spaced = torch.logspace(0, 1, THRESHOLDS, base=n / SHORTEST, dtype=torch.float64) * SHORTEST
    lengths = sorted({min(n, round(float(k))) for k in spaced})
    middles = torch.arange(n, dtype=logs.dtype) + 0.5
    for k in lengths:
        least = logs[:, k - 1 : k]
        slope = k / (sums[:, k - 1 : k] - k * least).clamp_min(1e-300)  # α - 1
        # the share beyond each value, less the middle of the step that is counted there
        gaps = (logs[:, :k] - least).mul_(-slope).exp_().sub_(middles[:k] / k)
        low, high = gaps.aminmax(dim=1)
        found.append((slope[:, 0], torch.maximum(-low, high) + 0.5 / k))
    distances = torch.stack([gap for _, gap in found], dim=1)
    best = distances.argmin(1, keepdim=True)
    slopes = torch.stack([slope for slope, _ in found], dim=1).gather(1, best)[:, 0]
    tails = torch.tensor(lengths)[best[:, 0]]
    return 1 + slopes, tails, distances.gather(1, best)[:, 0]


def _interval(exponent: float, tail: int, again: Float64[Tensor, " b"] | None) -> Estimate:
    """By the gamma law beyond the threshold, and by samples with their own if drawn: the wider."""
    sides = (RISK / 2, 1 - RISK / 2)
    fixed = tuple(
        1 + (exponent - 1) * float(scipy.special.gammaincinv(tail, q)) / tail for q in sides
    )
    free = fixed
    if again is not None:
        ends = torch.tensor([1 - q for q in sides], dtype=again.dtype)
        free = (2 * exponent - again.quantile(ends)).clamp_min(1.0).tolist()
    low, high = zip(fixed, free, strict=True)
    how = f"maximum likelihood beyond the {tail} largest"
    return Estimate(exponent, min(*low, exponent), max(*high, exponent), how, RISK)
