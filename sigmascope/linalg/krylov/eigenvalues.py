"""The outermost eigenvalues of symmetric matrices and operators."""

import math
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.krylov.lanczos import Krylov, Sides, krylov_space
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.refusals import require_between, require_symmetric
from sigmascope.records import Estimate


@dataclass(frozen=True, slots=True)
class Ends:
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
        ValueError: If `A` is not square or finite, a tensor not symmetric, `count` below 1 or above
            half the steps, or `risk` not in (0, 1).

    Source:
        Lanczos 1950; van Dorsselaer, Hochstenbach & van der Vorst 2000 for the other end.

    Example:
        >>> extreme_eigenvalues(torch.diag(torch.tensor([3.0, 1.0, -2.0]))).bottom[0].value
        -2.0
    """
    require_between(risk, 2.0**-52, 1, name="risk", instead="It is a chance, e.g. 0.001.")
    if isinstance(A, Tensor):
        require_symmetric(A, name="A")
        A = A.detach().double().cpu()
        A = Krylov(torch.eye(len(A), dtype=torch.float64), (A + A.mT) / 2, 0.0, 2.0**-52)
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
        raise ValueError(
            f"`count` must be from 1 to the {A.steps} steps that were taken, got {count}. Ask for "
            "fewer, or spend more steps."
        )
    return _ends(A, count, risk)


def _ends(space: Krylov, count: int, risk: float) -> Ends:
    values, vectors, residuals = space.ritz()
    slack = space.rounding
    beyond = [_beyond(values, space, risk), _beyond(-values.flip(0), space, risk)]
    risk = 0.0 if space.complete else risk
    above, below = [], []
    for i in range(count):
        theta, r = values[-1 - i].item(), residuals[-1 - i].item()
        high = theta + slack if space.complete else values[-1].item() + beyond[0] + slack
        above.append(Estimate(theta, theta - slack, high, _how(space, r), risk))
        theta, r = values[i].item(), residuals[i].item()
        low = theta - slack if space.complete else values[0].item() - beyond[1] - slack
        below.append(Estimate(theta, low, theta + slack, _how(space, r), risk))
    inside = vectors.to(space.basis.device)
    return Ends(
        tuple(above),
        tuple(below),
        space.basis @ inside[:, -count:].flip(1),
        space.basis @ inside[:, :count],
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
    gaps = ((theta[-1] - theta) / size).numpy()

    def excess(s: float) -> float:
        with np.errstate(divide="ignore"):  # the logarithm of nothing is far enough below
            return float(np.log(gaps + math.exp(s)).sum()) - target

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
