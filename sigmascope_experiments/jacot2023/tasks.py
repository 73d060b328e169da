"""Tasks whose inner dimension is known, and networks to learn them."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from sigmascope.models import Subject
from sigmascope.models.structure import Stack
from sigmascope.theory import jacot2023
from sigmascope_experiments.figures import Claim, Row

HIDDEN, LATENT, OUT = 100, 8, 20
SPREAD = 0.4  # of the targets: what the ridge of 1e-3 is right for


def norm_excess(model: nn.Module, x: Tensor) -> float:
    """How far the squared norm of a stack is above what Theorem 3 asks, over it; never below 0.

    `Σ ‖W_l‖_F² ≥ L ‖Jf(x)‖_{2/L}^{2/L}` at every sample, of trained networks as of others; the
    least over some samples.

    Args:
        model: A plain stack.
        x: Samples, of which the first 16 are taken.
    """
    found = Subject(model, x[:16]).stack
    assert isinstance(found, Stack), found
    spectra = (torch.linalg.svdvals(found.at(row).jacobian) for row in x[:16].double())
    limits = [jacot2023.least_norm(s[s > 0], found.depth) for s in spectra if bool((s > 0).any())]
    return min((found.weight_norm - limit) / found.weight_norm for limit in limits)


def norm_claim(rows: list[Row]) -> Claim:
    """Theorem 3 holds for every network, at any size: rounding aside, no excess is below 0."""
    least = min(r["excess"] for r in rows)
    return Claim(
        "no network has a smaller norm than its Jacobian asks for (Theorem 3)",
        f"least excess {least:.3g} of the squared norm",
        least >= -1e-6,
    )


def shallow(
    read: int, written: int, g: torch.Generator, *, hidden: int = HIDDEN
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of `B relu(A z + b)`."""
    A = torch.randn(hidden, read, generator=g, dtype=torch.float64) / math.sqrt(read)
    b = torch.randn(hidden, generator=g, dtype=torch.float64)
    B = torch.randn(written, hidden, generator=g, dtype=torch.float64) / math.sqrt(hidden)
    return A, b, B


def bottleneck_task(
    seed: int,
    *,
    rank: int = 2,
    samples: int = 300,
    inputs: int = OUT,
    hidden: int = HIDDEN,
    noise: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Inputs `g(z)` and targets `h(z_1, ..., z_k)` of random shallow networks g and h.

    Args:
        seed: Of all draws.
        rank: k, of 8 latent coordinates.
        samples: Rows.
        inputs: Columns of the inputs.
        hidden: Units of g and h.
        noise: Spread of what is added to the targets, next to their own.

    Source:
        Jacot 2023, Appendix E; inputs of unit spread, targets of spread 0.4, both centred.
    """
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(samples, LATENT, generator=g, dtype=torch.float64)
    A, b, B = shallow(LATENT, inputs, g, hidden=hidden)
    C, c, D = shallow(rank, OUT, g, hidden=hidden)
    x = (z @ A.T + b).clamp(min=0) @ B.T
    y = (z[:, :rank] @ C.T + c).clamp(min=0) @ D.T
    if noise:
        y = y + noise * y.std(0) * torch.randn(y.shape, generator=g, dtype=y.dtype)
    x, y = x - x.mean(0), y - y.mean(0)
    return (x / x.std(0)).float(), (SPREAD * y / y.std(0)).float()


def stack(
    depth: int,
    generator: torch.Generator,
    *,
    inputs: int = OUT,
    width: int = 50,
    outputs: int = OUT,
    side: int | None = None,
) -> nn.Sequential:
    """A ReLU network of that many layers with He's initial weights and zero biases.

    Args:
        depth: Layers.
        generator: Of the weights.
        inputs: Columns of the inputs.
        width: Units of the hidden layers.
        outputs: Columns of the outputs.
        side: With a number, inputs are square images of that side, and the first layer is a
            convolution of 8 channels and stride 2.
    """
    layers: list[nn.Module] = []
    if side is not None:
        layers += [nn.Unflatten(1, (1, side, side)), nn.Conv2d(1, 8, 3, stride=2, padding=1)]
        layers += [nn.ReLU(), nn.Flatten()]
        inputs = 8 * math.ceil(side / 2) ** 2
        depth -= 1
    for read, written in pairwise([inputs, *[width] * (depth - 1), outputs]):
        layers += [nn.Linear(read, written), nn.ReLU()]
    for layer in layers:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            with torch.no_grad():
                spread = math.sqrt(2 / layer.weight[0].numel())
                layer.weight.copy_(spread * torch.randn(layer.weight.shape, generator=generator))
                layer.bias.zero_()  # pyright: ignore[reportOptionalMemberAccess]
    return nn.Sequential(*layers[:-1])
