"""Whether a design of random layers collapses, asked without building it."""

import math
from dataclasses import dataclass

import torch

from sigmascope.core.guard import Progress, Refusal, door, require_room
from sigmascope.core.records import Check, Estimate, Shown
from sigmascope.linalg import zero_exponents
from sigmascope.theory import daneshmand2020
from sigmascope.theory.catalogue import check_chain
from sigmascope.theory.random_chains import (
    BatchNormChain,
    ChainStatistics,
    LinearChain,
    Weights,
    forgetting,
)

LARGEST = 1e6  # gamma; beyond it a skip connection adds nothing that float64 could tell
MOST = 20_000  # layers that a chain may take to forget its start


@dataclass(frozen=True, slots=True, repr=False)
class Prediction(Shown):
    """What random linear layers do to a batch, with and without batch normalisation.

    Attributes:
        width: Units of each layer.
        depth: Layers of the design.
        gamma: Scale of a layer beside its skip connection; infinite without one.
        gap: `μ₁ - μ₂` of the products without normalisation, per layer.
        collapse: Layers after which they have numerical rank one.
        ratio: `σ₂/σ₁` expected at `depth`.
        surviving: Directions that survive at any depth behind batch normalisation.
        chain: Averages over the normalised layers.
        checks: Theorems about both.
    """

    width: int
    depth: int
    gamma: float
    gap: Estimate
    collapse: Estimate
    ratio: Estimate
    surviving: Estimate
    chain: ChainStatistics
    checks: tuple[Check, ...]


@door
def predict(
    width: int,
    depth: int,
    gamma: float = math.inf,
    *,
    weights: Weights = "gaussian",
    samples: int | None = None,
    layers: int | None = None,
    chains: int = 16,
    generator: torch.Generator | None = None,
    progress: Progress | None = None,
) -> Prediction:
    """Measure Lyapunov exponents and time averages of a design by running random chains.

    Args:
        width: Units of each layer, 2 or more.
        depth: Layers of the design.
        gamma: Scale of a layer beside its skip connection; infinite without one.
        weights: Law of the weights, of unit variance.
        samples: Samples in the batch; as many as the width by default.
        layers: How many to average over, in each chain; by default 2000, or more where layers
            are so weak that a chain forgets slowly.
        chains: Independent chains.
        generator: Source of weights and inputs.
        progress: Called with a word, the steps done and the steps in all.

    Raises:
        Refusal: If an option makes no chain.

    Source:
        Daneshmand et al. 2020, Lemma 3 and Theorem 14.
    """
    if width < 2:
        raise Refusal(f"`width` must be 2 or more, got {width}: one unit has one direction.")
    if depth < 1:
        raise Refusal(f"`depth` must be 1 or more, got {depth}.")
    if math.isnan(gamma) or LARGEST < gamma < math.inf:
        raise Refusal(
            f"`gamma` must be at most {LARGEST:g}, or infinite without a skip connection, got "
            f"{gamma:g}."
        )
    if forgetting(width, gamma) > MOST:
        do = "Averages at 0.02 differ from those at smaller ones by less than 2 %: ask for that."
        raise Refusal(
            f"`gamma` must be large enough, and `width` small enough, for a chain to forget its "
            f"start within {MOST} layers, got {gamma:g} and {width}, which take "
            f"{forgetting(width, gamma):g}. {'Take fewer units.' if math.isinf(gamma) else do}"
        )
    size = width * max(width, samples or width)
    require_room(32 * chains * size, f"{chains} chains of {width} units", do="take fewer")
    layers = layers or max(2000, forgetting(width, gamma))
    tell = progress or (lambda *_: None)
    tell("products", 0, 4)
    law = {"weights": weights, "chains": chains, "generator": generator}
    if weights == "gaussian" and math.isinf(gamma):
        theorem = daneshmand2020.RankOneProducts.known(width)
    else:
        products = LinearChain(width, gamma, **law)
        theorem = daneshmand2020.RankOneProducts.of(products, layers=layers)
    tell("averages", 1, 4)
    chain = BatchNormChain(width, gamma, samples=samples, **law)
    averages = chain.run(layers)
    tell("exponents", 3, 4)
    # directions that survive at any depth: exponents that are zero
    count = min(width, chain.state.shape[-1] + 2)  # those that are dead need no exponent
    turning = forgetting(width, gamma)  # a frame turns as slowly as a chain forgets
    exponents = chain.exponents(max(layers // 2, turning), count=count, burn_in=turning)
    # a batch has no more directions than samples, whatever the layers would let live
    free = zero_exponents(exponents)
    most = chain.state.shape[-1]
    surviving = Estimate(
        min(free.value, most), min(free.low, most), min(free.high, most), free.how, free.risk
    )
    tell("done", 4, 4)
    gap = theorem.gap
    ends = [math.exp(-g * depth) for g in (gap.high, gap.value, gap.low)]
    ratio = Estimate(ends[1], ends[0], ends[2], "exp(-gap * depth)", gap.risk)
    checks = (theorem.check(), *check_chain(averages))
    return Prediction(
        width, depth, gamma, gap, theorem.collapse(), ratio, surviving, averages, checks
    )
