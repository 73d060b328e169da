"""The four networks with linear tails, and gradient descent that reaches tiny losses."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KINDS = ("linear", "ReLU, then linear", "ReLU, then ResNetFree", "convolutions")
SPREAD, FRONT = 0.15, 3.0  # of the weights, times 1 / sqrt(fan in); the ReLU layers get more
SAMPLES, MARGIN = 40, 0.5


class FreeBlock(nn.Module):
    """`U Y x + Z x` with free U, Y and Z: a linear ResNetFree block."""

    def __init__(self, read: int, hidden: int, written: int) -> None:
        super().__init__()
        self.Y = nn.Linear(read, hidden, bias=False)
        self.U = nn.Linear(hidden, written, bias=False)
        self.Z = nn.Linear(read, written, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Output `[n, written]`."""
        return self.U(self.Y(x)) + self.Z(x)


def tailed(kind: str, seed: int) -> nn.Sequential:
    """A network with one output and a linear tail, in float64."""
    dense = lambda a, b: nn.Linear(a, b, bias=False)
    conv = lambda a, b: nn.Conv2d(a, b, 2, bias=False)
    if kind == "linear":
        front, tail = [], [dense(8, 10), dense(10, 10), dense(10, 10), dense(10, 1)]
    elif kind == "ReLU, then linear":
        front = [dense(8, 12), nn.ReLU(), dense(12, 12), nn.ReLU()]
        tail = [dense(12, 10), dense(10, 10), dense(10, 1)]
    elif kind == "ReLU, then ResNetFree":
        front = [dense(8, 12), nn.ReLU()]
        tail = [FreeBlock(12, 8, 10), FreeBlock(10, 8, 8), dense(8, 6), dense(6, 1)]
    else:
        front = [conv(1, 4), nn.ReLU()]
        tail = [conv(4, 4), conv(4, 4), nn.Flatten(), dense(16, 6), dense(6, 1)]
    net = nn.Sequential(*front, *tail).double()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for place, layer in enumerate(net):
            scale = SPREAD * (FRONT if place < len(front) else 1.0)
            for p in layer.parameters():
                fan = math.prod(p.shape[1:])
                p.copy_(scale / math.sqrt(fan) * torch.randn(p.shape, generator=g).double())
    return net


def separable(kind: str, seed: int) -> tuple[Tensor, Tensor]:
    """Points on both sides of a hyperplane, none near it, with labels -1 and 1."""
    g = torch.Generator().manual_seed(1000 + seed)
    shape = (1, 5, 5) if kind == "convolutions" else (8,)
    size = math.prod(shape)
    direction = torch.randn(size, generator=g).double()
    direction = direction / direction.norm()
    found = torch.randn(400, size, generator=g).double()
    found = found[(found @ direction).abs() > MARGIN][:SAMPLES]
    return found.reshape(-1, *shape), (found @ direction).sign()


def logistic(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean logistic loss of labels -1 and 1."""
    return F.softplus(-y * net(x).flatten()).mean()


def descend(
    net: nn.Module,
    loss: Callable[[], Tensor],
    *,
    steps: int,
    rate: float,
    pace: float,
    most: float = 5e3,
) -> Iterator[tuple[int, float, torch.optim.SGD]]:
    """Plain steps, then as many whose length grows as the loss falls.

    Yields, before each step, its number, the loss and the optimizer, whose gradients are there.

    Args:
        net: What is trained.
        loss: Of the whole batch.
        steps: Of each of the two phases.
        rate: Of the first phase.
        pace: `pace * min(rate / loss, most)` is the rate of the second.
        most: See `pace`.
    """
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for step in range(2 * steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        now = float(value.detach())
        if step >= steps:
            optimizer.param_groups[0]["lr"] = pace * min(rate / now, most)
        yield step, now, optimizer
        optimizer.step()
