"""The outermost eigenvalues of symmetric matrices and operators."""

import math
from dataclasses import dataclass
from typing import Literal

import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief, Estimate
from sigmascope.linalg.dense import EPS, SMALLEST
from sigmascope.linalg.krylov.operators import Operator
from sigmascope.linalg.krylov.singular_values import Basis
from sigmascope.linalg.refusals import (
    not_finite_products,
    require_between,
    require_square,
    require_steps,
    require_symmetric,
)

# ------------------------------------------------------------------------------
# Lanczos: what a symmetric map does to the space that its products with one vector span.


Sides = Literal["both", "top", "bottom"]
RARELY = 16  # of the steps so far one part passes between two looks: a look costs their cube
PAIR = 2  # steps at least whose gain for a trace is weighed: one alone may happen to be small


@dataclass(frozen=True, slots=True, repr=False)
class Krylov(Brief):
    """A symmetric map compressed to the space of its products with one random vector.

    Attributes:
        basis: `V`, orthonormal.
        matrix: `Vᵀ A V`, tridiagonal unless the space was exhausted and begun again.
        rest: `‖A V - V (Vᵀ A V)‖`, all of it in the last column.
        precision: Relative rounding of one product.
        random: How much of the start is random: the length of the random unit vector in it.
        grid: Distance of the smallest numbers of the format in which products are made.
    """

    basis: Float64[Tensor, "n k"]
    matrix: Float64[Tensor, "k k"]
    rest: float
    precision: float
    random: float = 1.0
    grid: float = SMALLEST

    @property
    def steps(self) -> int:
        """Products spent."""
        return self.basis.shape[1]

    @property
    def complete(self) -> bool:
        """Whether the space is the whole one."""
        return self.basis.shape[0] == self.basis.shape[1]

    @property
    def rounding(self) -> float:
        """Of a Ritz value, in the unit of the eigenvalues."""
        n, k = self.basis.shape
        size = torch.linalg.matrix_norm(self.matrix, 2).item()
        lost = 8 * n * self.grid if size > 0 else 0.0  # products that are subnormal
        return 8 * (math.sqrt(n) + k) * self.precision * size + lost

    def ritz(self) -> tuple[Float64[Tensor, " k"], Float64[Tensor, "k k"], Float64[Tensor, " k"]]:
        """Ritz values in ascending order, their vectors in the basis, and their residuals."""
        values, vectors = torch.linalg.eigh(self.matrix)
        return values, vectors, self.rest * vectors[-1].abs()


def krylov_space(
    A: Operator,
    *,
    steps: int = 64,
    tolerance: float = 0.0,
    count: int = 1,
    sides: Sides = "both",
    ends: bool = True,
    moments: bool = False,
    towards: Float64[Tensor, " n"] | None = None,
    generator: torch.Generator | None = None,
) -> Krylov:
    """The Krylov space of a symmetric operator from a random start, reorthogonalised in float64.

    Args:
        A: Symmetric; that it is, is not checked.
        steps: Products to spend at most.
        tolerance: Stop as soon as the error expected of the `count` outermost eigenvalues on both
            sides is below this share of the largest; 0 to spend all steps.
        count: How many on each side have to settle.
        sides: Where they have to.
        ends: Whether they have to at all.
        moments: Whether to go on, for a tolerance, as long as a step takes more out of the trace's
            variance than a sample of what is left would average away.
        towards: Start half way between a random direction and this one, which is thought to be near
            the eigenvectors that are looked for; the gradient, for the curvature of a loss.
        generator: Source of the random start.

    Raises:
        Refusal: If `A` is not square, its products are not finite, or `steps` is below 1.

    Source:
        Lanczos 1950; full reorthogonalisation, twice, as in Parlett 1998, section 6.9.

    Cost: one product a step, and memory for as many vectors in float64.
    """
    require_square(A.shape, name="A")
    require_steps(steps)
    n = A.shape[0]
    steps = min(steps, n)
    basis = Basis(n, steps, A, generator)
    T = torch.zeros(steps, steps, dtype=torch.float64)
    random = basis.restart(towards)
    rest, j, looked = 0.0, 0, 0
    for j in range(steps):
        last = j + 1 == steps
        rest, inside = basis.project(A.apply(basis.last()), grow=not last)
        if not inside.isfinite().all():
            raise not_finite_products(A.shape)
        T[: j + 1, j] = T[j, : j + 1] = inside.cpu()
        since = j + 1 - looked
        if not tolerance > 0 or last or since < max(PAIR if moments else 1, (j + 1) // RARELY):
            continue
        looked, so_far = j + 1, T[: j + 1, : j + 1]
        if not (ends and not _settled(so_far, rest, tolerance, count, sides)) and not (
            moments and _pays(so_far, rest, tolerance, since)
        ):
            break
    info, k = torch.finfo(A.like.dtype), j + 1
    precision, grid = max(info.eps, EPS), max(info.tiny * info.eps, SMALLEST)
    return Krylov(basis.rows[:k].T, T[:k, :k].clone(), rest, precision, random, grid)


def _pays(T: Float64[Tensor, "k k"], rest: float, tolerance: float, since: int) -> bool:
    """Whether steps since the last look made the trace cheaper to sample by more than they cost.

    A step takes the squares of its row and column out of the Frobenius norm of the rest, twice
    which is the variance of a sample; `(tolerance × trace)²` of it costs one sample. The trace is
    at least what was seen of it, where the curvature is mostly upwards.
    """
    if len(T) <= since:
        return True
    before = T[:-since, :-since]
    taken = float(T.square().sum() - before.square().sum())
    beyond = 2 * rest**2 - 2 * float(T[:-since, -since:].square().sum())  # moved, not taken
    return 2 * (taken + beyond) > since * (tolerance * abs(float(T.trace()))) ** 2


def _settled(
    T: Float64[Tensor, "k k"], rest: float, tolerance: float, count: int, sides: Sides
) -> bool:
    """Whether residuals, squared over the gap, say that the outermost values are accurate."""
    if len(T) < 2 * count + 2:
        return False
    values, vectors = torch.linalg.eigh(T)
    residuals = rest * vectors[-1].abs()
    size = values.abs().max().item() * tolerance
    above = (values[1:] - values[:-1]).clamp_min(1e-300)
    top, bottom = (slice(-count, None), above[-count:]), (slice(count), above[:count])
    for chosen, gaps in {"both": (top, bottom), "top": (top,), "bottom": (bottom,)}[sides]:
        r = residuals[chosen]
        if torch.minimum(r, r.square() / gaps).max().item() > size:
            return False
    return True


@dataclass(frozen=True, slots=True, repr=False)
class Ends(Brief):
    """The outermost eigenvalues and their vectors.

    Attributes:
        top: The largest, in descending order.
        bottom: The smallest, in ascending order.
        above: Eigenvectors of `top`, as columns.
        below: Eigenvectors of `bottom`, as columns.
    """

    top: tuple[Estimate, ...]
    bottom: tuple[Estimate, ...]
    above: Float64[Tensor, "n count"]
    below: Float64[Tensor, "n count"]


def extreme_eigenvalues(
    A: Float[Tensor, "n n"] | Operator | Krylov,
    *,
    count: int = 1,
    steps: int = 64,
    tolerance: float = 1e-9,
    sides: Sides = "both",
    towards: Float64[Tensor, " n"] | None = None,
    risk: float = 1e-3,
    generator: torch.Generator | None = None,
) -> Ends:
    """The `count` largest and smallest eigenvalues of a symmetric `A`.

    Lanczos values lie inside the spectrum, so that they bound the largest eigenvalue from below;
    the other end holds with the stated risk over the random start, and closes as the run converges.

    Args:
        A: A symmetric matrix, solved completely; an operator; or its Krylov space.
        count: How many on each side.
        steps: Products to spend on an operator; with as many as columns, it is exact.
        tolerance: Stop early as for `krylov_space`.
        sides: Which have to settle for that.
        towards: Where to start, as for `krylov_space`.
        risk: Chance, for each end, that the random start hides it from an unfinished run.
        generator: Source of the random start.

    Returns:
        In the unit of the entries.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        Refusal: If `A` is not square or finite, a tensor not symmetric, `count` below 1 or above
            half the steps, or `risk` not in (0, 1).

    Source:
        Lanczos 1950; van Dorsselaer, Hochstenbach & van der Vorst 2000 for the other end.

    Example:
        >>> extreme_eigenvalues(torch.diag(torch.tensor([3.0, 1.0, -2.0]))).bottom[0].value
        -2.0
    """
    require_between(risk, EPS, 1, name="risk", instead="It is a chance, e.g. 0.001.")
    if isinstance(A, Tensor):
        require_symmetric(A, name="A")
        A = A.detach().double().cpu()
        A = Krylov(torch.eye(len(A), dtype=torch.float64), (A + A.mT) / 2, 0.0, EPS)
    elif isinstance(A, Operator):
        A = krylov_space(
            A,
            steps=steps,
            tolerance=tolerance,
            count=count,
            sides=sides,
            towards=towards,
            generator=generator,
        )
    if not 1 <= count <= A.steps:
        raise Refusal(
            f"`count` must be from 1 to the {A.steps} steps that were taken, got {count}. Ask for "
            "fewer, or spend more steps."
        )
    values, vectors, residuals = A.ritz()
    slack = A.rounding
    beyond = [_beyond(values, A, risk), _beyond(-values.flip(0), A, risk)]
    risk = 0.0 if A.complete else risk
    above, below = [], []
    for i in range(count):
        theta, r = values[-1 - i].item(), residuals[-1 - i].item()
        high = theta + slack if A.complete else values[-1].item() + beyond[0] + slack
        above.append(Estimate(theta, theta - slack, high, _how(A, r), risk))
        theta, r = values[i].item(), residuals[i].item()
        low = theta - slack if A.complete else values[0].item() - beyond[1] - slack
        below.append(Estimate(theta, low, theta + slack, _how(A, r), risk))
    inside = vectors.to(A.basis.device)
    return Ends(
        tuple(above),
        tuple(below),
        A.basis @ inside[:, -count:].flip(1),
        A.basis @ inside[:, :count],
    )


def _beyond(theta: Float64[Tensor, " k"], space: Krylov, risk: float) -> float:
    """How far the largest eigenvalue may lie beyond the largest Ritz value.

    `c² Π (λ - θ_i)² <= Π β_j²` for an eigenvalue λ on whose vector the start has the component c,
    since the monic polynomial with the Ritz values as roots is smallest on the start; and c² is
    that of a uniformly random direction, of which the start has a known share. What else it holds
    moves c, whose chance to be near zero is largest without (Anderson 1955).
    """
    n, k = space.basis.shape
    if space.complete:
        return 0.0
    size = theta.abs().max().item() or 1.0
    steps = torch.cat([space.matrix.diagonal(1), theta.new_tensor([space.rest])]) / size
    floor = 2 * space.rounding / size
    if bool((steps <= floor).any()):  # the start has no component on any other eigenvector
        return 0.0
    component = float(scipy.special.betaincinv(0.5, (n - 1) / 2, risk)) * space.random**2
    target = float(steps.log().sum()) - 0.5 * math.log(component)
    gaps = (theta[-1] - theta) / size

    def excess(s: float) -> float:
        """Minus infinity where nothing is left, which is far enough below."""
        return float((gaps + math.exp(s)).log().sum()) - target

    highest = target / k  # as if all Ritz values were the largest
    lowest = highest - 1.0
    while excess(lowest) > 0:
        lowest = 2 * lowest - highest
    root = scipy.optimize.root_scalar(excess, bracket=(lowest, highest + 1e-9)).root
    return size * math.exp(root)


def _how(space: Krylov, residual: float) -> str:
    if space.complete:
        return "exact"
    return f"lanczos(steps={space.steps}, residual={residual:.1e})"
