"""The quadratic form of the loss in one layer's weights, and bounds of its condition number."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Assumption, Brief, Estimate, Sense, Spectrum, entrywise, largest
from sigmascope.linalg.dense import EPS
from sigmascope.models import Subject
from sigmascope.theory.bounds import OfModels
from sigmascope.theory.riedi2022.intervals import SOURCE

KNOWN = 0.99  # a direction of the features counts if its size is known up to a hundredth
LARGEST = 4096  # rows of the matrix that `loss_curvature` writes out


@dataclass(frozen=True, slots=True, repr=False)
class LossCurvature(Brief):
    """`A = (1/G) Σ_g (z_g z_gᵀ) ⊗ (M_g D_g)ᵀ(M_g D_g)`, half the Hessian of the squared error.

    Attributes:
        lam: Its eigenvalues, descending.
        condition: `κ(Q)`, the root of the ratio of the largest and the smallest that is not zero.
        layer_factor: Largest over smallest singular value of all `M_g D_g`; infinite where one of
            them is not injective.
        data_factor: Condition number of `[z_1, z_2, ...]`.
        limit: (63'), their product, an upper bound of the condition number.
        printed_block_diagonal: What Lemma 8 as printed gives instead of `lam` for one sample,
            `s_i(MD)² z_j²`; None for more. It belongs to the block-diagonal part of A only.
    """

    lam: Float64[Tensor, " p"]
    condition: float
    layer_factor: float
    data_factor: float
    limit: float
    printed_block_diagonal: Float64[Tensor, " p"] | None


def loss_curvature(MDs: Sequence[Float[Tensor, "k n"]], Z: Float[Tensor, "g q"]) -> LossCurvature:
    """The exact quadratic form of a mini-batch in the weights `[n, q]` of one layer.

    Args:
        MDs: The derivative of the output by what the layer writes, for every sample.
        Z: What the layer reads, a row for each sample.

    Raises:
        Refusal: If the sizes do not fit, or `n q` is above 4096.

    Source:
        Riedi et al. 2022, section 3, with Lemma 8 corrected: `Q = zᵀ ⊗ M D`.

    Example:
        >>> found = loss_curvature([torch.eye(2)], torch.tensor([[1.0, 1.0]]))
        >>> found.lam.round(decimals=9).tolist(), found.printed_block_diagonal.tolist()
        ([2.0, 2.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0])
    """
    stack, Z = torch.stack([M.detach().double() for M in MDs]), Z.detach().double()
    n, q = stack.shape[2], Z.shape[1]
    if len(stack) != len(Z) or n * q > LARGEST:
        raise Refusal(
            f"`loss_curvature` needs one matrix for each of the {len(Z)} rows of `Z`, and "
            f"{LARGEST} weights at most, got {len(stack)} matrices and {n * q} weights. "
            "For a network use `models.Subject(...).conditioning`."
        )
    Q = torch.einsum("gkn,gq->gkqn", stack, Z).reshape(-1, q * n) / math.sqrt(len(Z))
    roots = torch.linalg.svdvals(Q)
    sigma = torch.linalg.svdvals(stack)
    injective = stack.shape[1] >= n and float(sigma.min()) > 64 * EPS * float(sigma.max())
    layer = float(sigma.max() / sigma.min()) if injective else math.inf
    data = _condition(torch.linalg.svdvals(Z))
    printed = None
    if len(Z) == 1:
        squares = torch.zeros(n, dtype=torch.float64)
        squares[: sigma.shape[1]] = sigma[0].square()
        printed = torch.outer(squares, Z[0].square()).flatten().sort(descending=True).values
    lam = torch.zeros(n * q, dtype=torch.float64)
    lam[: len(roots)] = roots.square()
    return LossCurvature(lam, _condition(roots), layer, data, layer * data, printed)


def _condition(sigma: Tensor) -> float:
    kept = sigma[sigma > 1e-12 * sigma[0]]
    return float(kept[0] / kept[-1]) if len(kept) else math.inf


def neuron_limit(
    Ms: Sequence[Float[Tensor, "k n"]], on: Float[Tensor, "g n"], Z: Float[Tensor, "g q"]
) -> float:
    """An upper bound of `κ(Q)` for ReLU layers some of whose units are off.

    `(C/c) √(max_k λ_max(S_k) / min_k λ_min*(S_k))`, with `S_k` the second moment of what the layer
    reads over those samples at which unit k is on, and `c ≤ s_n(M_g)`, `s_1(M_g) ≤ C`.

    Args:
        Ms: The layers after the activation, for every sample.
        on: 1 where a unit is on, 0 where it is off.
        Z: What the layer reads.

    Returns:
        Infinite where some `M_g` is not injective.

    Source:
        In place of Riedi et al. 2022, Cor. 11 (62), whose hypothesis no ReLU layer meets.
    """
    sigma = torch.linalg.svdvals(torch.stack([M.double() for M in Ms]))
    k, n = Ms[0].shape
    if k < n or float(sigma.min()) <= 64 * EPS * float(sigma.max()):
        return math.inf
    roots = [torch.linalg.svdvals(Z.double()[on[:, unit] > 0]) for unit in range(n)]
    kept = [r[r > 1e-12 * r.max()] for r in roots if r.numel() and float(r.max()) > 0]
    if not kept:
        return math.inf
    spread = max(float(r[0]) for r in kept) / min(float(r[-1]) for r in kept)
    return float(sigma.max() / sigma.min()) * spread


@final
@dataclass(frozen=True, slots=True)
class CurvatureFactors(OfModels):
    """The later layers and the features together bound how eccentric the loss is in one layer.

    Each of the r directions of the features whose size is known counts once for every unit of the
    layer, and all three factors count the same ones: which singular values are zero is decided
    once, and a value that rounding made is on neither side.
    """

    name: ClassVar[str] = "curvature-factors"
    source: ClassVar[str] = f"{SOURCE}, Cor. 11, corrected (58') and (63')"
    statement: ClassVar[str] = (
        "s₁(Q) / s_{rn}(Q) ≤ (max s₁(M_g D_g) / min sₙ(M_g D_g)) s₁(Z) / s_r(Z), Z = [z₁ z₂ …]"
    )
    sense: ClassVar[Sense] = "at most"
    views: ClassVar[tuple[str, ...]] = ("conditioning",)

    site: str
    root: tuple[Estimate, ...]
    layer: Estimate
    data: tuple[Estimate, ...]
    units: int
    uniform: bool = True

    @property
    def known(self) -> int:
        """r: how many directions of the features are known to be there."""
        return sum(e.low >= KNOWN * e.value > 0 for e in self.data)

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("every M_g D_g is injective", math.isfinite(self.layer.high)),
            Assumption("all units of the layer read the same features", self.uniform),
            Assumption("the features are not zero", self.known > 0),
        )

    def measured(self) -> Estimate:
        return self.root[0] / self.root[self.known * self.units - 1]

    def limit(self) -> Estimate:
        return self.layer * (self.data[0] / self.data[self.known - 1])

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["CurvatureFactors"]:
        try:
            found = subject.conditioning.found
        except Refusal:  # too many outputs, or a loss without a quadratic form
            return
        for one in found:
            if float(one.root.sigma[0]) > 0:
                units = one.parameters // one.features.shape[1]
                root, data = (_values(s) for s in (one.root, one.features))
                # largest over smallest singular value of all `M_g D_g`; infinite where one may be
                # zero
                k, n = one.layers[0].shape
                layer = Estimate(math.inf, 1.0, math.inf, one.layers[0].how)
                if k >= n:
                    every = [_values(s) for s in one.layers]
                    layer = largest(*(e[0] for e in every)) / -largest(*(-e[-1] for e in every))
                yield cls(one.site, root, layer, data, units, one.uniform)


def _values(s: Spectrum) -> tuple[Estimate, ...]:
    return entrywise(s.sigma, s.low, s.high, how=s.how)
