"""Whether points can be rotated into the positive orthant of some space: complete positivity."""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, final

import numpy as np
import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

Answer = Literal["yes", "no", "unknown"]
DRAWN = 400  # random directions of the dual cone that are tried beside its edges
EDGES = 20_000  # subsets of points whose common normal is tried as an edge
NEAR = 1e-8
ROUNDINGS = 4  # of the coordinates, for each of them, by which an inner product may be negative


@final
@dataclass(frozen=True, slots=True)
class CompletePositivity:
    """The answer, with what proves it.

    Attributes:
        answer: `"yes"`, `"no"` or `"unknown"`.
        embedding: `O` with `OᵀO` the projection on the span and `O X ≥ 0`; of a yes.
        pair: The rows of two points of negative inner product; of a no.
    """

    answer: Answer
    embedding: Float64[Tensor, "m d"] | None = None
    pair: tuple[int, int] | None = None


def complete_positivity(
    X: Float[Tensor, "n d"], *, generator: torch.Generator | None = None
) -> CompletePositivity:
    """Whether some isometry of the span takes every point into a positive orthant.

    Equivalently, whether the Gram matrix is completely positive. Three answers: negative inner
    products rule it out; an embedding proves it, up to 1e-8 of the sizes of the points; else it is
    unknown, for the question is NP-hard. An inner product that is negative by no more than rounding
    of the points themselves rules out nothing.

    Args:
        X: A row a point.
        generator: Draws directions of the dual cone; a fixed one of its own if not given.

    Raises:
        ValueError: If a coordinate is not finite.

    Source:
        Jacot 2023, Theorem 3 (3); Berman & Shaked-Monderer 2003.

    Example:
        >>> complete_positivity(torch.tensor([[1.0, 0.0], [-1.0, 0.1]])).answer
        'no'
    """
    _require_finite(X)
    rounding = ROUNDINGS * X.shape[1] * torch.finfo(X.dtype).eps
    X = X.detach().double().cpu()
    there = (X.norm(dim=1) > 0).nonzero()[:, 0]
    X = X[there]
    if not len(X):
        return CompletePositivity("yes", X.new_zeros(1, X.shape[1]))
    X = X / X.norm(dim=1, keepdim=True)
    gram = X @ X.mT
    least = float(gram.min())
    if least < -rounding:
        first, second = divmod(int(gram.argmin()), len(X))
        return CompletePositivity("no", pair=(int(there[first]), int(there[second])))
    if least < -NEAR:
        return CompletePositivity("unknown")
    _, s, Vh = torch.linalg.svd(X, full_matrices=False)
    basis = Vh[s > 1e-12 * s[0]]
    points = X @ basis.mT  # in coordinates of the span
    found = _axis(points)
    if found is None:
        found = _by_rays(points, generator or torch.Generator().manual_seed(0))
    if found is None:
        return CompletePositivity("unknown")
    return CompletePositivity("yes", found @ basis)


def _require_finite(X: Tensor) -> None:
    if not bool(X.isfinite().all()):
        at = int((~X.isfinite()).any(1).nonzero()[0])
        raise ValueError(
            f"`X` must be finite points, got one that is not in row {at}. Leave it out, or find "
            "the step that made it."
        )


def _axis(X: Tensor) -> Tensor | None:
    """A rotation that takes the middle of a narrow cone to the diagonal of the orthant."""
    k = X.shape[1]
    # the direction of largest least inner product is that of the shortest point of the hull
    A = np.vstack([X.numpy().T, 1e3 * np.ones(len(X))])
    weights, _ = scipy.optimize.nnls(A, np.r_[np.zeros(k), 1e3], maxiter=50 * len(X))
    u = torch.from_numpy(weights) @ X
    if float(u.norm()) < 1e-9:
        return None
    u = u / u.norm()
    if float((X @ u).min()) < math.sqrt((k - 1) / k):
        return None
    diagonal = torch.full((k,), 1 / math.sqrt(k), dtype=X.dtype)
    rotation = _rotation(u, diagonal)
    return rotation if float((X @ rotation.mT).min()) > -NEAR else None


def _rotation(a: Tensor, b: Tensor) -> Tensor:
    """An orthogonal matrix that takes one unit vector to another: a reflection."""
    v = a - b
    eye = torch.eye(len(a), dtype=a.dtype)
    return eye if float(v.norm()) < 1e-12 else eye - 2 * torch.outer(v, v) / float(v @ v)


def _by_rays(X: Tensor, generator: torch.Generator) -> Tensor | None:
    """`I = Σ c_j o_j o_jᵀ` with directions of the dual cone, by non-negative least squares."""
    k = X.shape[1]
    rays = _edges(X)
    if len(rays):
        mixes = torch.rand(DRAWN, len(rays), generator=generator, dtype=X.dtype)
        mixes = mixes * (torch.rand(mixes.shape, generator=generator) < 3 / len(rays))
        rays = torch.cat([rays, mixes @ rays])
    rays = rays[rays.norm(dim=1) > 1e-9]
    if not len(rays):
        return None
    rays = rays / rays.norm(dim=1, keepdim=True)
    products = (rays[:, :, None] * rays[:, None]).flatten(1)
    c, residual = scipy.optimize.nnls(products.numpy().T, np.eye(k).ravel(), maxiter=50 * len(rays))
    if residual > NEAR:
        return None
    weights = torch.from_numpy(c)
    chosen = weights > 0
    found = weights[chosen].sqrt()[:, None] * rays[chosen]
    return found if float((X @ found.mT).min()) > -NEAR else None


def _edges(X: Tensor) -> Tensor:
    """Extreme rays of the dual cone: normal to `k - 1` points, and on the right side of all."""
    n, k = X.shape
    if k == 1:
        return X[:1].sign()
    if math.comb(n, k - 1) > EDGES:
        return X.new_zeros(0, k)
    found = []
    for chosen in combinations(range(n), k - 1):
        normal = torch.linalg.svd(X[list(chosen)])[2][-1]
        for ray in (normal, -normal):
            if float((X @ ray).min()) > -1e-10:
                found.append(ray)
    return torch.stack(found) if found else X.new_zeros(0, k)
