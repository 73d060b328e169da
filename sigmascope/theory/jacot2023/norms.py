"""What the norm of the parameters must be at least: Theorem 3 and Theorem 6."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg import Estimate
from sigmascope.probes import Point
from sigmascope.theory.bounds import Sense
from sigmascope.theory.jacot2023.facts import (
    OfStacks,
    least_norm,
    log_cost,
    rounded,
    singular_values,
)
from sigmascope.theory.jacot2023.linear import SOURCE, schatten_cost


@final
@dataclass(frozen=True, slots=True)
class JacobianCost(OfStacks):
    """The weights cost at least what a linear map with the Jacobian's singular values costs."""

    name: ClassVar[str] = "jacobian-cost"
    source: ClassVar[str] = f"{SOURCE}, Theorem 3, at finite depth"
    statement: ClassVar[str] = "Σ ‖W_l‖_F² ≥ L ‖Jf(x)‖_{2/L}^{2/L}"
    sense: ClassVar[Sense] = "at least"

    def left(self, point: Point) -> Estimate:
        return rounded(point.stack.weight_norm, point.stack.weight_norm)

    def right(self, point: Point) -> Estimate:
        value = schatten_cost(singular_values(point.jacobian), point.stack.depth)
        return rounded(value, point.stack.weight_norm)


@final
@dataclass(frozen=True, slots=True)
class JacobianRank(OfStacks):
    """The weights cost at least the depth for each direction, and twice the logarithm.

    For the number of largest singular values for which that is most.
    """

    name: ClassVar[str] = "jacobian-rank"
    source: ClassVar[str] = f"{SOURCE}, Theorem 3, truncated ranks included"
    statement: ClassVar[str] = "Σ ‖W_l‖_F² ≥ max_k' k' L + 2 log|Jf(x)|_{k'}"
    sense: ClassVar[Sense] = "at least"

    def left(self, point: Point) -> Estimate:
        return rounded(point.stack.weight_norm, point.stack.weight_norm)

    def right(self, point: Point) -> Estimate:
        value = least_norm(singular_values(point.jacobian), point.stack.depth)
        return rounded(value, point.stack.weight_norm)


@final
@dataclass(frozen=True, slots=True)
class Frames:
    """Orthonormal frames along which every layer of a bottleneck is nearly an isometry.

    Attributes:
        into: `V_1` to `V_L`: what each layer reads.
        out: `U_1` to `U_L`: what each layer writes.
        per_layer: `‖W_l - U_l V_lᵀ‖_F²`.
        gaps: `k - ‖D_l U_l‖_F²` of each activation.
        bound: What both add up to at most: `Σ ‖W_l‖_F² - k L - 2 log|Jf|_k`.
    """

    into: tuple[Float64[Tensor, "_ k"], ...]
    out: tuple[Float64[Tensor, "_ k"], ...]
    per_layer: tuple[float, ...]
    gaps: tuple[float, ...]
    bound: float


def bottleneck_frames(point: Point, k: int | None = None) -> Frames:
    """The frames of Theorem 6, from the Jacobian's first right singular vectors forward.

    `U_l = polar(W_l V_l)` and `V_{l+1} = polar(D_l U_l)`. (Those that the printed proof names
    violate the bound.)

    Args:
        point: A stack at an input.
        k: How many directions; all of the Jacobian's rank if not given.

    Raises:
        ValueError: If k is not between 1 and the rank of the Jacobian.

    Source:
        Jacot 2023, Theorem 6, with two frames for each layer.
    """
    s = singular_values(point.jacobian)
    k = _require_rank(k, len(s))
    V = torch.linalg.svd(point.jacobian, full_matrices=False)[2][:k].mT
    into, out, per_layer, gaps = [], [], [], []
    layers = zip(point.stack.weights, point.slopes, strict=True)
    for layer, (W, d) in enumerate(layers, start=1):
        U = polar(W @ V)
        into.append(V)
        out.append(U)
        per_layer.append(float((W - U @ V.mT).square().sum()))
        if layer < point.stack.depth:
            gaps.append(k - float((d[:, None] * U).square().sum()))
            V = polar(d[:, None] * U)
    bound = point.stack.weight_norm - log_cost(s[:k], point.stack.depth)
    return Frames(tuple(into), tuple(out), tuple(per_layer), tuple(gaps), bound)


def _require_rank(k: int | None, rank: int) -> int:
    if rank == 0 or (k is not None and not 1 <= k <= rank):
        raise ValueError(
            f"`k` must be between 1 and the rank {rank} of the Jacobian here, got {k}. Take "
            "another input, or fewer directions."
        )
    return rank if k is None else k


def polar(A: Float64[Tensor, "n k"]) -> Float64[Tensor, "n k"]:
    """The nearest matrix with orthonormal columns.

    Args:
        A: Of full column rank.

    Source:
        Higham 1986: `U Vᵀ` of the thin singular value decomposition.
    """
    U, _, Vh = torch.linalg.svd(A, full_matrices=False)
    return U @ Vh


@dataclass(frozen=True, slots=True)
class _OfFrames(OfStacks):
    """A theorem about what the norm leaves beyond an isometry of the Jacobian's rank."""

    def right(self, point: Point) -> Estimate:
        s = singular_values(point.jacobian)
        value = point.stack.weight_norm - log_cost(s, point.stack.depth)
        return rounded(value, point.stack.weight_norm)


@final
@dataclass(frozen=True, slots=True)
class BottleneckFrames(_OfFrames):
    """Every layer is as near to an isometry of rank k as the norm leaves room for."""

    name: ClassVar[str] = "bottleneck-frames"
    source: ClassVar[str] = f"{SOURCE}, Theorem 6, with two frames for each layer"
    statement: ClassVar[str] = (
        "Σ ‖W_l - U_l V_lᵀ‖² + Σ (k - ‖D_l U_l‖²) ≤ Σ ‖W_l‖² - kL - 2 log|Jf(x)|_+"
    )

    def left(self, point: Point) -> Estimate:
        found = bottleneck_frames(point)
        return rounded(sum(found.per_layer) + sum(found.gaps), point.stack.weight_norm)


@final
@dataclass(frozen=True, slots=True)
class OneFrame(_OfFrames):
    """The same for ReLU with one frame a layer, as in the paper's main text."""

    name: ClassVar[str] = "bottleneck-one-frame"
    source: ClassVar[str] = f"{SOURCE}, Theorem 6, main text, with V_l V_{{l-1}}ᵀ"
    statement: ClassVar[str] = "Σ ‖W_l - V_l V_{l-1}ᵀ‖² ≤ Σ ‖W_l‖² - kL - 2 log|Jf(x)|_+"
    relu_only: ClassVar[bool] = True

    def left(self, point: Point) -> Estimate:
        k = len(singular_values(point.jacobian))
        V = torch.linalg.svd(point.jacobian, full_matrices=False)[2][:k].mT
        total = 0.0
        for W, d in zip(point.stack.weights, point.slopes, strict=True):
            above = polar(d[:, None] * (W @ V))
            total += float((W - above @ V.mT).square().sum())
            V = above
        return rounded(total, point.stack.weight_norm)
