"""What the norm of the parameters must be at least: Theorem 3 and Theorem 6."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.spectra import spectrum
from sigmascope.probes.structure import Point
from sigmascope.records import Estimate, Sense, entrywise
from sigmascope.theory.jacot2023.constructions.linear_maps import EPS, SOURCE
from sigmascope.theory.jacot2023.facts import (
    OfStacks,
    largest_cost,
    log_volume,
    schatten_cost,
    singular_values,
    weight_norm,
)

STEPS = 4  # roundings of a step of the frames for each of a step of the Jacobian


@final
@dataclass(frozen=True, slots=True)
class JacobianCost(OfStacks):
    """The weights cost at least what a linear map with the Jacobian's singular values costs."""

    name: ClassVar[str] = "jacobian-cost"
    source: ClassVar[str] = f"{SOURCE}, Theorem 3, at finite depth"
    statement: ClassVar[str] = "Σ ‖W_l‖_F² ≥ L ‖Jf(x)‖_{2/L}^{2/L}"
    sense: ClassVar[Sense] = "at least"

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        s = singular_values(point.spectrum)
        return weight_norm(point.stack), schatten_cost(s, point.stack.depth)


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

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        s = singular_values(point.spectrum)
        return weight_norm(point.stack), largest_cost(s, point.stack.depth)


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
    per_layer: tuple[Estimate, ...]
    gaps: tuple[Estimate, ...]
    bound: Estimate

    @property
    def distance(self) -> Estimate:
        """What the bound bounds: of these frames, which is enough, for it says that some exist."""
        return sum((*self.per_layer, *self.gaps), Estimate.exactly(0.0))


def bottleneck_frames(point: Point, k: int | None = None) -> Frames:
    """The frames of Theorem 6, from the Jacobian's first right singular vectors forward.

    `U_l = polar(W_l V_l)` and `V_{l+1} = polar(D_l U_l)`. (Those that the printed proof names
    violate the bound.)

    Args:
        point: A stack at an input.
        k: How many directions; of all singular values that are known if not given.

    Raises:
        ValueError: If k is not between 1 and the number of known singular values.

    Source:
        Jacot 2023, Theorem 6, with two frames for each layer.
    """
    s, V = _start(point, k)
    into, out, per_layer, gaps = [], [], [], []
    layers = zip(point.stack.weights, point.slopes, strict=True)
    for layer, (W, d) in enumerate(layers, start=1):
        U = polar(W @ V)
        into.append(V)
        out.append(U)
        per_layer.append(_distance(W, U, V))
        if layer < point.stack.depth:
            gaps.append(len(s) - Estimate.sum_of_squares(d[:, None] * U))
            V = polar(d[:, None] * U)
    bound = _bound(point, s, into[0])
    return Frames(tuple(into), tuple(out), tuple(per_layer), tuple(gaps), bound)


def _start(point: Point, k: int | None) -> tuple[tuple[Estimate, ...], Tensor]:
    """The singular values that are counted, and their right singular vectors."""
    s = singular_values(point.spectrum)
    if not s or (k is not None and not 1 <= k <= len(s)):
        raise ValueError(
            f"`k` must be between 1 and the rank {len(s)} of the Jacobian here, got {k}. Take "
            "another input, or fewer directions."
        )
    s = s[:k]
    return s, torch.linalg.svd(point.jacobian, full_matrices=False)[2][: len(s)].mT


def _bound(point: Point, s: Sequence[Estimate], V: Tensor) -> Estimate:
    """`Σ ‖W_l‖_F² - k L - 2 log|Jf|_k`.

    Rounding made the directions `V` that the frames start from. What is proved of frames holds for
    any directions, with `|Jf V|` in the place of `|Jf|_k`, which is at least as large: so much
    higher the bound may be, where each step of the frames rounds as those of the Jacobian do.
    """
    room = weight_norm(point.stack) - len(s) * point.stack.depth
    exact = room - 2 * log_volume(tuple(s))
    along = spectrum(point.jacobian @ V, route="exact")
    gap = STEPS * point.errors.jacobian + (len(V) + 2) * EPS * float(point.jacobian.norm())
    ends = (along.low - gap).clamp_min(0), along.high + gap
    started = room - 2 * log_volume(entrywise(along.sigma, *ends, how=along.how))
    return Estimate(exact.value, exact.low, max(exact.high, started.high), exact.how)


def _distance(W: Tensor, U: Tensor, V: Tensor) -> Estimate:
    """`‖W - U Vᵀ‖_F²` for the orthonormal frames nearest to these."""
    apart = W - U @ V.mT
    rounding = (U.shape[1] + 2) * EPS * (float(U.norm()) * float(V.norm()) + float(W.norm()))
    skew = sum(float((F.mT @ F - torch.eye(F.shape[1], dtype=F.dtype)).norm()) for F in (U, V))
    size = Estimate.sum_of_squares(apart).sqrt()
    return (size + Estimate.within(0.0, rounding + 2 * skew, how="of the frames found")) ** 2


def polar(A: Float64[Tensor, "n k"]) -> Float64[Tensor, "n k"]:
    """The nearest matrix with orthonormal columns.

    Args:
        A: Of full column rank.

    Source:
        Higham 1986: `U Vᵀ` of the thin singular value decomposition.
    """
    U, _, Vh = torch.linalg.svd(A, full_matrices=False)
    return U @ Vh


@final
@dataclass(frozen=True, slots=True)
class BottleneckFrames(OfStacks):
    """Every layer is as near to an isometry of rank k as the norm leaves room for.

    The theorem says that frames exist. Measured are those that were found: the ones of its proof,
    up to what rounding turned them by, which is much where singular values nearly vanish.
    """

    name: ClassVar[str] = "bottleneck-frames"
    source: ClassVar[str] = f"{SOURCE}, Theorem 6, with two frames for each layer"
    statement: ClassVar[str] = (
        "Σ ‖W_l - U_l V_lᵀ‖² + Σ (k - ‖D_l U_l‖²) ≤ Σ ‖W_l‖² - kL - 2 log|Jf(x)|_+"
    )

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        found = bottleneck_frames(point)
        return found.distance, found.bound


@final
@dataclass(frozen=True, slots=True)
class OneFrame(OfStacks):
    """The same for ReLU with one frame a layer, as in the paper's main text."""

    name: ClassVar[str] = "bottleneck-one-frame"
    source: ClassVar[str] = f"{SOURCE}, Theorem 6, main text, with V_l V_{{l-1}}ᵀ"
    statement: ClassVar[str] = "Σ ‖W_l - V_l V_{l-1}ᵀ‖² ≤ Σ ‖W_l‖² - kL - 2 log|Jf(x)|_+"
    relu_only: ClassVar[bool] = True

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        return one_frame(point)


def one_frame(point: Point) -> tuple[Estimate, Estimate]:
    """`Σ ‖W_l - V_l V_{l-1}ᵀ‖_F²` with `V_l = polar(D_l W_l V_{l-1})`, and what bounds it.

    Args:
        point: A ReLU stack at an input.

    Source:
        Jacot 2023, Theorem 6, main text.
    """
    s, V = _start(point, None)
    distance, bound = Estimate.exactly(0.0), _bound(point, s, V)
    for W, d in zip(point.stack.weights, point.slopes, strict=True):
        above = polar(d[:, None] * (W @ V))
        distance = distance + _distance(W, above, V)
        V = above
    return distance, bound
