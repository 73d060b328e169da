"""Singular values, and what is counted or kept of them."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Complex, Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief, Spectrum
from sigmascope.linalg.dense import (
    EPS,
    exact_values,
    gram_values,
    gram_work,
    largest,
    lower_gram,
    power_of_two,
    roots,
    singular_values,
)
from sigmascope.linalg.krylov.operators import Operator
from sigmascope.linalg.krylov.singular_values import golub_kahan
from sigmascope.linalg.refusals import overflowing, require_matrix, require_steps

__all__ = [
    "Moments",
    "Route",
    "Work",
    "block_spectrum",
    "counted",
    "counts_above",
    "principal_angles",
    "spectra",
    "spectrum",
]


# ------------------------------------------------------------------------------
# How much arithmetic in float64 the spectra took, for whoever wants to know.


@dataclass(slots=True)
class Work:
    """What was counted so far.

    Attributes:
        operations: Additions and multiplications in float64, by the leading terms of the counts.
    """

    operations: float = 0.0


COUNTING: ContextVar[Work | None] = ContextVar("COUNTING", default=None)


@contextmanager
def counted() -> Iterator[Work]:
    """Count what the spectra that are asked for inside of the block take; blocks may nest.

    Source:
        Golub & Van Loan 2013, sections 8.3 and 8.6, for what each takes.
    """
    outer, mine = COUNTING.get(), Work()
    token = COUNTING.set(mine)
    try:
        yield mine
    finally:
        COUNTING.reset(token)
        if outer is not None:
            outer.operations += mine.operations


def spent(shape: tuple[int, int], *, exact: bool, count: int = 1) -> None:
    """Count the spectra of matrices of one shape.

    Args:
        shape: Of each.
        exact: By bidiagonalisation, and not by the eigenvalues of the smaller Gram matrix.
        count: How many.

    Source:
        Golub & Van Loan 2013, sections 8.3 and 8.6.
    """
    work = COUNTING.get()
    if work is not None:
        long, short = max(shape), min(shape)
        gram = long * short**2 + 4 / 3 * short**3
        each = 4 * long * short**2 - 4 / 3 * short**3 if exact else gram
        work.operations += count * each


# ------------------------------------------------------------------------------
# Sufficient statistics of rows seen in pieces.


@dataclass(frozen=True, slots=True, repr=False)
class Moments(Brief):
    """Count, mean and centred scatter of rows; enough for any covariance spectrum.

    Attributes:
        count: Rows seen.
        mean: Their mean.
        scatter: `Σ (x - mean)(x - mean)ᵀ / scale²`; over `count`, the covariance.
        scale: A power of two, 1 unless float64 rows are so large or so small that their squares
            would leave float64.
        pieces: Batches that were added up; each addition rounds.
    """

    count: int
    mean: Float64[Tensor, " d"]
    scatter: Float64[Tensor, "d d"]
    scale: float = 1.0
    pieces: int = 1

    @classmethod
    def of(cls, rows: Float[Tensor, "n d"]) -> "Moments":
        """Moments of one batch, centred before squaring so that a large mean costs nothing.

        Raises:
            TypeError: If `rows` are not real floating point.
            Refusal: If `rows` are not a non-empty finite matrix.
        """
        require_matrix(rows, name="rows")
        X = rows.detach().double()
        top = largest(X)
        scale = 1.0 if top == 0 or 1e-100 < top < 1e100 else power_of_two(top)
        X = X / scale
        mean = X.mean(0)
        centred = X - mean
        lower = lower_gram(centred[None], torch.ones_like(mean[:1]))[0].tril()
        scatter = lower + lower.tril(-1).mT
        return cls(len(rows), (mean * scale).cpu(), scatter.cpu(), scale)

    def __add__(self, other: "Moments") -> "Moments":
        """Moments of both sets of rows together.

        Raises:
            Refusal: If the rows are of different lengths.

        Source:
            Chan, Golub & LeVeque 1979, Eq. 2.1.
        """
        if len(self.mean) != len(other.mean):
            raise Refusal(
                f"Moments add over rows of one length, got {len(self.mean)} and "
                f"{len(other.mean)}. Keep one `Moments` per layer."
            )
        count = self.count + other.count
        scale = max(self.scale, other.scale)
        gap = other.mean / scale - self.mean / scale
        scatter = (
            self.scatter * (self.scale / scale) ** 2
            + other.scatter * (other.scale / scale) ** 2
            + gap.outer(gap) * (self.count * (other.count / count))
        )
        mean = self.mean / scale + gap * (other.count / count)
        return Moments(count, mean * scale, scatter, scale, self.pieces + other.pieces)

    def spectrum(self, *, centred: bool) -> Spectrum:
        """Singular values of the matrix of all rows, less their mean or as they came.

        Args:
            centred: Whether the mean is taken off every row first.

        Returns:
            All `min(count, d)` values, with the intervals of the Gram route; they widen with the
            mean, whose rounding is all that a large mean costs.

        Source:
            Chan, Golub & LeVeque 1979.

        Example:
            >>> rows = torch.tensor([[3.0, 1.0], [3.0, -1.0]])
            >>> Moments.of(rows).spectrum(centred=True).sigma.round(decimals=6)
            tensor([1.4142, 0.0000], dtype=torch.float64)
        """
        mean = self.mean / self.scale
        gram = self.scatter
        if not centred:
            gram = gram + mean.outer(mean) * self.count
        # How far the rounding of the means moves the scatter: a mean is off by about `e = 4 eps
        # ‖mean‖`, each merge puts `2 ‖gap‖ e nm/(n+m)` in the scatter, together at most
        # `4 e √(count tr)`, and the centre itself `count e²`.
        energy = self.scatter.diagonal().sum().item()
        size = torch.linalg.vector_norm(mean).item() + math.sqrt(energy / self.count)
        error = 4 * EPS * size
        drift = 4 * error * math.sqrt(self.count * energy) + self.count * error**2
        ends = roots(gram[None], inner=self.count, pieces=self.pieces, extra=drift)
        d = len(self.mean)
        kept = min(self.count, d)
        how = f"moments(centred={centred})"
        sigma, low, high = (self.scale * end[0, :kept] for end in ends)
        return Spectrum(sigma, (self.count, d), how, low, high)


# ------------------------------------------------------------------------------
# Counting eigenvalues without computing any.


def counts_above(M: Float64[Tensor, "*many d d"], tau: float) -> Float64[Tensor, "*many"]:
    """How many eigenvalues of each of many symmetric matrices are at least `tau`.

    One factorisation each, for averages over many matrices: an eigenvalue closer to `tau` than
    rounding may fall on either side.

    Args:
        M: Finite symmetric matrices.
        tau: Threshold; eigenvalues within rounding below it count.

    Returns:
        Counts between 0 and `d`.

    Source:
        Sylvester 1852; Bunch & Kaufman 1977.
    """
    shifted = M.clone()
    slack = 4 * M.shape[-1] * EPS * (float(torch.linalg.vector_norm(M, torch.inf)) + abs(tau))
    shifted.diagonal(dim1=-2, dim2=-1).sub_(tau - slack)
    LD, order, _ = torch.linalg.ldl_factor_ex(shifted)
    up = (LD.diagonal(dim1=-2, dim2=-1) >= 0).double()
    # a block of size 2 has one eigenvalue of each sign (Bunch & Kaufman 1977)
    return up.masked_fill_(order < 0, 0.5).sum(-1)


# ------------------------------------------------------------------------------
# How two subspaces of the same space lie to each other.


def principal_angles(X: Float[Tensor, "n p"], Y: Float[Tensor, "n q"]) -> Float64[Tensor, " k"]:
    """Angles between the column spaces of `X` and `Y`.

    Args:
        X: A basis of the first space, of full column rank.
        Y: A basis of the second, over the same rows.

    Returns:
        `min(p, q)` angles in radians, ascending, in `[0, π/2]`, small ones as precise as large.

    Raises:
        TypeError: If a basis is not real floating point.
        Refusal: If a basis is not a finite matrix of full column rank, or the rows differ.

    Source:
        Björck & Golub 1973 for the cosines, Knyazev & Argentati 2002 for the sines.

    Example:
        >>> E = torch.eye(3)
        >>> principal_angles(E[:, :1], E[:, 1:]).round(decimals=6)
        tensor([1.5708], dtype=torch.float64)
    """
    P, Q = _orthonormal(X, name="X"), _orthonormal(Y, name="Y")
    if len(P) != len(Q):
        raise Refusal(
            f"`X` and `Y` must lie in one space, got {len(P)} and {len(Q)} rows. "
            "Transpose them if their rows are the basis vectors."
        )
    P, Q = (P, Q) if P.shape[1] >= Q.shape[1] else (Q, P)
    cos = torch.linalg.svdvals(P.mT @ Q).clamp(max=1)
    sin = torch.linalg.svdvals(Q - P @ (P.mT @ Q)).clamp(max=1).flip(0)
    return torch.where(cos > 0.7, sin.asin(), cos.acos()).cpu()  # each where it keeps its digits


def _orthonormal(X: Float[Tensor, "n p"], *, name: str) -> Float64[Tensor, "n p"]:
    """An orthonormal basis of the column space of `X`, whose columns may differ in length."""
    require_matrix(X, name=name)
    columns = X.detach().double()
    longest = columns.abs().amax(0)
    columns = columns / torch.where(longest > 0, longest, 1)
    sigma = torch.linalg.svdvals(columns)
    if X.shape[1] > len(X) or sigma[-1] <= max(X.shape) * EPS * sigma[0]:
        raise Refusal(
            f"`{name}` must be of full column rank, got shape {tuple(X.shape)} with smallest "
            f"singular value {sigma[-1].item():g}. Pass a basis: drop dependent columns."
        )
    return torch.linalg.qr(columns)[0]


# ------------------------------------------------------------------------------
# Singular values of a matrix, as one value that every functional reads.


Route = Literal["auto", "exact", "gram", "free"]
GRAM_LIMIT = 2**40  # multiplications to form the Gram matrix; above this `auto` factorises nothing
DENSE_LIMIT = 2**24  # entries; above this `auto` does not write an Operator out
GRAM_ERROR = 1e-9  # of sigma_max; where the Gram route may err by more, `auto` goes on to "exact"


def spectrum(
    A: Float[Tensor, "m n"] | Operator,
    *,
    route: Route = "auto",
    steps: int | None = None,
    generator: torch.Generator | None = None,
) -> Spectrum:
    """Singular values of `A` in float64, largest first, each with its interval.

    Args:
        A: A finite floating matrix of any precision and device, or an operator.
        route: `"exact"` factorises `A`. `"gram"` takes the eigenvalues of the smaller of `A Aᵀ` and
            `Aᵀ A`, formed in float64: several times faster, but blind below about 1e-7 of the
            largest value. `"free"` spends `steps` products with `A` and with `Aᵀ` and returns
            the leading `steps` values. `"auto"` depends on the shape alone, with one exception:
            it is `"gram"`, followed by `"exact"` where the interval of the smallest value is wider
            than 1e-9 of the largest; `"free"` where forming the Gram matrix takes more than
            2^40 multiplications, or where an operator has more than 2^24 entries.
        steps: Products to spend on the free route; 64, or the smaller dimension, when omitted.
        generator: Source of the random start of the free route.

    Returns:
        All `min(m, n)` values in the unit of the entries (the leading ones on the free route), on
        the CPU. `Spectrum.how` names the route taken.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        Refusal: If a tensor `A` is empty, not a matrix, or not finite, or if its largest
            singular value is beyond float64.

    Source:
        Golub & Kahan 1965 for both the exact and the free route; intervals by Weyl 1912, Cauchy
        interlacing, and Kuczyński & Woźniakowski 1992, Theorem 4.2 (see `krylov`).

    Example:
        >>> spectrum(torch.diag(torch.tensor([3.0, -4.0]))).sigma.round(decimals=6)
        tensor([4., 3.], dtype=torch.float64)
    """
    if isinstance(A, Tensor):
        require_matrix(A, name="A")
        A = A.detach()
    route = settled(A, route)
    if route == "free":
        m, n = A.shape
        steps = min(m, n, 64 if steps is None else steps)
        require_steps(steps)
        sigma, low, high, risk = golub_kahan(A, steps=steps, generator=generator)
        how = f"golub-kahan(steps={steps})"
        return _within_range(Spectrum(sigma, (m, n), how, low, high, risk))
    dense = A if isinstance(A, Tensor) else A.dense().detach()
    if not isinstance(A, Tensor):
        require_matrix(dense, name="A.dense()")
    spent((dense.shape[0], dense.shape[1]), exact=route == "exact")
    return dense_spectra(dense[None], route)[0]


def settled(A: Float[Tensor, "m n"] | Operator, route: Route) -> Route:
    """The route for a matrix of this size; "auto" is left where it means Gram, then exact."""
    m, n = A.shape
    large = gram_work(m, n) > GRAM_LIMIT if isinstance(A, Tensor) else m * n > DENSE_LIMIT
    return "free" if large and route == "auto" else route


def dense_spectra(stack: Float[Tensor, "b m n"], route: Route) -> list[Spectrum]:
    """The spectra of checked matrices of one shape, on any route but the free one."""
    if route == "exact":
        return _exact(stack, "exact")
    _, m, n = stack.shape
    sigma, low, high = gram_values(stack)
    error = torch.maximum(high - sigma, sigma - low)[:, -1]
    coarse = (error > GRAM_ERROR * sigma[:, 0]) & (route == "auto")
    rows = (tuple(each[i].clone() for each in (sigma, low, high)) for i in range(len(stack)))
    # copies: a row of a stack would carry all of it to wherever it is kept
    spectra = [Spectrum(s, (m, n), "gram", low, high) for s, low, high in rows]
    for i in coarse.nonzero()[:, 0].tolist():
        (spectra[i],) = _exact(stack[i : i + 1], "exact, the Gram matrix being too coarse")
    return [_within_range(s) for s in spectra]


def _exact(stack: Tensor, how: str) -> list[Spectrum]:
    _, m, n = stack.shape
    sigma, low, high = exact_values(stack)
    return [
        _within_range(Spectrum(sigma[i], (m, n), how, low[i], high[i])) for i in range(len(stack))
    ]


def _within_range(s: Spectrum) -> Spectrum:
    if not s.sigma[0].isfinite():
        raise overflowing(s.shape)
    return s


# ------------------------------------------------------------------------------
# Operators that fall into a block for each frequency.


BLOCKS = 2**22  # complex entries of the blocks that are solved at a time


def block_spectrum(
    blocks: Complex[Tensor, "b m n"], frequencies: tuple[int, ...], shape: tuple[int, int], how: str
) -> Spectrum:
    """All singular values of a convolution on a periodic grid, from its blocks.

    One of each pair of opposite frequencies is solved: the transform of a real kernel is conjugate
    there, which leaves the singular values.

    Args:
        blocks: Of one group after the other, `[out, in]` at each frequency.
        frequencies: How many there are in each dimension; of what a stride cannot tell apart one.
        shape: Of the operator.
        how: In words.

    Source:
        Sedghi, Gupta & Long 2019, Theorem 6.
    """
    dims = [*range(len(frequencies))]
    place = torch.arange(math.prod(frequencies)).reshape(frequencies)
    opposite = place.flip(dims).roll([1 for _ in dims], dims).flatten()
    kept = (place.flatten() <= opposite).nonzero()[:, 0]
    times = 1 + (opposite[kept] != kept).long()
    half = blocks.unflatten(0, (-1, len(opposite)))[:, kept]
    groups, _, m, n = half.shape
    if m == n == 1:
        sigma = half.abs()[..., 0].cpu()
    else:
        some = half.split(max(1, BLOCKS // (groups * m * n)), dim=1)
        sigma = torch.cat([singular_values(part).cpu() for part in some], 1)
    sigma = sigma.repeat_interleave(times, 1).flatten().sort(descending=True).values
    slack = 8 * max(m, n, *frequencies) * EPS * float(sigma[0])
    return Spectrum(sigma, shape, how, (sigma - slack).clamp_min(0), sigma + slack)


# ------------------------------------------------------------------------------
# Spectra of many matrices at once.


TASK = 2**20  # entries; small matrices of one shape are solved together up to this many


def spectra(
    matrices: Sequence[Float[Tensor, "_ _"]] | Float[Tensor, "b m n"], *, route: Route = "auto"
) -> tuple[Spectrum, ...]:
    """Singular values of many matrices: what `spectrum` says of each, in less time.

    Matrices of one shape are solved together, and as many at a time as torch may use threads, each
    on one thread: an eigensolver keeps one core busy and rarely two. The caller's thread count is
    left alone.

    Args:
        matrices: Matrices of any shapes, or a stack of them.
        route: As for `spectrum`; `"free"` here means its defaults.

    Returns:
        One spectrum per matrix, in the order given.

    Raises:
        TypeError: If one is not real floating point.
        Refusal: If one is empty, not a matrix, or not finite; the message names its place.

    Source:
        As `spectrum`.
    """
    for i, A in enumerate(matrices):
        require_matrix(A, name=f"matrices[{i}]")
    tasks = _tasks([A.detach() for A in matrices], route)
    for task in tasks:
        m, n = task.matrices[0].shape
        if settled(task.matrices[0], route) != "free":
            spent((m, n), exact=route == "exact", count=len(task.matrices))
    found: list[Spectrum | None] = [None] * len(matrices)
    for task, results in zip(tasks, _solve(tasks), strict=True):
        for place, result in zip(task.places, results, strict=True):
            found[place] = result
    return tuple(s for s in found if s is not None)


@dataclass(frozen=True, slots=True)
class _Task:
    """Matrices of one shape, solved in one go."""

    places: tuple[int, ...]
    matrices: tuple[Tensor, ...]
    route: Route

    @property
    def work(self) -> int:
        """Multiplications, counting those of the eigensolver four times: they run slower."""
        m, n = self.matrices[0].shape
        return len(self.matrices) * (gram_work(m, n) + 4 * min(m, n) ** 3)

    def run(self) -> list[Spectrum]:
        route = settled(self.matrices[0], self.route)
        if route == "free":
            return [spectrum(A, route=route) for A in self.matrices]
        stack = self.matrices[0][None] if len(self.matrices) == 1 else torch.stack(self.matrices)
        return dense_spectra(stack, route)


def _tasks(matrices: list[Tensor], route: Route) -> list[_Task]:
    """Matrices of one kind, in groups of at most `TASK` entries; the dearest group first."""
    kinds: dict[tuple, list[int]] = {}
    for i, A in enumerate(matrices):
        kinds.setdefault((A.shape, A.dtype, A.device), []).append(i)
    tasks = []
    for (shape, *_), places in kinds.items():
        size = max(1, TASK // shape.numel())
        for start in range(0, len(places), size):
            some = tuple(places[start : start + size])
            tasks.append(_Task(some, tuple(matrices[i] for i in some), route))
    return sorted(tasks, key=lambda task: -task.work)


def _solve(tasks: list[_Task]) -> list[list[Spectrum]]:
    """Run the tasks, one per thread, after those that outweigh a fair share, on all threads."""
    elsewhere = any(task.matrices[0].device.type != "cpu" for task in tasks)
    workers = 1 if elsewhere else torch.get_num_threads()
    share = sum(task.work for task in tasks) / workers
    heavy = sum(task.work > share for task in tasks)
    done = [task.run() for task in tasks[:heavy]]
    if workers == 1 or len(tasks) - heavy < 2:
        return done + [task.run() for task in tasks[heavy:]]
    # torch counts threads per thread; a worker's 1 is seen by no thread but later ones, and only
    # until the caller's own number is stated again
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return done + list(pool.map(_Task.run, tasks[heavy:]))
    finally:
        torch.set_num_threads(workers)
