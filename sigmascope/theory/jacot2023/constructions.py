"""Networks built by hand, and what they cost: examples that make statements sharp."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal, final

import numpy as np
import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief, Estimate
from sigmascope.linalg.spectra import spectrum
from sigmascope.models.structure import Stack

__all__ = [
    "CompletePositivity",
    "RankOneFit",
    "SymmetryTask",
    "added",
    "balanced_factors",
    "complete_positivity",
    "composed",
    "corrections",
    "identity_stack",
    "linear_cost",
    "linear_stack",
    "rank_one_fit_scaling",
    "statistics_moved",
    "symmetry_task",
]

# ------------------------------------------------------------------------------
# The representation cost of linear maps, and its expansion at large depth.


SOURCE = "Jacot 2023"
ROOM = 8  # roundings of the largest singular value, for each row or column, that count as zero


def positive(A: Float[Tensor, "m n"]) -> Float64[Tensor, " k"]:
    """Singular values that are not rounding, of the precision that the matrix is given in."""
    s = spectrum(A.detach().cpu(), route="exact").sigma
    return s[s > ROOM * max(A.shape) * torch.finfo(A.dtype).eps * s[0]]


def linear_cost(A: Float[Tensor, "m n"], depth: int) -> Estimate:
    """Least `Σ ‖W_l‖_F²` of linear networks `W_L ... W_1 = A`: `L Σ s_i^{2/L}`.

    Args:
        A: The linear map.
        depth: L, from 1.

    Raises:
        Refusal: If the depth is below 1.

    Source:
        Jacot 2023, Sec. 2.1; Dai et al. 2021.

    Example:
        >>> linear_cost(torch.eye(3), 5).value
        15.0
    """
    if depth < 1:
        raise Refusal(f"`depth` must be 1 or more, got {depth}. It is the number of layers.")
    return Estimate.rounded(schatten_cost(positive(A), depth), ulps=64 * depth)


def schatten_cost(s: Float64[Tensor, " k"], depth: int) -> float:
    """`L Σ s^{2/L}`: what a linear map of these singular values costs."""
    return float((depth * s.pow(2 / depth)).sum())


def corrections(A: Float[Tensor, "m n"]) -> tuple[int, float, float]:
    """`R0`, `R1` and `R2` of the cost `L R0 + R1 + R2 / L + O(1 / L²)`.

    The rank, `2 log |A|_+` and `2 Σ log² s`.

    Args:
        A: The linear map; singular values below the rounding of its precision are taken as zero.

    Source:
        Jacot 2023, Sec. 2.1 and Prop. 4.
    """
    logs = positive(A).log()
    return len(logs), float(2 * logs.sum()), float(2 * logs.square().sum())


def balanced_factors(
    A: Float[Tensor, "m n"], depth: int, widths: Sequence[int] | None = None
) -> tuple[Float64[Tensor, "_ _"], ...]:
    """Factors `W_1` to `W_L` of least norm whose product is A.

    `W_l = U_l S^{1/L} U_{l-1}ᵀ` with semi-orthonormal `U_l`, so that `W_l W_lᵀ = W_{l+1}ᵀ W_{l+1}`.

    Args:
        A: The linear map.
        depth: L.
        widths: Of the hidden layers, `L - 1` numbers of at least the rank; the rank if not given.

    Raises:
        Refusal: If there are too few widths, or one is below the rank.

    Source:
        Jacot 2023, Sec. 2.1.
    """
    U, s, Vh = torch.linalg.svd(A.detach().double().cpu(), full_matrices=False)
    rank = len(positive(A))
    hidden = [rank] * (depth - 1) if widths is None else list(widths)
    if len(hidden) != depth - 1 or any(w < rank for w in hidden):
        raise Refusal(
            f"`widths` must be {depth - 1} numbers of at least the rank {rank}, got {hidden}. They "
            "are the widths of the hidden layers."
        )
    root = s[:rank].pow(1 / depth)
    frames = [Vh[:rank].mT, *(torch.eye(w, rank, dtype=torch.float64) for w in hidden), U[:, :rank]]
    return tuple((above * root) @ below.mT for below, above in pairwise(frames))


# ------------------------------------------------------------------------------
# What it costs to draw a function of one dimension through many points: Theorem 10.


STARTS = 4  # tours that are tried


@final
@dataclass(frozen=True, slots=True)
class RankOneFit:
    """A function of rank one through some points, run at one speed along the shortest path.

    Attributes:
        length: Of that path; `low` from nearest neighbours, `high` that of a path that was found.
        correction: `2 log ‖Jf‖` for inputs in an interval of length one: the first correction of
            the norm, at least.
        tangent: `Tr Θ / L` of a balanced network that is as steep, at large depth: `‖Jf‖²`.
    """

    length: Estimate
    correction: Estimate
    tangent: Estimate


def rank_one_fit_scaling(
    points: Float64[Tensor, "n d"], *, generator: torch.Generator | None = None
) -> RankOneFit:
    """How steep a function of one dimension must be that takes all of these values.

    N points that fill k dimensions need a path of length of the order `N^{1 - 1/k}`, so that
    underestimating the rank costs a kernel that grows with the number of samples.

    Args:
        points: Targets, a row a sample.
        generator: Chooses where tours start; from the first points without.

    Raises:
        Refusal: If there are fewer than three points, or all are the same.

    Source:
        Jacot 2023, Theorem 10: its exponents; its constant is not specified.

    Cost: of the order N² log N.
    """
    from sklearn.neighbors import NearestNeighbors

    Y = points.double().cpu()
    if len(Y) < 3 or float((Y - Y[0]).abs().max()) == 0:
        raise Refusal(
            f"`points` must be three or more that differ, got {tuple(points.shape)}. Pass the "
            "targets of a data set."
        )
    near = torch.from_numpy(
        NearestNeighbors(n_neighbors=3).fit(Y.numpy()).kneighbors(Y.numpy())[0]
    )[:, 1:]
    ends = near[:, 1].topk(2).values.sum()  # the two ends of a path have one neighbour only
    low = float(near.sum() - ends) / 2
    distance = torch.cdist(Y, Y)
    order = torch.randperm(len(Y), generator=generator) if generator else torch.arange(len(Y))
    high = min(_path(distance, int(start)) for start in order[:STARTS])
    length = Estimate(high, min(low, high), high, "2-opt tour; nearest neighbours from below")
    correction = _changed(length, lambda v: 2 * math.log(v) if v > 0 else -math.inf)
    return RankOneFit(length, correction, _changed(length, lambda v: v**2))


def _changed(of: Estimate, by: Callable[[float], float]) -> Estimate:
    return Estimate(by(of.value), by(of.low), by(of.high), of.how)


def _path(distance: Tensor, start: int) -> float:
    """Length of a greedy path, with crossings taken out while that shortens it."""
    d = distance.numpy()
    left = distance.clone()
    tour = [start]
    left[:, start] = math.inf
    for _ in range(len(distance) - 1):
        tour.append(int(left[tour[-1]].argmin()))
        left[:, tour[-1]] = math.inf
    order = torch.tensor(tour).numpy()
    moved = True
    while moved:
        moved = False
        for i in range(len(order) - 2):
            # reversing i+1 .. j exchanges edges (i, i+1), (j, j+1) for (i, j), (i+1, j+1)
            here, after = order[i], order[i + 1]
            froms, tos = order[i + 1 : -1], order[i + 2 :]
            gain = d[here, after] + d[froms, tos] - d[here, froms] - d[after, tos]
            best = int(gain.argmax())
            if gain[best] > 1e-9 * d[here, after]:
                j = i + 1 + best
                order[i + 1 : j + 1] = order[i + 1 : j + 1][::-1].copy()
                moved = True
    return float(d[order[:-1], order[1:]].sum())


# ------------------------------------------------------------------------------
# Whether points can be rotated into the positive orthant of some space: complete positivity.


Answer = Literal["yes", "no", "unknown"]
DRAWN = 400  # random directions of the dual cone that are tried beside its edges
EDGES = 20_000  # subsets of points whose common normal is tried as an edge
NEAR = 1e-8
ROUNDINGS = 4  # of the coordinates, for each of them, by which an inner product may be negative


@final
@dataclass(frozen=True, slots=True, repr=False)
class CompletePositivity(Brief):
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
        Refusal: If a coordinate is not finite.

    Source:
        Jacot 2023, Theorem 3 (3); Berman & Shaked-Monderer 2003.

    Example:
        >>> complete_positivity(torch.tensor([[1.0, 0.0], [-1.0, 0.1]])).answer
        'no'
    """
    if not bool(X.isfinite().all()):
        at = int((~X.isfinite()).any(1).nonzero()[0])
        raise Refusal(
            f"`X` must be finite points, got one that is not in row {at}. Leave it out, or find "
            "the step that made it."
        )
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
    # an orthogonal matrix that takes one unit vector to another: a reflection
    v = u - diagonal
    eye = torch.eye(len(u), dtype=u.dtype)
    rotation = eye if float(v.norm()) < 1e-12 else eye - 2 * torch.outer(v, v) / float(v @ v)
    return rotation if float((X @ rotation.mT).min()) > -NEAR else None


def _by_rays(X: Tensor, generator: torch.Generator) -> Tensor | None:
    """`I = Σ c_j o_j o_jᵀ` with directions of the dual cone, by non-negative least squares."""
    n, k = X.shape
    # its extreme rays are normal to `k - 1` points, and on the right side of all
    rays = X[:1].sign() if k == 1 else X.new_zeros(0, k)
    if k > 1 and math.comb(n, k - 1) <= EDGES:
        normals = (torch.linalg.svd(X[list(i)])[2][-1] for i in combinations(range(n), k - 1))
        sides = (ray for normal in normals for ray in (normal, -normal))
        found = [ray for ray in sides if float((X @ ray).min()) > -1e-10]
        rays = torch.stack(found) if found else rays
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


# ------------------------------------------------------------------------------
# ReLU networks that represent linear maps at the cost of linear ones.


def identity_stack(points: Float[Tensor, "n d"], depth: int) -> Stack:
    """A ReLU network that is the identity on some points, of squared norm exactly `k L`.

    `W_1 = O`, projections on the image of O, and `W_L = Oᵀ`, for the embedding O of the points in a
    positive orthant; k is the dimension of their span.

    Args:
        points: A row a point; completely positive.
        depth: L, from 2.

    Raises:
        Refusal: If no embedding is found, or the depth is below 2.

    Source:
        Jacot 2023, Prop. 5.
    """
    _require_depth(depth)
    embedding = _embedding(points, "the points")
    project = embedding @ embedding.mT
    return _stack([embedding, *[project] * (depth - 2), embedding.mT])


def linear_stack(A: Float[Tensor, "m d"], points: Float[Tensor, "n d"], depth: int) -> Stack:
    """A ReLU network that is a linear map on some points, at the cost `k L + 2 log|A|_+ + O(1/L)`.

    Its representations go from those of the input to those of the output: `B_l` stacks the two
    embeddings with weights `√(1 - l/L)` and `√(l/L)`, and `W_l = B_l B_{l-1}⁺`.

    Args:
        A: The linear map.
        points: A row a point; their projections on the row space of A, and their images, are
            completely positive and span k dimensions.
        depth: L, from 2.

    Raises:
        Refusal: If no embedding is found, or the depth is below 2.

    Source:
        Jacot 2023, Theorem 3 (3), with the interpolation in the direction that works.
    """
    _require_depth(depth)
    A, X = A.detach().double().cpu(), points.detach().double().cpu()
    rank = len(positive(A))
    rows = torch.linalg.svd(A, full_matrices=False)[2][:rank]
    into = _embedding(X @ rows.mT @ rows, "their projections on the row space")
    out = _embedding(X @ A.mT, "their images") @ A
    step = lambda t: torch.cat([(1 - t) ** 0.5 * into, t**0.5 * out])
    frames = [step(layer / depth) for layer in range(1, depth)]
    weights = [frames[0]]
    weights += [B @ torch.linalg.pinv(C) for C, B in pairwise(frames)]
    return _stack([*weights, A @ torch.linalg.pinv(frames[-1])])


def _require_depth(depth: int) -> None:
    if depth < 2:
        raise Refusal(f"`depth` must be 2 or more, got {depth}. One layer is the map itself.")


def _embedding(points: Tensor, what: str) -> Tensor:
    found = complete_positivity(points)
    if found.embedding is None:
        said = "they have a negative inner product" if found.answer == "no" else "none was found"
        raise Refusal(
            f"`points` must be completely positive, but for {what} {said}. Shift or restrict them "
            "so that all angles are acute."
        )
    return found.embedding


def _stack(weights: list[Tensor]) -> Stack:
    biases = tuple(torch.zeros(len(W), dtype=W.dtype) for W in weights)
    sites = tuple(f"layer {i}" for i in range(1, len(weights) + 1))
    return Stack(sites, tuple(weights), biases, 0.0, biased=False)


# ------------------------------------------------------------------------------
# Networks made of networks: what bounds the cost of compositions and sums from above.


def composed(first: Stack, then: Stack) -> Stack:
    """Two networks on top of each other: `x -> then(σ(first(x)))`, of the sum of their norms.

    It is `then ∘ first` where `then ∘ σ = then` on what `first` writes, for instance where that is
    not negative: then `R(then ∘ first; L₁ + L₂) <= R(then; L₂) + R(first; L₁)`.

    Raises:
        Refusal: If the second does not read what the first writes, or their activations differ.

    Source:
        Jacot 2023, Theorem 3 (1), with the activation between that its proof leaves out.
    """
    _require_one_slope(first, then)
    sites = (*(f"first, {s}" for s in first.sites), *(f"then, {s}" for s in then.sites))
    weights, biases = first.weights + then.weights, first.biases + then.biases
    return Stack(sites, weights, biases, first.slope, first.biased or then.biased)


def added(one: Stack, other: Stack) -> Stack:
    """Two networks side by side: the sum of their functions.

    Its squared norm is the sum of theirs and `2 <b, c>` of their last biases: `R(f + g; L) <=
    R(f; L) + R(g; L)` where these do not point the same way.

    Raises:
        Refusal: If their depths, inputs, outputs or activations differ, or there is one layer.

    Source:
        Jacot 2023, Theorem 3 (2), with the biases that its proof leaves out.
    """
    _require_one_slope(one, other)
    ends = [(s.depth, s.weights[0].shape[1], len(s.weights[-1])) for s in (one, other)]
    if ends[0] != ends[1] or one.depth < 2:
        raise Refusal(
            "Networks that are added must have as many layers, two or more, inputs and outputs as "
            f"each other, got {ends[0]} and {ends[1]}. Deepen one of them by the identity."
        )
    pairs = [*zip(one.weights, other.weights, strict=True)]
    middle = [torch.block_diag(A, B) for A, B in pairs[1:-1]]
    weights = torch.cat(pairs[0]), *middle, torch.cat(pairs[-1], 1)
    biases = [torch.cat(pair) for pair in zip(one.biases[:-1], other.biases[:-1], strict=True)]
    biases.append(one.biases[-1] + other.biases[-1])
    sites = tuple(f"layer {i}" for i in range(1, one.depth + 1))
    return Stack(sites, weights, tuple(biases), one.slope, one.biased or other.biased)


def _require_one_slope(one: Stack, other: Stack) -> None:
    if one.slope != other.slope:
        raise Refusal(
            f"Both networks must have one activation, got slopes {one.slope:g} and "
            f"{other.slope:g} below zero. Rescale or rebuild one of them."
        )


# ------------------------------------------------------------------------------
# A task with a rotation symmetry: predict the costs that gradient descent will meet.


@final
@dataclass(frozen=True, slots=True, repr=False)
class SymmetryTask(Brief):
    """Starts of gradient descent on `‖v vᵀ - (w wᵀ + E)‖_F²`, and the costs along it.

    Attributes:
        axis: `w`, a unit vector; the costs hardly change by rotations around it.
        noise: `E`.
        rate: η of the steps.
        starts: `v(0)`, a row a sample.
        costs: `C(v(1))` to `C(v(T))`.
    """

    axis: Float64[Tensor, " d"]
    noise: Float64[Tensor, "d d"]
    rate: float
    starts: Float64[Tensor, "n d"]
    costs: Float64[Tensor, "n t"]

    def moved(self, v: Float64[Tensor, "n d"]) -> Float64[Tensor, "n d"]:
        """One step of gradient descent from each row."""
        E = (self.noise + self.noise.mT) / 2
        pulled = (v @ self.axis)[:, None] * self.axis + v @ E
        return v - 4 * self.rate * (v.square().sum(1, keepdim=True) * v - pulled)

    def cost(self, v: Float64[Tensor, "n d"]) -> Float64[Tensor, " n"]:
        """`C` of each row."""
        target = torch.outer(self.axis, self.axis) + self.noise
        size = v.square().sum(1)
        inner = ((v @ target) * v).sum(1)
        return size.square() - 2 * inner + target.square().sum()

    def statistics(self, v: Float64[Tensor, "n d"]) -> Float64[Tensor, "n 2"]:
        """`((wᵀ v)², ‖v - w wᵀ v‖²)`: all that the costs depend on where there is no noise."""
        along = (v @ self.axis).square()
        return torch.stack([along, v.square().sum(1) - along], 1)

    def orbits(
        self, v: Float64[Tensor, "n d"], count: int, *, generator: torch.Generator | None = None
    ) -> Float64[Tensor, "n c d"]:
        """Random rotations of each row around the axis.

        Args:
            v: Points.
            count: Of rotations of each.
            generator: Source of the rotations.
        """
        along = (v @ self.axis)[:, None]
        radius = (v - along * self.axis).norm(dim=1)[:, None, None]
        u = _around(self.axis, (len(v), count), generator)
        return along[:, None] * self.axis + radius * u


def symmetry_task(
    dimension: int = 10,
    *,
    steps: int = 20,
    rate: float = 0.02,
    noise: float = 0.01,
    samples: int = 4000,
    generator: torch.Generator | None = None,
) -> SymmetryTask:
    """Draw an axis, a noise, and starts around the axis, and run gradient descent from them.

    Starts are `a w + ρ u` with `a` normal and cut at ±1.5, ρ uniform up to 1.5 and `u` uniform on
    the unit sphere across the axis, so that both summary statistics vary in any dimension.

    Args:
        dimension: Of the vectors.
        steps: T, how many costs to predict.
        rate: Of gradient descent.
        noise: Spread of the entries of `√d E`.
        samples: How many starts.
        generator: Source of all draws.

    Raises:
        Refusal: If the dimension is below 2, or steps or samples below 1.

    Source:
        Jacot 2023, Sec. 5; the paper does not say how the starts are drawn.
    """
    if dimension < 2 or min(steps, samples) < 1:
        raise Refusal(
            f"`dimension` must be 2 or more, `steps` and `samples` 1 or more, got {dimension}, "
            f"{steps} and {samples}. An axis needs something to rotate around it."
        )
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    w = normal(dimension)
    w = w / w.norm()
    E = noise / math.sqrt(dimension) * normal(dimension, dimension)
    a = normal(samples, 1).clamp(-1.5, 1.5)
    rho = 1.5 * torch.rand(samples, 1, generator=generator, dtype=torch.float64)
    v = a * w + rho * _around(w, (samples,), generator)
    task = SymmetryTask(w, E, rate, v, v.new_zeros(samples, steps))
    for t in range(steps):
        v = task.moved(v)
        task.costs[:, t] = task.cost(v)
    return task


def statistics_moved(statistics: Float64[Tensor, "n 2"], rate: float) -> Float64[Tensor, "n 2"]:
    """One step of gradient descent, in the summary statistics alone; exact without noise.

    Args:
        statistics: `((wᵀ v)², ‖v_⊥‖²)`.
        rate: η.

    Source:
        Jacot 2023, Sec. 5, of discrete steps.
    """
    size = statistics.sum(1)
    along = 1 - 4 * rate * (size - 1)
    across = 1 - 4 * rate * size
    return statistics * torch.stack([along, across], 1).square()


def _around(
    w: Float64[Tensor, " d"], shape: tuple[int, ...], generator: torch.Generator | None
) -> Tensor:
    """Uniform on the unit sphere across an axis."""
    u = torch.randn(*shape, len(w), generator=generator, dtype=torch.float64)
    u = u - (u @ w)[..., None] * w
    return u / u.norm(dim=-1, keepdim=True)
