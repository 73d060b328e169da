"""How singular values move with the matrix."""

from collections.abc import Sequence
from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief
from sigmascope.linalg.refusals import require_finite, require_matrix, require_square

GAP = 1e-9  # of the largest: values closer than this, or to zero, count as multiple (as zero)
OVERLAP = 0.8  # squared, of singular vectors, above which a branch goes on without a doubt
HALVINGS = 24


@dataclass(frozen=True, slots=True, repr=False)
class SingularDerivative(Brief):
    """Singular values and how fast they move.

    Attributes:
        sigma: Descending.
        slope: Their derivatives; nan where there is none.
        simple: Whether the value is simple and not zero, so that there is one.
    """

    sigma: Float64[Tensor, " r"]
    slope: Float64[Tensor, " r"]
    simple: Bool[Tensor, " r"]


def singular_value_derivative(
    A: Float[Tensor, "m n"], dA: Float[Tensor, "m n"], *, gap: float = GAP
) -> SingularDerivative:
    """Derivatives of the singular values of `A` in the direction `dA`: `vᵢᵀ dA uᵢ`.

    Args:
        A: A finite matrix; `vᵢ` and `uᵢ` are its left and right singular vectors.
        dA: The direction.
        gap: Values closer to each other, or to 0, than this share of the largest have none.

    Raises:
        Refusal: If the shapes differ, or something is not finite.

    Source:
        Riedi et al. 2022, Cor. 7 (31).
    """
    require_matrix(A, name="A")
    require_finite(dA, name="dA")
    if dA.shape != A.shape:
        raise Refusal(
            f"`dA` must have the shape {tuple(A.shape)} of `A`, got {tuple(dA.shape)}. It is the "
            "direction in which `A` moves."
        )
    left, sigma, right = _svd(A)
    slope = torch.einsum("mr,mn,nr->r", left, dA.detach().double().cpu(), right)
    simple = _simple(sigma, gap)
    return SingularDerivative(sigma, slope.where(simple, torch.nan), simple)


@dataclass(frozen=True, slots=True, repr=False)
class SkipTrajectory(Brief):
    """The singular values of `M + ρ Id` against ρ, each followed through crossings.

    Attributes:
        rhos: Strengths of the skip connection, ascending.
        sigma: A column for each branch, in descending order at the first ρ.
        slope: `dσᵢ/dρ = uᵢᵀvᵢ`, the cosine between its singular vectors; nan where not `simple`.
        simple: Whether the value is simple and not zero there.
    """

    rhos: Float64[Tensor, " k"]
    sigma: Float64[Tensor, "k n"]
    slope: Float64[Tensor, "k n"]
    simple: Bool[Tensor, "k n"]

    @property
    def sorted(self) -> Float64[Tensor, "k n"]:
        """The values in descending order at every ρ."""
        return self.sigma.sort(dim=1, descending=True).values


def skip_trajectory(M: Float[Tensor, "n n"], rhos: Sequence[float]) -> SkipTrajectory:
    """Follow the singular values of `M + ρ Id`.

    Branches are matched by the overlap of their singular vectors; the step is halved, down to 2⁻²⁴
    of the distance given, until there is no doubt. So an avoided crossing is told from a crossing
    as long as its gap is not smaller than that.

    Args:
        M: Square and finite.
        rhos: At least one, ascending.

    Raises:
        Refusal: If `M` is not square and finite, or `rhos` not ascending.

    Source:
        Riedi et al. 2022, section 4: Eq. (44), Lemma 14 (66).

    Example:
        >>> t = skip_trajectory(torch.diag(torch.tensor([2.0, -1.0])), [0.0, 1.0, 2.0])
        >>> t.sigma.tolist(), t.slope[0].tolist()
        ([[2.0, 1.0], [3.0, 0.0], [4.0, 1.0]], [1.0, -1.0])
    """
    require_matrix(M, name="M")
    require_square((M.shape[0], M.shape[1]), name="M")
    at = torch.as_tensor(list(rhos), dtype=torch.float64)
    if len(at) == 0 or not bool((at.diff() > 0).all()) or not bool(at.isfinite().all()):
        raise Refusal(
            f"`rhos` must be ascending finite numbers, got {list(rhos)}. They are the strengths "
            "of the skip connection, e.g. [0, 0.5, 1]."
        )
    M = M.detach().double().cpu()
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    # values, slopes and whether they are simple, in the order of the branches
    strengths = at.tolist()
    held, last = _Frame.of(M, strengths[0]), strengths[0]
    for rho in strengths:
        held, last = _matched(M, held, _Frame.of(M, rho), last, rho, HALVINGS), rho
        found.append((held.sigma, (held.left * held.right).sum(0), _simple(held.sigma, GAP)))
    sigma, slope, simple = (torch.stack(part) for part in zip(*found, strict=True))
    return SkipTrajectory(at, sigma, slope.where(simple, torch.nan), simple)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A singular value decomposition, a column for each branch."""

    left: Tensor
    sigma: Tensor
    right: Tensor

    @classmethod
    def of(cls, M: Tensor, rho: float) -> "_Frame":
        return cls(*_svd(M + rho * torch.eye(len(M), dtype=M.dtype)))

    def near(self) -> Tensor:
        """Which values coincide, so that their vectors may be turned into each other."""
        gaps = (self.sigma[:, None] - self.sigma).abs()
        return gaps <= GAP * self.sigma.max()

    def ordered(self, order: Tensor) -> "_Frame":
        return _Frame(self.left[:, order], self.sigma[order], self.right[:, order])

    def turned(self, before: "_Frame") -> "_Frame":
        """Vectors of values that coincide turned towards those of the branches before."""
        left, right, near = self.left.clone(), self.right.clone(), self.near()
        for group in {tuple(row.nonzero()[:, 0].tolist()) for row in near}:
            of = list(group)
            toward = right[:, of].mT @ before.right[:, of] + left[:, of].mT @ before.left[:, of]
            U, _, Vh = torch.linalg.svd(toward)
            left[:, of], right[:, of] = left[:, of] @ (U @ Vh), right[:, of] @ (U @ Vh)
        return _Frame(left, self.sigma, right)


def _matched(M: Tensor, a: _Frame, b: _Frame, low: float, high: float, halvings: int) -> _Frame:
    """`b` in the order of the branches of `a`.

    A step over an avoided crossing looks like a crossing, so that whatever changes the order of the
    values is resolved as finely as can be.
    """
    # which value of `b` continues each of `a`, and whether there is no doubt
    shared = (a.left.mT @ b.left).square() + (a.right.mT @ b.right).square()
    shared = shared @ b.near().to(shared)
    _, best = scipy.optimize.linear_sum_assignment(-shared.numpy())
    order = torch.as_tensor(best)
    sure = bool((shared[torch.arange(len(order)), order] > 2 * OVERLAP).all())
    found = b.ordered(order)
    same_order = bool((found.sigma[a.sigma.argsort()].diff() >= -GAP * b.sigma.max()).all())
    if (sure and same_order) or halvings == 0 or low == high:
        return found.turned(a)
    middle = low + (high - low) * 0.4812  # not the half, where symmetric matrices like to cross
    between = _matched(M, a, _Frame.of(M, middle), low, middle, halvings - 1)
    return _matched(M, between, b, middle, high, halvings - 1)


def _svd(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    left, sigma, right = torch.linalg.svd(A.detach().double().cpu(), full_matrices=False)
    return left, sigma, right.mT


def _simple(sigma: Tensor, gap: float) -> Tensor:
    near = (sigma[:, None] - sigma).abs() <= gap * sigma[0]
    return (near.sum(0) == 1) & (sigma > gap * sigma[0])
