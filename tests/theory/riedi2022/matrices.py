"""Matrices on which the theorems of this paper are tried."""

import torch


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
