"""Laws that can be gone through to the end: no sampling, no error of sampling."""

import itertools

import torch
from torch import Tensor


def correlation(d: int, seed: int = 0, samples: int | None = None) -> Tensor:
    """A correlation matrix: unit diagonal, rank `samples`."""
    g = torch.Generator().manual_seed(seed)
    H = torch.randn(d, samples or d, generator=g, dtype=torch.float64)
    H = H / H.norm(dim=1, keepdim=True)
    return H @ H.mT


def all_weights(d: int, values: tuple[float, ...] = (-1.0, 1.0)) -> Tensor:
    """Every `d x d` matrix with these entries; of signs by default, which have unit variance."""
    every = itertools.product(values, repeat=d * d)
    return torch.tensor(list(every), dtype=torch.float64).reshape(-1, d, d)


def all_signs(d: int) -> Tensor:
    """Every vector of `d` signs."""
    return torch.tensor(list(itertools.product((-1.0, 1.0), repeat=d)), dtype=torch.float64)


def root(M: Tensor) -> Tensor:
    """`R` with `M = R R'`."""
    lam, U = torch.linalg.eigh(M)
    return U * lam.clamp(min=0).sqrt()


def next_state(H: Tensor, W: Tensor, gamma: float) -> Tensor:
    """One layer: rows of norm one, so that `M = H H'` (samples are columns)."""
    H = W @ H if gamma == float("inf") else H + gamma * W @ H
    return H / H.norm(dim=-1, keepdim=True)


def moments(H: Tensor) -> Tensor:
    """`M = H H'`."""
    return H @ H.mT
