"""Facts that are told, a part in a million past equality, where a wrong bound is found out."""

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
