"""Networks at the edges: where equality holds, ranks fall and rounding decides."""

import itertools
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from tests.models_zoo import Net
from tests.theory.le2022.networks import Abs

SHAPES = (
    "linear",
    "relu",
    "leaky",
    "absolute",
    "residual",
    "branch",
    "conv",
    "pooled",
    "batch-norm",
    "layer-norm",
    "gated",
    "tied",
    "smooth",
)
EYE = lambda shape: torch.eye(*shape, dtype=torch.float64)
DECAY = lambda power, n: torch.logspace(0, power, n, dtype=torch.float64)
MADE = {  # of numbers that were drawn
    "gaussian": lambda draw: draw,
    "orthogonal": lambda draw: (lambda U, _, Vh: U @ Vh)(
        *torch.linalg.svd(draw, full_matrices=False)
    ),
    "identity": lambda draw: EYE(draw.shape),
    "scalar": lambda draw: 1.25 * EYE(draw.shape),
    "rank one": lambda draw: draw[:, :1] @ draw[:1],
    "duplicated": lambda draw: draw[:1].expand(draw.shape),
    "graded": lambda draw: draw * DECAY(-8, draw.shape[1]),
    "zero layer": lambda draw: draw,  # all but the last
    "balanced": lambda draw: torch.diag(torch.linspace(1, 2, max(draw.shape), dtype=torch.float64))[
        : len(draw), : draw.shape[1]
    ],
}
WEIGHTS = ("default", *MADE)
INPUTS = {
    "gaussian": lambda x, g: x,
    "rank two": lambda x, g: (
        x[:, :2] @ torch.randn(min(2, x.shape[1]), x.shape[1], generator=g, dtype=torch.float64)
    ),
    "duplicated": lambda x, g: torch.cat([x[: len(x) // 2]] * 2),
    "scaled rows": lambda x, g: x * DECAY(-6, len(x))[:, None],
    "scaled columns": lambda x, g: x * DECAY(6, x.shape[1]),
    "zeros": lambda x, g: F.pad(x[1:, 1:], (1, 0, 1, 0)),
    "one": lambda x, g: x,
    "tiny": lambda x, g: 1e-6 * x,
}
TRAINING = ("none", "some", "converged", "diverged")


@dataclass(frozen=True)
class Design:
    """One draw; everything follows from it."""

    shape: str
    weights: str
    inputs: str
    training: str
    depth: int
    width: int
    outputs: int
    biased: bool
    double: bool
    exponents: tuple[int, int]  # of the scales of the first and of the other layers
    loss: str
    seed: int

    @property
    def dtype(self):
        return torch.float64 if self.double else torch.float32


DECADES = (0, 0, 0, -6, -3, -1, 1, 3, 6)
CHOICES = {
    "shape": SHAPES,
    "weights": WEIGHTS,
    "inputs": tuple(INPUTS),
    "training": TRAINING,
    "depth": range(1, 6),
    "width": range(1, 7),
    "outputs": range(1, 6),
    "biased": (False, True),
    "double": (False, True),
    "exponents": tuple(itertools.product(DECADES, DECADES)),
    "loss": ("mse", "cross entropy", "none"),
    "seed": range(10**6),
}
DESIGNS = st.builds(Design, **{k: st.sampled_from(v) for k, v in CHOICES.items()})


def drawn(numbers):
    """A design from `random.Random`, where hypothesis would take its time."""
    return Design(**{k: numbers.choice(v) for k, v in CHOICES.items()})


class Residual(nn.Module):
    """`h + b(h)`, or with a map of its own on the skip."""

    def __init__(self, width, *, branch, biased):
        super().__init__()
        self.inner, self.outer = (nn.Linear(width, width, bias=biased) for _ in range(2))
        self.skip = nn.Linear(width, width, bias=False) if branch else nn.Identity()

    def forward(self, h):
        return self.skip(h) + self.outer(F.relu(self.inner(h)))


ACTIVATIONS = {
    "linear": None,
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.25),
    "absolute": Abs,
    "smooth": nn.Tanh,
    "batch-norm": nn.ReLU,
    "layer-norm": nn.ReLU,
}


def model(design):
    """The network, with the weights asked for."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(design.seed)
        net = _built(design).to(design.dtype)
        g = torch.Generator().manual_seed(design.seed)
        layers = [m for m in net.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
        with torch.no_grad():
            for at, layer in enumerate(layers):
                _weighted(layer.weight, design, g, last=at == len(layers) - 1)
                layer.weight *= 10.0 ** design.exponents[at > 0]
                if design.weights == "identity" and layer.bias is not None:
                    layer.bias.zero_()
    return net


def _built(design):
    w, b = design.width, design.biased
    if design.shape in ("conv", "pooled"):
        pool = [nn.MaxPool2d(2)] if design.shape == "pooled" else []
        side = 2 if pool else 4
        return nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1, bias=b),
            nn.ReLU(),
            *pool,
            nn.Flatten(),
            nn.Linear(2 * side * side, design.outputs, bias=b),
        )
    parts: list[nn.Module] = [nn.Linear(w, w, bias=b)]
    for _ in range(design.depth - 1):
        if design.shape in ("residual", "branch"):
            parts.append(Residual(w, branch=design.shape == "branch", biased=b))
            continue
        if design.shape == "gated":
            gated = lambda net, h: net.value(h) * torch.relu(net.gate(h))
            parts.append(Net(gated, value=nn.Linear(w, w, bias=b), gate=nn.Linear(w, w, bias=b)))
            continue
        if design.shape == "tied":
            twice = lambda net, h: net.layer(F.relu(net.layer(h)))
            parts.append(Net(twice, layer=nn.Linear(w, w, bias=b)))
            continue
        if design.shape == "batch-norm":
            parts.append(nn.BatchNorm1d(w))
        if design.shape == "layer-norm":
            parts.append(nn.LayerNorm(w))
        activation = ACTIVATIONS[design.shape]
        if activation is not None:
            parts.append(activation())
        parts.append(nn.Linear(w, w, bias=b))
    activation = ACTIVATIONS.get(design.shape)
    if activation is not None:
        parts.append(activation())
    return nn.Sequential(*parts, nn.Linear(w, design.outputs, bias=b))


def _weighted(weight, design, g, *, last):
    draw = torch.randn(weight.flatten(1).shape, generator=g, dtype=torch.float64)
    if design.weights in MADE:
        zero = design.weights == "zero layer" and last
        weight.copy_((0 * draw if zero else MADE[design.weights](draw)).reshape(weight.shape))


def batch(design):
    """What it is run on."""
    g = torch.Generator().manual_seed(design.seed + 1)
    d = 16 if design.shape in ("conv", "pooled") else design.width
    n = 1 if design.inputs == "one" else 6
    x = torch.randn(n, d, generator=g, dtype=torch.float64)
    x = INPUTS[design.inputs](x, g)
    x = x.to(design.dtype)
    return x.reshape(n, 1, 4, 4) if design.shape in ("conv", "pooled") else x


LOSSES = {"mse": F.mse_loss, "cross entropy": F.cross_entropy, "none": None}


def targets(design, x):
    g = torch.Generator().manual_seed(design.seed + 2)
    if design.loss == "cross entropy":
        return torch.randint(design.outputs, (len(x),), generator=g)
    return torch.randn(len(x), design.outputs, generator=g, dtype=torch.float64).to(x.dtype)


def trained(design, net, x, y):
    """After training, or as it is where that leaves something that is not finite."""
    loss = LOSSES[design.loss] or F.mse_loss
    if design.training == "none":
        return net
    rates = {"some": 0.05, "converged": 0.3, "diverged": 20.0}
    steps = {"some": 5, "converged": 150, "diverged": 8}[design.training]
    before = {k: v.clone() for k, v in net.state_dict().items()}
    optimizer = torch.optim.SGD(net.parameters(), lr=rates[design.training])
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(net(x), y)
        if not bool(value.isfinite()):
            break
        value.backward()
        optimizer.step()
    good = all(
        bool(v.isfinite().all()) and bool((v.abs() < 1e30).all()) for v in net.state_dict().values()
    )
    if not good or not bool(net(x).isfinite().all()):
        net.load_state_dict(before)
    for p in net.parameters():
        p.grad = None
    return net
