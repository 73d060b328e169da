"""Matrices, and facts that are told: a part in a million past equality a wrong bound is found."""

from dataclasses import replace

import torch

from sigmascope.theory.riedi2022 import OF_ACTIVATIONS, OF_SKIPS, OF_WEIGHTS, Weights
from sigmascope.theory.riedi2022.random_weights import OF_RESIDUAL_LAYERS, ResidualLayer

PART = 1e-6


SKIPS, ACTIVATIONS, WEIGHTS, LAYERS = (
    {t.name: t for t in family}
    for family in (OF_SKIPS, OF_ACTIVATIONS, OF_WEIGHTS, OF_RESIDUAL_LAYERS)
)


def known(spectrum, *sigma):
    """The same spectrum with other values, known exactly."""
    s = torch.tensor(sigma, dtype=torch.float64)
    return replace(spectrum, sigma=s, low=s, high=s)


def small_weights(n, c, m, eta):
    """One layer whose entries are all `c`."""
    layer = torch.full((n, n), c, dtype=torch.float64)
    return Weights.of([layer], [torch.ones(n)], off=torch.arange(n) < m, eta=eta)


def residual(*, n=7, r, before, after, weight=0.05):
    """A layer of which the sizes of the units and the norm of the weights are told."""
    inner, outer = (torch.ones(n, dtype=torch.float64) for _ in range(2))
    inner[:before], outer[n - after :] = 0.0, 0.0
    W = weight * torch.eye(n, dtype=torch.float64)
    return ResidualLayer.of(W, inner, outer, r=r, drawn=True)


def conditioned(layer, kappa):
    zero = layer.off[1]
    sigma = [kappa] + [1.0] * (layer.n - zero - 1) + [0.0] * zero
    return replace(layer, skipped=known(layer.skipped, *sigma))


def gaussian(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def structured(n):
    """Matrices with multiple or zero singular values, by name."""
    ones = torch.ones(n, n, dtype=torch.float64)
    return {
        "zero": 0 * ones,
        "identity": torch.eye(n, dtype=torch.float64),
        "minus identity": -torch.eye(n, dtype=torch.float64),
        "orthogonal": torch.linalg.qr(gaussian(n, n, seed=0))[0],
        "rank one": ones,
        "nilpotent": torch.diag(torch.ones(n - 1, dtype=torch.float64), 1),
        "symmetric": gaussian(n, n, seed=1) + gaussian(n, n, seed=1).T,
        "skew": gaussian(n, n, seed=2) - gaussian(n, n, seed=2).T,
        "diagonal": torch.diag(torch.linspace(-2, 2, n, dtype=torch.float64)),
    }
