"""Traces, Frobenius norms and spectral densities of symmetric operators, by sampling."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import ByValue, Estimate
from sigmascope.linalg.dense import EPS, SMALLEST, power_of_two
from sigmascope.linalg.krylov.eigenvalues import Krylov, krylov_space
from sigmascope.linalg.krylov.operators import Operator
from sigmascope.linalg.refusals import (
    not_finite_products,
    require_between,
    require_matrix,
    require_samples,
    require_square,
    require_symmetric,
)

# ------------------------------------------------------------------------------
# What quadratic forms at random vectors prove of a trace, whatever the eigenvalues are.


def trace_of_forms(
    forms: Float64[Tensor, "blocks k"],
    *,
    how: str,
    risk: float = 0.05,
    largest: float | None = None,
) -> Estimate:
    """Trace of a positive semi-definite `B`, from `xᵀ B x` at k independent normal vectors.

    The interval assumes nothing of the eigenvalues: one of them may be all there is, which a mean
    and its spread over few forms do not show. With a single vector it is wide and still holds.

    Args:
        forms: `xⱼᵀ B xⱼ`, entries of `xⱼ` standard normal. Where `B` is block diagonal, one row for
            each block, which says that none of them can be all there is.
        how: The route.
        risk: Chance that the interval misses.
        largest: Largest eigenvalue of the matrix of all `xᵢᵀ B xⱼ`, or a number above it; the
            smaller, the narrower the interval. Of several blocks, the largest of theirs.

    Returns:
        The mean of the forms, added up over the blocks.

    Raises:
        Refusal: If `risk` is not in (0, 1).

    Source:
        Székely & Bakirov 2003 and Roosta-Khorasani, Székely & Ascher 2015, Theorem 2: no weights
        make a sum of chi squares stray further than one of them alone; Laurent & Massart 2000,
        Lemma 1, where the largest eigenvalue is bounded.
    """
    require_between(risk, EPS, 1, name="risk", instead="It is a chance, e.g. 0.05.")
    k = forms.shape[1]
    mean = float(forms.sum(0).mean())
    least = float(forms.sum(1).amax()) if largest is None else largest
    known = Chances(k, risk).bounds(mean, least)
    return Estimate(mean, min(known.low, mean), max(known.high, mean), how, risk)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of a positive semi-definite matrix.

    Attributes:
        low: Its trace is at least this.
        high: Its trace is at most this.
        top: Its largest eigenvalue is at most this.
    """

    low: float
    high: float
    top: float


@dataclass(frozen=True, slots=True)
class Chances:
    """How far the mean of `k` forms strays, with how a risk is spent.

    A third of it on the two ends that hold for any eigenvalues, a sixth on the bound of the largest
    of them, and half on the two ends that this bound gives.
    """

    k: int
    risk: float

    def bounds(self, mean: float, largest: float) -> Bounds:
        """Ends of the trace and the largest eigenvalue.

        Args:
            mean: Of the forms.
            largest: Eigenvalue of the matrix of all products of the vectors, which is at least
                `λ ‖z‖²` for an eigenvalue λ on whose vector the k have the components z.
        """
        k, chance = self.k, self.risk / 6
        # what a chi square of k degrees of freedom is below, and above, with this chance; the
        # theorem speaks of what is above `k + 1`
        lower = max(2 * float(scipy.special.gammaincinv(k / 2, chance)), 5e-324)
        upper = max(float(scipy.special.chdtri(k, chance)), k + 1.0)
        top = largest / lower
        spread = top * math.log(4 / self.risk) / k
        plain = mean * k / lower, mean * k / upper
        high = (math.sqrt(spread) + math.sqrt(spread + mean)) ** 2
        low = max(math.sqrt(max(mean - spread, 0.0)) - math.sqrt(spread), 0.0) ** 2
        return Bounds(max(low, plain[1]), min(high, plain[0]), top)

    def deviation(self, square: float, top: float) -> float:
        """How far the mean of forms of any square `A` strays from its trace, on either side.

        Args:
            square: Bound of `‖A‖_F²`.
            top: Bound of `‖A‖₂²`.
        """
        t = math.log(2 / self.risk) / self.k
        return 2 * math.sqrt(square * t) + 2 * math.sqrt(min(top, square)) * t


# ------------------------------------------------------------------------------
# How the eigenvalues of a symmetric operator are distributed, by stochastic Lanczos quadrature.


ROUNDINGS = 1024  # of a sum of weights, which are squares of entries of eigenvectors


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Density(ByValue):
    """The distribution of the eigenvalues of an `n`-dimensional symmetric map.

    Attributes:
        nodes: Where each sample puts its mass, in ascending order; one row if all are known.
        weights: The mass there; each row sums to 1.
        size: `n`.
        rounding: How far a node may be from where exact arithmetic had put it.
        how: The route.
        risk: Chance that an interval misses, each for itself.
    """

    nodes: Float64[Tensor, "samples k"]
    weights: Float64[Tensor, "samples k"]
    size: int
    rounding: float
    how: str
    risk: float

    def below(self, threshold: float) -> Estimate:
        """Share of the eigenvalues that are at most `threshold`, between 0 and 1.

        The quadrature of each sample bounds its share from both sides. The share of a uniform
        direction in a fixed space has a beta law; the ends are the smallest and the largest number
        of eigenvalues with which the mean of so many shares is not too unlikely.
        """
        if self.risk == 0:
            counts = (
                int((self.nodes <= threshold + gap).sum())
                for gap in (-self.rounding, 0.0, self.rounding)
            )
            low, value, high = (count / self.size for count in counts)
            return Estimate(value, low, high, self.how)
        value = min(_mean(torch.where(self.nodes <= threshold, self.weights, 0.0).sum(1)), 1.0)
        low, high = (_mean(share) for share in self._enclosed(threshold))
        draws, rounding = len(self.nodes), ROUNDINGS * EPS
        least = _fewest(low - rounding, self.size, draws=draws, risk=self.risk / 2)
        most = self.size - _fewest(1 - high - rounding, self.size, draws=draws, risk=self.risk / 2)
        low, high = min(value, least / self.size), max(value, most / self.size)
        return Estimate(value, low, high, self.how, self.risk)

    def _enclosed(self, threshold: float) -> tuple[Tensor, Tensor]:
        """Least and greatest share below the threshold that each sample's moments allow.

        Between two nodes a measure with these moments has all of the mass of the nodes further
        left, and none of that of the nodes further right (Chebyshev, Markov, Stieltjes).
        """
        zero = self.weights.new_zeros(len(self.weights), 1)
        total = torch.cat([zero, self.weights.cumsum(1)], dim=1)  # total[:, i]: of the first i
        last = self.weights.shape[1]
        left = (self.nodes <= threshold - self.rounding).sum(1)
        right = (self.nodes <= threshold + self.rounding).sum(1)
        low = total.gather(1, (left - 1).clamp_min(0)[:, None])[:, 0]
        high = total.gather(1, (right + 1).clamp_max(last)[:, None])[:, 0]
        return low, high.clamp_max(1.0)


def spectral_density(
    A: Float[Tensor, "n n"] | Operator | Sequence[Krylov],
    *,
    samples: int = 10,
    steps: int = 64,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> Density:
    """Distribution of the eigenvalues of a symmetric `A`.

    Args:
        A: A symmetric matrix, solved; an operator; or some of its Krylov spaces of equally many
            steps, each from a start of its own.
        samples: Random starts.
        steps: Products for each; with as many as columns, all eigenvalues are found once.
        risk: Chance that the interval of a share misses.
        generator: Source of the random starts.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        Refusal: If `A` is not square or finite, a tensor not symmetric, `samples` below 2, or
            `risk` not in (0, 1).

    Source:
        Ubaru, Chen & Saad 2017; the enclosure is that of Chebyshev, Markov and Stieltjes (Szegő
        1939, Theorem 3.41.1), the tail that of Pinelis 1998.

    Cost: `samples` × `steps` products.

    Example:
        >>> spectral_density(torch.diag(torch.tensor([1.0, 2.0, 3.0]))).below(2.5).value
        0.6666666666666666
    """
    require_between(risk, EPS, 1, name="risk", instead="It is a chance, e.g. 0.05.")
    if isinstance(A, Tensor):
        require_symmetric(A, name="A")
        A = Operator.of(A.detach().double().cpu())
        steps = A.shape[0]
    if isinstance(A, Operator):
        require_samples(samples)
        many = 1 if steps >= A.shape[0] else samples
        A = [krylov_space(A, steps=steps, generator=generator) for _ in range(many)]
    spaces = A
    n, steps = spaces[0].basis.shape
    if not spaces[0].complete and any(s.random < 1 or s.basis.shape != (n, steps) for s in spaces):
        raise Refusal(
            "The spaces must have equally many steps from random starts, got "
            f"{[(s.steps, s.random) for s in spaces]} (steps, random share). Begin them without "
            "`towards` and with `tolerance=0`."
        )
    whole = spaces[0].complete
    spaces = spaces[:1] if whole else spaces
    require_samples(2 if whole else len(spaces))
    found = [space.ritz() for space in spaces]
    nodes = torch.stack([values for values, _, _ in found])
    weights = torch.stack([vectors[0].square() for _, vectors, _ in found])
    if whole:
        weights = torch.full_like(nodes, 1 / n)
    rounding = max(space.rounding for space in spaces)
    how = "exact" if whole else f"lanczos quadrature(samples={len(spaces)}, steps={steps})"
    return Density(nodes, weights, n, rounding, how, 0.0 if whole else risk)


def _mean(values: Float64[Tensor, " samples"]) -> float:
    return values.mean().item()


def _fewest(share: float, size: int, *, draws: int, risk: float) -> int:
    """Fewest of `size` directions of which random ones may have this share on average.

    The mean of `draws` shares of m directions is, in convex order, below a beta variable with
    `draws` times the parameters: weight the shares with independent chi squares, the lengths that
    the directions had, and that is its law. Its tail is then at most e times that of the beta
    variable, whose density is log-concave (Pinelis 1998, with convex functions of order 1).
    """
    slack = 1.0 if draws == 1 else math.e
    if share <= 0:
        return 0

    def likely(m: int) -> bool:
        if m in (0, size):
            return m == size
        tail = scipy.special.betainc(draws * (size - m) / 2, draws * m / 2, 1 - min(share, 1.0))
        return slack * float(tail) > risk

    return bisect_left(range(size), True, key=likely)


# ------------------------------------------------------------------------------
# Trace and Frobenius norm, by sums where there are entries and by sampling where there are not.


BLOCK = 64  # random vectors multiplied at a time


def trace(
    A: Float[Tensor, "n n"] | Operator,
    *,
    samples: int = 64,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> Estimate:
    """Sum of the diagonal of a square `A`.

    Args:
        A: A matrix, whose diagonal is summed; or an operator, for which `xᵀ A x` is averaged over
            normal vectors `x`.
        samples: Random vectors spent on an operator; with as many as columns, it is exact.
        risk: Chance that the interval of a sampled operator misses, whatever its eigenvalues are:
            it is as wide as the Frobenius norm that `‖A x‖` shows allows.
        generator: Source of the random vectors.

    Returns:
        In the unit of the entries.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        Refusal: If `A` is not square, a tensor `A` not finite, `samples` below 2, or `risk` not
            in (0, 1).

    Source:
        Girard 1989; Hutchinson 1990; interval by Laurent & Massart 2000, Lemma 1.

    Example:
        >>> trace(torch.eye(3)).value
        3.0
    """
    if isinstance(A, Tensor):
        require_matrix(A, name="A")
    require_square((A.shape[0], A.shape[1]), name="A")
    if isinstance(A, Tensor):
        return _summed(A.detach().diagonal(), eps=EPS, how="summed")
    require_sampling(samples, risk)
    if samples >= A.shape[1]:
        return _summed(A.dense().detach().diagonal(), eps=precision(A), how="exact")
    drawn = Drawn.of(A, samples, generator)
    value = float(drawn.forms.mean())
    known = drawn.square(risk / 2)
    gap = Chances(samples, risk / 2).deviation(known.high, known.top)
    gap += precision(A) * float(drawn.forms.abs().amax() + drawn.squares.amax().sqrt())
    low, value, high = (drawn.unit * v for v in (value - gap, value, value + gap))
    if low < high:
        low, high = low - SMALLEST, high + SMALLEST
    return Estimate(value, low, high, f"hutchinson(samples={samples})", risk)


def sampled_frobenius_norm(
    A: Operator, *, samples: int, risk: float, generator: torch.Generator | None
) -> Estimate:
    """Frobenius norm of an operator, from the mean of `‖A x‖²` over normal vectors `x`."""
    require_sampling(samples, risk)
    if samples >= A.shape[1]:
        columns = A.dense().detach().double()
        largest = columns.abs().amax(0)
        safe = torch.where(largest > 0, largest, 1)
        lengths = largest * torch.linalg.vector_norm(columns / safe, dim=0)
        top = lengths.amax().item() or 1.0
        square = (lengths / top).square().sum().item()
        low, high, how, risk = square, square, "exact", 0.0
    else:
        drawn = Drawn.of(A, samples, generator)
        top, square, known = drawn.unit, float(drawn.squares.mean()), drawn.square(risk)
        low, high, how = known.low, known.high, f"hutchinson(samples={samples})"
    gap = 2 * precision(A) * max(square, high)
    low, value, high = (top * math.sqrt(max(v, 0.0)) for v in (low - gap, square, high + gap))
    if high > 0:
        low, high = max(low - SMALLEST, 0.0), high + SMALLEST
    return Estimate(value, min(low, value), max(high, value), how, risk)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Products of an operator with normal vectors, reduced to what is asked of them.

    Attributes:
        forms: `xᵀ A x / unit`; of a square operator only.
        squares: `‖A x‖² / unit²`.
        largest: Sum over blocks of vectors of the largest eigenvalue of `XᵀAᵀA X / unit²`.
        unit: A power of two, so that squares are safe.
    """

    forms: Float64[Tensor, " forms"]
    squares: Float64[Tensor, " samples"]
    largest: float
    unit: float

    @classmethod
    def of(cls, A: Operator, samples: int, generator: torch.Generator | None) -> "Drawn":
        """Multiply, a block of vectors at a time."""
        unit, found = 0.0, []
        for start in range(0, samples, BLOCK):
            x = normal_vectors(A, min(BLOCK, samples - start), generator)
            y = A.apply(x).detach().double()
            size = y.abs().amax().item()
            if not math.isfinite(size):
                raise not_finite_products(A.shape)
            own = power_of_two(size) if size > 0 else 1.0
            y = y / own
            forms = (x.double() * y).sum(0) if A.shape[0] == A.shape[1] else y.new_zeros(0)
            found.append((own, forms.cpu(), (y.mT @ y).cpu()))
            unit = max(unit, own if size > 0 else 0.0)
        unit = unit or 1.0
        grams = [(own / unit) ** 2 * gram for own, _, gram in found]
        return cls(
            torch.cat([own / unit * forms for own, forms, _ in found]),
            torch.cat([gram.diagonal() for gram in grams]),
            sum(float(torch.linalg.eigvalsh(gram)[-1]) for gram in grams),
            unit,
        )

    def square(self, risk: float) -> Bounds:
        """Bounds of `‖A‖_F²` and `‖A‖₂²`, over the square of the unit."""
        return Chances(len(self.squares), risk).bounds(float(self.squares.mean()), self.largest)


def require_sampling(samples: int, risk: float) -> None:
    """Raise unless the samples can tell their own spread, and the risk is one."""
    require_samples(samples)
    require_between(risk, EPS, 1, name="risk", instead="It is a chance, e.g. 0.05.")


def _summed(diagonal: Float[Tensor, " n"], *, eps: float, how: str) -> Estimate:
    terms = diagonal.double().tolist()
    top = max(map(abs, terms)) or 1.0
    value = top * math.fsum(t / top for t in terms)  # scaled: partial sums cannot overflow
    size = math.fsum(abs(t / top) for t in terms)
    gap = eps * top * size + (SMALLEST if size else 0.0)
    return Estimate(value, value - gap, value + gap, how)


def precision(A: Operator) -> float:
    """Relative rounding of one product with `A`, whose sums are as long as its larger side."""
    return 4 * (math.sqrt(max(A.shape)) + 4) * max(torch.finfo(A.like.dtype).eps, EPS)


def normal_vectors(A: Operator, count: int, generator: torch.Generator | None) -> Tensor:
    """Columns of normal entries that `A` can be multiplied with, on its device."""
    device = A.like.device if generator is None else generator.device
    drawn = torch.randn(A.shape[1], count, generator=generator, device=device, dtype=torch.float64)
    return drawn.to(A.like.device, A.like.dtype)


# ------------------------------------------------------------------------------
# Trace and Frobenius norm of symmetric operators, with what is large in them taken out.
#
# The idea: a sampled trace strays by the Frobenius norm of what is sampled, so whatever is known is
# summed exactly first, and only the rest is left to chance. Three parts add up: what a Krylov space
# holds (the large eigenvalues), what half as many products with normal vectors span of the rest,
# and normal vectors less their part in both. The invariant: the three live in spaces at right
# angles, and each vector is projected out of the known ones before and after its product, so that
# nothing is counted twice and no rounding of a large eigenvalue leaks into the rest.
#
# Source: Hutchinson 1990; Meyer, Musco, Musco & Woodruff 2021, Hutch++.


FEWEST = 4  # samples before their spread is believed
Estimates = tuple[Float64[Tensor, " s"], Float64[Tensor, " s"]]


def symmetric_moments(
    A: Operator,
    *,
    within: Krylov,
    samples: int = 16,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> tuple[Estimate, Estimate]:
    """Trace and Frobenius norm of a symmetric operator of which a Krylov space is known.

    What the space holds is summed exactly, and so is what half as many products with normal
    vectors as there are samples span; only what is left then is sampled.

    Args:
        A: Symmetric.
        within: Its Krylov space.
        samples: Random vectors; with those of the sketch, each costs two products. None is needed
            if the space is whole.
        risk: Chance that an interval misses, each for itself, whatever the eigenvalues are.
        generator: Source of the random vectors.

    Raises:
        Refusal: If `samples` is below 2, or `risk` not in (0, 1).

    Source:
        Hutchinson 1990; Meyer, Musco, Musco & Woodruff 2021 (Hutch++) for the sketch; intervals as
        `trace` and `frobenius_norm`.
    """
    require_sampling(samples, risk)
    known = _Known.of(within)
    if within.complete:
        return known.moments(_Chance(0.0, 0.0, (0.0, 0.0), 0.0), A, "exact", 0.0)
    rest, held = _Rest(A, within.basis, known.top, generator).sketched(samples // 2)
    trace, square = (float(some.sum()) for some in held)
    known = _Known(known.top, known.trace + trace, known.square + square)
    how = f"lanczos(steps={within.steps}) + hutch++(samples={samples})"
    return known.moments(_chance(*rest.sampled(samples), risk), A, how, risk)


def moments_within(
    A: Operator,
    *,
    within: Krylov,
    tolerance: float,
    most: int = 512,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> tuple[Estimate, Estimate, int]:
    """The same two numbers, sampled until one standard error of both is a share of them.

    Args:
        A: Symmetric.
        within: Its Krylov space, as of `krylov_space(..., moments=True)`.
        tolerance: That share.
        most: Samples at most.
        risk: Chance that an interval misses, each for itself, whatever the eigenvalues are.
        generator: Source of the random vectors.

    Returns:
        Trace, Frobenius norm, and how many samples were drawn.

    Raises:
        Refusal: If `risk` or `tolerance` is not in (0, 1).

    Source:
        Hutchinson 1990; the variance of a sample is twice the squared Frobenius norm of the rest,
        which the samples' lengths show.
    """
    require_between(tolerance, 0, 1, name="tolerance", instead="It is a share, e.g. 0.01.")
    if within.complete:
        return *symmetric_moments(A, within=within, risk=risk), 0
    known = _Known.of(within)
    rest = _Rest(A, within.basis, known.top, generator)
    enough = lambda forms, lengths: known.settled(forms, lengths, tolerance)
    inner, products = rest.sampled(most, enough)
    how = f"lanczos(steps={within.steps}) + hutchinson(samples={len(inner)})"
    return *known.moments(_chance(inner, products, risk), A, how, risk), len(inner)


@dataclass(frozen=True, slots=True)
class _Chance:
    """What is left to chance: trace, square with its ends, and how far the trace may be off."""

    trace: float
    square: float
    ends: tuple[float, float]
    gap: float


@dataclass(frozen=True, slots=True)
class _Known:
    """What is summed exactly: trace and square, over `top` and its square."""

    top: float
    trace: float
    square: float

    @classmethod
    def of(cls, within: Krylov) -> "_Known":
        top = within.matrix.abs().amax().item() or 1.0
        T = within.matrix / top
        square = T.square().sum().item() + (within.rest / top) ** 2
        return cls(top, T.diagonal().sum().item(), square)

    def settled(self, inner: Sequence[Tensor], squares: Sequence[Tensor], share: float) -> bool:
        """Whether one standard error of the trace, and of the norm, is at most a share of them."""
        count = len(inner)
        if count < FEWEST:
            return False
        lengths = torch.stack([*squares])
        trace = self.trace + float(torch.stack([*inner]).mean())
        square, error = self.square + float(lengths.mean()), float(lengths.std()) / count**0.5
        spread = math.sqrt(2 * (float(lengths.mean()) + error) / count)
        # not stopped by luck: a trace that looks large by an error of its own ends too soon
        return spread <= share * (abs(trace) - spread) and error <= 2 * share * square

    def moments(
        self, rest: _Chance, A: Operator, how: str, risk: float
    ) -> tuple[Estimate, Estimate]:
        """Trace and Frobenius norm of both together."""
        trace, square = self.trace + rest.trace, self.square + rest.square
        slack = precision(A) * max(square, 1.0) * math.sqrt(A.shape[0])
        ends = (self.square + rest.ends[0] - slack, square, self.square + rest.ends[1] + slack)
        low, value, high = (self.top * math.sqrt(max(v, 0.0)) for v in ends)
        gap = rest.gap + slack
        lowest, highest = self.top * (trace - gap), self.top * (trace + gap)
        return (
            Estimate(self.top * trace, lowest, highest, how, risk),
            Estimate(value, min(low, value), max(high, value), how, risk),
        )


def _chance(inner: Tensor, products: Tensor, risk: float) -> _Chance:
    """Trace and square by samples, what bounds the square, and how far the trace may be off."""
    samples = len(inner)
    first, second = float(inner.mean()), float(products.diagonal().mean())
    largest = float(torch.linalg.eigvalsh(products)[-1])
    whole, half = Chances(samples, risk).bounds(second, largest), Chances(samples, risk / 2)
    bound = half.bounds(second, largest)
    return _Chance(first, second, (whole.low, whole.high), half.deviation(bound.high, bound.top))


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a symmetric operator, over `top`, does outside a space that is known.

    Attributes:
        A: The operator.
        V: Basis of the space.
        top: Unit of all numbers here.
        generator: Source of the random vectors.
    """

    A: Operator
    V: Float64[Tensor, "n k"]
    top: float
    generator: torch.Generator | None

    def sketched(self, samples: int) -> tuple["_Rest", Estimates]:
        """The operator outside what some products with normal vectors span, and what they hold."""
        samples = min(samples, len(self.V) - self.V.shape[1])  # more would span nothing new
        inside = self._outside(self._outside(self._times(self._drawn(samples))))
        Q = torch.linalg.qr(self._outside(torch.linalg.qr(inside)[0]))[0]
        back = self._times(Q)
        rest = _Rest(self.A, torch.cat([self.V, Q], dim=1), self.top, self.generator)
        return rest, ((Q * back).sum(0).cpu(), back.square().sum(0).cpu())

    def sampled(
        self, samples: int, enough: Callable[[list[Tensor], list[Tensor]], bool] | None = None
    ) -> tuple[Float64[Tensor, " s"], Float64[Tensor, "s s"]]:
        """`xᵀ A x` for normal vectors less their part in the space, and the Gram matrix of `A x`.

        The trace and the Frobenius norm are those of `P A P` and `A P`, of which the latter is the
        larger; `P` is the projection that leaves the space. Ends early where the first, and the
        squared lengths of the second, are `enough`.
        """
        inner: list[Tensor] = []
        squares: list[Tensor] = []
        products: list[Tensor] = []
        for _ in range(samples):  # one by one: they may be as long as all weights of a network
            x = self._drawn(1)
            y = self._times(x)
            inner.append((x * y).sum())
            squares.append(y.square().sum())
            products.append(y[:, 0])
            if enough is not None and enough(inner, squares):
                break
        Y = torch.stack(products)
        return torch.stack(inner).cpu(), (Y @ Y.mT).cpu()

    def _outside(self, x: Float64[Tensor, "n s"]) -> Float64[Tensor, "n s"]:
        return x - self.V @ (self.V.mT @ x)

    def _times(self, x: Float64[Tensor, "n s"]) -> Float64[Tensor, "n s"]:
        return self.A.apply(x.to(self.A.like.dtype)).detach().double() / self.top

    def _drawn(self, samples: int) -> Float64[Tensor, "n s"]:
        return self._outside(normal_vectors(self.A, samples, self.generator).to(self.V))
