"""What is averaged over the layers of a chain."""

from dataclasses import dataclass
from typing import ClassVar

from sigmascope.networks.chains.draws import Weights
from sigmascope.records import Estimate


@dataclass(frozen=True, slots=True)
class ChainStatistics:
    """Time averages over the layers of a normalised chain, with `M = H Hᵀ / samples`.

    Attributes:
        participation_ratio: `E r(H)`, from 1 to the width.
        soft_rank: Mean count of eigenvalues of `M` that are at least `tau`.
        frobenius_sq: `E ‖M‖²`, from the width to its square.
        regularity: α, `E Tr(diag(M²)²) / E Tr(M³)`, at most 1 (Definition 3).
        drift: `E δ_F(M)`, what a layer adds to `‖M‖²` per `gamma²` to first order (Lemma 7); zero
            where the chain is stationary and `gamma` is small.
        width: Units of each layer.
        gamma: Strength of a layer beside its skip connection; infinite without one.
        weights: Law of the weights.
        samples: Columns of the batch.
        tau: Threshold of the soft rank.
        chains: How many independent chains were averaged over.
        layers: How many layers of each were averaged over, after the burn-in.
        burn_in: How many layers came before.
        rank: Of the batch that the chains started from, the least of all of them.
        settled: Whether the chains went through enough layers before to forget their start.
    """

    site: ClassVar[str] = "chain"

    participation_ratio: Estimate
    soft_rank: Estimate
    frobenius_sq: Estimate
    regularity: Estimate
    drift: Estimate
    width: int
    gamma: float
    weights: Weights
    samples: int
    tau: float
    chains: int
    layers: int
    burn_in: int
    rank: int
    settled: bool
