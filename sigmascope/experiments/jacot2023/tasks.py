"""Tasks whose inner dimension is known."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

HIDDEN, LATENT, OUT = 100, 8, 20


def shallow(read: int, written: int, g: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of `B relu(A z + b)` with 100 hidden units."""
    A = torch.randn(HIDDEN, read, generator=g, dtype=torch.float64) / math.sqrt(read)
    b = torch.randn(HIDDEN, generator=g, dtype=torch.float64)
    B = torch.randn(written, HIDDEN, generator=g, dtype=torch.float64) / math.sqrt(HIDDEN)
    return A, b, B


def bottleneck_task(seed: int, *, rank: int = 2, samples: int = 300) -> tuple[Tensor, Tensor]:
    """Inputs `g(z)` and targets `h(z_1, ..., z_k)` of random shallow networks g and h.

    Source:
        Jacot 2023, Appendix E; inputs of unit spread, targets of spread 0.4, both centred.
    """
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(samples, LATENT, generator=g, dtype=torch.float64)
    (A, b, B), (C, c, D) = shallow(LATENT, OUT, g), shallow(rank, OUT, g)
    x = (z @ A.T + b).clamp(min=0) @ B.T
    y = (z[:, :rank] @ C.T + c).clamp(min=0) @ D.T
    x, y = x - x.mean(0), y - y.mean(0)
    return (x / x.std(0)).float(), (0.4 * y / y.std(0)).float()


def stack(depth: int, generator: torch.Generator, *, width: int = 50) -> nn.Sequential:
    """A ReLU network of that many layers with He's initial weights and zero biases."""
    widths = [OUT, *[width] * (depth - 1), OUT]
    layers: list[nn.Module] = []
    for read, written in pairwise(widths):
        layer = nn.Linear(read, written)
        with torch.no_grad():
            spread = math.sqrt(2 / read)
            layer.weight.copy_(spread * torch.randn(written, read, generator=generator))
            layer.bias.zero_()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])
