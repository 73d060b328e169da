"""Networks that show what a theorem does not say."""

import math

import torch
from torch import nn


def lipschitz_counterexample(
    depth: int, slope: float = 1.0, *, eps: float | None = None
) -> nn.Sequential:
    """A ReLU network of bottleneck rank 3 whose function bends, at next to no cost in norm.

    It computes `(x, y, z + slope max(x - y, 0))` on the unit cube. Its norm exceeds `3 L` by about
    `12 L eps² + 2 exp(-L eps)`, which vanishes with depth where eps falls as `L^-γ`, 1/2 < γ < 1;
    but a representation in the middle is `exp((L - 2) eps / 2)` times as steep.

    Args:
        depth: L, even and at least 4.
        slope: Of the bend, above 0.
        eps: Logarithm of how much each layer stretches; `log(L) / L` if not given.

    Returns:
        Linear layers without biases and ReLUs between, in float64.

    Raises:
        ValueError: If the depth is odd or below 4, or the slope is not above 0.

    Source:
        Jacot 2023, Example 20, with the factor that its norm lacks.
    """
    if depth < 4 or depth % 2:
        raise ValueError(f"`depth` must be even and at least 4, got {depth}. The bend is half way.")
    if not slope > 0:
        raise ValueError(f"`slope` must be above 0, got {slope}. Mirror an input to bend down.")
    eps = math.log(depth) / depth if eps is None else eps
    rise, fall = math.exp(eps), math.exp(-eps)
    half, top = depth // 2, math.exp(-(depth - 2) * eps)
    root = math.sqrt(slope)
    of = lambda *rows: torch.tensor(rows, dtype=torch.float64)
    eye = torch.eye(3, dtype=torch.float64)
    up, down = torch.diag(of(rise, rise, fall**2)), torch.diag(of(fall, fall, rise**2))
    split = torch.cat([eye, root * math.sqrt(top) * of([1.0, -1.0, 0.0])])
    join = torch.cat([eye, root * of([0.0], [0.0], [top])], dim=1)
    weights = [up] * (half - 1) + [split, join] + [down] * (half - 1)
    layers: list[nn.Module] = []
    for W in weights:
        shape = W.shape[1], W.shape[0]
        layer = nn.Linear(*shape, bias=False, device="meta")
        layer.weight = nn.Parameter(W.clone())
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def counterexample_excess(depth: int, eps: float) -> float:
    """How far the squared norm of the network above exceeds `3 L`, for a slope of 1.

    Args:
        depth: L, even and at least 4.
        eps: As there.

    Source:
        Jacot 2023, Example 20, with the factor `(L - 2) / 2` on both lines.
    """
    stretched = 8 * math.sinh(eps) ** 2 + 4 * math.sinh(2 * eps) ** 2  # cosh 2x - 1 = 2 sinh² x
    bend = 2 * math.exp(-(depth - 2) * eps) + math.exp(-2 * (depth - 2) * eps)
    return (depth - 2) / 2 * stretched + bend
