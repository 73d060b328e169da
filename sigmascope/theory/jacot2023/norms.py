"""What the norm of the parameters must be at least: Theorem 3 and Theorem 6."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Assumption, Brief, Estimate, Sense, Spectrum, entrywise, largest
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.spectra import spectrum
from sigmascope.models.structure import Point, Stack
from sigmascope.theory.jacot2023.constructions import SOURCE
from sigmascope.theory.jacot2023.facts import (
    OfStacks,
    frobenius_norm,
    largest_cost,
    log_volume,
    parameter_norm,
    points,
    schatten_cost,
    singular_values,
    spectral_norm,
    weight_norm,
)
from sigmascope.theory.jacot2023.tangents import balance, ntk_norm

ROUNDS = 200  # of balancing: the norm falls with each, and every end is attained by weights
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


def representation_cost(stack: Stack, inputs: Float64[Tensor, "n d"]) -> Estimate:
    """What the function of a network costs at its depth, `R(f; L)`, between two proven ends.

    At least what a linear map with the singular values of the Jacobian costs, at the input where
    that is most; at most the squared norm of these weights, balanced. The two meet for a linear map
    on a positive orthant that is balanced, and elsewhere how far they are apart tells how much
    dearer these weights may be than need be.

    Args:
        stack: A network.
        inputs: Inside of the domain on which its function counts: points where it is linear.

    Returns:
        The upper end as the value, for that is attained by weights at hand.

    Raises:
        Refusal: If there are no inputs.

    Source:
        Jacot 2023, Sec. 2.1, and Theorem 3 at finite depth.
    """
    if not len(inputs):
        raise Refusal("`inputs` must hold a point of the domain, got none. Pass some.")
    least = [schatten_cost(singular_values(stack.at(x).spectrum), stack.depth) for x in inputs]
    high = min(parameter_norm(each).high for each in (stack, balance(stack, rounds=ROUNDS)))
    low = max(0.0, *(each.low for each in least))
    how = f"balanced weights, Jacobians at {len(inputs)} points"
    return Estimate(high, min(low, high), high, how)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Frames(Brief):
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
        Refusal: If k is not between 1 and the number of known singular values.

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
        raise Refusal(
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
    return replace(frobenius_norm(apart, rounding + 2 * skew), how="of the frames found") ** 2


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
    """The same for ReLU with one frame a layer, as in the paper's main text.

    Measured is `Σ ‖W_l - V_l V_{l-1}ᵀ‖_F²` with `V_l = polar(D_l W_l V_{l-1})`.
    """

    name: ClassVar[str] = "bottleneck-one-frame"
    source: ClassVar[str] = f"{SOURCE}, Theorem 6, main text, with V_l V_{{l-1}}ᵀ"
    statement: ClassVar[str] = "Σ ‖W_l - V_l V_{l-1}ᵀ‖² ≤ Σ ‖W_l‖² - kL - 2 log|Jf(x)|_+"
    relu_only: ClassVar[bool] = True

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        s, V = _start(point, None)
        distance, bound = Estimate.exactly(0.0), _bound(point, s, V)
        for W, d in zip(point.stack.weights, point.slopes, strict=True):
            above = polar(d[:, None] * (W @ V))
            distance = distance + _distance(W, above, V)
            V = above
        return distance, bound


# ------------------------------------------------------------------------------
# The second correction of a product: Proposition 4, where it can be checked.


@final
@dataclass(frozen=True, slots=True)
class ProductCorrection(OfStacks):
    """How irregular a product of linear layers is, is at most what its layers are together.

    The square root of the second correction is a distance from isometries, which adds up along a
    composition whose first corrections add up. Equal ranks alone do not do: a product that passes
    less than its layers keep is more irregular than they are.
    """

    name: ClassVar[str] = "product-correction"
    source: ClassVar[str] = f"{SOURCE}, Prop. 4 (1), for linear layers of one rank"
    statement: ClassVar[str] = "√R2(W_L ⋯ W_1) ≤ Σ √R2(W_l), R2(A) = 2 Σ log² s_i(A)"

    def more(self) -> tuple[Assumption, ...]:
        assert self.point is not None
        linear = Assumption("the network is linear", self.point.stack.slope == 1)
        if not linear.met:
            return (linear,)
        spectra = self.point.stack.spectra
        whole = (*spectra, self.point.spectrum)
        ranks = [len(singular_values(s)) for s in whole]
        # whether the singular values that are not known are zero for certain, for there are none
        known = all((k == len(s.sigma)) for s, k in zip(whole, ranks, strict=True))
        said = f"the product has the rank of every layer (ranks {', '.join(map(str, ranks))})"
        alike = len(set(ranks)) == 1
        same = Assumption(said, alike if known or not alike else None)
        # the logarithm of the product is for certain the sum of those of its layers where the rank
        # is the width of every hidden layer, as determinants multiply; elsewhere numbers can refute
        # it, and never prove it
        apart = log_volume(singular_values(self.point.spectrum))
        for s in spectra:
            apart = apart - log_volume(singular_values(s))
        hidden = [len(W) for W in self.point.stack.weights[:-1]]
        refuted = apart.low > 0 or apart.high < 0
        met = False if refuted else True if all(n == ranks[-1] for n in hidden) else None
        said = "the pseudo-determinants of the layers multiply, R1(fg) = R1(f) + R1(g)"
        return (linear, same, Assumption(said, met))

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        layers = map(_log_distance, point.stack.spectra)
        return _log_distance(point.spectrum), sum(layers, Estimate.exactly(0.0))

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["ProductCorrection"]:
        """Once: a linear network is the same everywhere."""
        if stack.slope == 1 and len(rows):
            yield cls("network", stack.at(rows[0]))


def _log_distance(s: Spectrum) -> Estimate:
    """`√R2`."""
    squares = (e.log() ** 2 for e in singular_values(s))
    return (2 * sum(squares, Estimate.exactly(0.0))).sqrt()


# ------------------------------------------------------------------------------
# What it costs that the Jacobian differs between two inputs.


@dataclass(frozen=True, slots=True)
class _OfPairs(OfStacks):
    """A theorem about two inputs.

    Attributes:
        other: The network at the second input.
    """

    relu_only: ClassVar[bool] = True

    other: Point | None = None

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["_OfPairs"]:
        """The theorem on a stack, for inputs that follow each other."""
        for (a, p), (b, q) in pairwise(points(stack, rows)):
            yield cls(f"{a} and {b}", p, "", q)


@final
@dataclass(frozen=True, slots=True)
class JacobianVariation(_OfPairs):
    """The norm pays for the Jacobians at two inputs, and for their difference."""

    name: ClassVar[str] = "jacobian-variation"
    source: ClassVar[str] = f"{SOURCE}, Prop. 13"
    statement: ClassVar[str] = (
        "Σ ‖W_l‖² ≥ (L ‖Jf(x)‖_{2/L}^{2/L} + L ‖Jf(y)‖_{2/L}^{2/L}) / 2 + C^{-2} ‖Jf(x) - Jf(y)‖_*"
    )
    sense: ClassVar[Sense] = "at least"

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        assert self.other is not None
        return weight_norm(point.stack), _variation(point, self.other, _constant(point, self.other))


def jacobian_variation_bound(
    first: Point, second: Point, *, constant: float | None = None
) -> float:
    """What the norm of a ReLU stack is at least, from the Jacobians at two inputs.

    Args:
        first: The stack at one input.
        second: At another.
        constant: C, at least 1: a bound on the norms of the derivatives of and by every layer; of
            the two chains if not given.

    Source:
        Jacot 2023, Prop. 13.
    """
    C = _constant(first, second) if constant is None else Estimate.exactly(constant)
    return _variation(first, second, C).value


def _variation(first: Point, second: Point, C: Estimate) -> Estimate:
    depth = first.stack.depth
    costs = [schatten_cost(singular_values(p.spectrum), depth) for p in (first, second)]
    s = spectrum(first.jacobian - second.jacobian, route="exact")
    gap = sum(p.errors.jacobian + EPS * float(p.jacobian.norm()) for p in (first, second))
    ends = (s.low - gap).clamp_min(0), s.high + gap
    apart = sum(entrywise(s.sigma, *ends, how=s.how), Estimate.exactly(0.0))
    return (costs[0] + costs[1]) / 2 + apart / C**2


def _constant(first: Point, second: Point) -> Estimate:
    """C of the two chains: the largest norm of a derivative of or by a layer, or 1."""
    norms = [Estimate.exactly(1.0)]
    for point in (first, second):
        weights, errors = point.stack.weights, point.errors
        # `∂z_l/∂x`, then `∂f/∂α_{l-1}`: the derivatives that end or begin before an activation
        chains = [W @ F for W, F in zip(weights, point.forwards, strict=True)]
        chains += [B @ W for W, B in zip(weights, point.backwards, strict=True)]
        norms += map(spectral_norm, chains, (*errors.chains, *errors.reads))
    return largest(*norms)


@final
@dataclass(frozen=True, slots=True)
class TangentOnSegments(_OfPairs):
    """Where no unit changes between two inputs, the tangent kernel is large at one of them."""

    name: ClassVar[str] = "ntk-on-segments"
    source: ClassVar[str] = f"{SOURCE}, Prop. 9 (2)"
    statement: ClassVar[str] = (
        "max(‖Θ(x,x)‖, ‖Θ(y,y)‖) ≥ (L/4) ‖x-y‖² ‖Jf u‖^{2-2/L}, u = (y-x)/‖y-x‖"
    )
    sense: ClassVar[Sense] = "at least"

    def more(self) -> tuple[Assumption, ...]:
        assert self.point is not None
        assert self.other is not None
        units = list(zip(self.point.preactivations, self.other.preactivations, strict=True))[:-1]
        same = all(bool(((a > 0) == (b > 0)).all()) for a, b in units)
        decided = self.point.errors.decided and self.other.errors.decided
        apart = bool((self.point.x != self.other.x).any())
        met = same and apart
        said = "no unit changes its side between the inputs"
        return (Assumption(said, met if decided or not apart else None),)

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        assert self.other is not None
        step, depth = self.other.x - point.x, point.stack.depth
        gap = EPS * float(point.x.norm() + self.other.x.norm())
        size = frobenius_norm(step, gap)
        moved = point.jacobian @ step
        spread = point.errors.jacobian + (len(step) + 2) * EPS * float(point.jacobian.norm())
        top = spectral_norm(point.jacobian, point.errors.jacobian).high
        slope = (frobenius_norm(moved, spread * size.high + gap * top) / size).at_least(0.0)
        limit = depth / 4 * size**2 * slope ** (2 - Fraction(2, depth))
        return largest(*(ntk_norm(p) for p in (point, self.other))), limit
