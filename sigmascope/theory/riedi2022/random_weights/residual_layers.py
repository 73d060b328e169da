"""Bounds with high probability, for Gaussian weights of a residual layer.

`W = σ K`, `K [n, n]` of independent standard Gaussians and `σ = 1 / (r √(8n))` (111); the layer
after the trained one is `D₁ W + Id`, read through the activation `D`.
"""

import math
from collections.abc import Callable, Iterator

import torch

from sigmascope.records import Assumption, Estimate
from sigmascope.theory.bounds import OfFacts, row
from sigmascope.theory.riedi2022.intervals import SOURCE
from sigmascope.theory.riedi2022.random_weights.residual_facts import ResidualLayer
from sigmascope.theory.riedi2022.random_weights.scales import (
    chance_of_negative,
    chance_of_norm,
)


def _theta(n: int) -> float:
    """The smallest θ the theorem admits, with room: the chance of failure is `2 exp(-θ²/2)`."""
    return min(4.5, 2 * math.sqrt(n))


def _between_relus(
    name: str,
    source: str,
    statement: str,
    says: str,
    *,
    needs: str,
    label: str,
    taken: Callable[[ResidualLayer], float],
    top: Callable[[ResidualLayer], float],
    exception: Callable[[ResidualLayer], float],
) -> type[OfFacts]:
    """`2 (1 + top) / (1 - (2 + 2 taken + θ) / r)`, with a chance of failure.

    `taken` is how much the activations take, `top` bounds the norm of the weights, `exception` is
    the chance that they are larger than they should be.
    """

    def room(f: ResidualLayer) -> float:
        return 2 + 2 * taken(f) + _theta(f.n)

    def limit(f: ResidualLayer) -> Estimate:
        below = 1 - room(f) / f.r
        found = 2 * (1 + top(f)) / below if below > 0 else math.inf
        risk = 2 * math.exp(-(_theta(f.n) ** 2) / 2) + exception(f)
        return Estimate(found, found, found, label, min(1.0, risk))

    def assuming(f: ResidualLayer) -> Iterator[Assumption]:
        yield f.gaussian()
        yield Assumption("slopes are 0 or 1", f.slopes_are(0.0, 1.0))
        yield Assumption("some unit is off", sum(f.off) >= 1)
        yield Assumption("m < n and n ≥ 5", f.off[1] < f.n and f.n >= 5)
        yield Assumption(needs, f.r > room(f))

    measured = lambda f: f.condition(f.skipped)
    return row(name, source, statement, says, measured=measured, limit=limit, assuming=assuming)


def _too_large(f: ResidualLayer) -> float:
    return chance_of_norm(f.n, f.r, norm=1 / f.r)


def _sure_limit(f: ResidualLayer) -> Estimate:
    kept = f.outer.abs()
    least = kept[kept > 0].min().item() if bool((kept > 0).any()) else 1.0
    found = (1 + f.top) / (least * (1 - f.top)) if f.top < 1 else math.inf
    return Estimate.within(found, 1e-12 * found * (1 + min(found, 1e9)))


def _sure(f: ResidualLayer) -> Iterator[Assumption]:
    sizes = torch.cat([f.inner, f.outer]).abs()
    kept = f.outer.abs()
    pure = bool(((kept == 0) | (kept == 1)).all()) or bool((kept > 0).all())
    yield Assumption("s₁(W) < 1", f.top < 1)
    yield Assumption("no slope is larger than 1", bool((sizes <= 1).all()))
    yield Assumption("slopes of the trained layer are 0 or ±1, or none is 0", pure)
    yield Assumption("some unit of the trained layer is on", f.off[1] < f.n)


def _badly_conditioned(f: ResidualLayer) -> Iterator[Assumption]:
    wanted = (1 + f.top) / (1 - f.top) if f.top < 1 else math.inf
    bad = f.top < 1 and f.condition(f.weight).low >= wanted
    yield Assumption("slopes are ±1, as of the absolute value", f.slopes_are(-1.0, 1.0))
    yield Assumption("κ(W) ≥ (1 + s₁) / (1 - s₁) > 0 (152)", bad)


OF_RESIDUAL_LAYERS: tuple[type[OfFacts], ...] = (
    _between_relus(
        "residual-relu",
        f"{SOURCE}, Theorem 39 (128), failing with 2 exp(-θ²/2) + P[s₁(W) ≥ 1/r] as proved",
        "κ((D₁ W + Id) D) ≤ 2 (1 + 1/r) / (1 - (2 + 2ν + θ)/r), θ = 4.5",
        "A residual layer between ReLUs is well conditioned if its weights are small enough.",
        needs="r > 2 + 2ν + θ",
        label="(128)",
        taken=lambda f: f.nu,
        top=lambda f: 1 / f.r,
        exception=_too_large,
    ),
    _between_relus(
        "residual-relu-norm",
        f"{SOURCE}, Theorem 39 (129)",
        "κ((D₁ W + Id) D) ≤ 2 (1 + s₁(W)) / (1 - (r' + r'ν + θ)/r), r' = 2, θ = 4.5",
        "The same with the measured norm of the weights, and r' = 2.",
        needs="r > r' + r'ν + θ",
        label="(129)",
        taken=lambda f: f.nu,
        top=lambda f: f.top,
        exception=lambda f: chance_of_negative(f.n, 2.0),
    ),
    _between_relus(
        "residual-everywhere",
        f"{SOURCE}, Cor. 40 (151), for i ≤ n - m",
        "κ((D₁ W + Id) D) ≤ 2 (1 + 1/r) / (1 - (2 + 2n + θ)/r), θ = 4.5",
        "One bound for all regions of activation, of the singular values that are not zero.",
        needs="r > 2 + 2n + θ",
        label="(151)",
        taken=lambda f: f.n,
        top=lambda f: 1 / f.r,
        exception=_too_large,
    ),
    row(
        "residual-sure",
        f"sharper than {SOURCE}, Theorem 39 and Cor. 40, by their Eq. (23)",
        "κ((D₁ W + Id) D) ≤ (1 + s₁(W)) / (η (1 - s₁(W)))",
        "What the norm of the weights promises, for every region at once.",
        measured=lambda f: f.condition(f.skipped),
        limit=_sure_limit,
        assuming=_sure,
    ),
    row(
        "residual-improves",
        f"{SOURCE}, Theorem 42 (153)",
        "κ((D₁ W + Id) D) ≤ κ(D₁ W D)",
        "A skip connection improves the conditioning of a layer that is badly conditioned enough.",
        measured=lambda f: f.condition(f.skipped),
        limit=lambda f: f.condition(f.plain),
        assuming=_badly_conditioned,
    ),
)
