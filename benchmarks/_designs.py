"""Random networks and tasks, of which some train and some do not."""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope import sources
from sigmascope.diagnosis.trainability import Optimizer

SAMPLES = 512
FAMILIES = ("mlp", "conv", "rnn", "residual-mlp", "residual-conv", "transformer")
SEEN = ("mlp", "conv", "rnn")  # families of the training set
ACTIVATIONS = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "leaky": nn.LeakyReLU,
    "elu": nn.ELU,
}
SEEN_ACTIVATIONS = ("relu", "tanh", "gelu")
DATASETS = ("digits", "regression", "fashion-mnist")
SEEN_DATASETS = ("digits", "regression")


@dataclass(frozen=True, slots=True)
class Design:
    """One network with its task: fourteen factors."""

    family: str
    depth: int
    width: int
    activation: str
    norm: str
    init: str
    scale: float
    residual: float
    branch_end: str
    bias: bool
    data: str
    data_scale: float
    data_shift: float
    output_scale: float
    optimizer: Optimizer
    seed: int


def drawn(seed: int, *, held_out: bool) -> Design:
    """A random design; of the training set, or of the more varied held-out set."""
    g = torch.Generator().manual_seed(seed)

    def one(*options: Any) -> Any:
        return options[int(torch.randint(len(options), (), generator=g))]

    def log_uniform(low: float, high: float) -> float:
        return low * (high / low) ** float(torch.rand((), generator=g))

    family = one(*(FAMILIES if held_out else SEEN))
    deepest = 48 if held_out else 32
    if family == "rnn":
        deepest = 3
    elif family == "transformer":  # these cost most
        deepest = 6
    widths = (32,) if family == "transformer" else (24, 32, 64)
    activation = one(*(ACTIVATIONS if held_out else SEEN_ACTIVATIONS))
    shift = one(0.0, 0.0, 0.0, 3.0)
    return Design(
        family,
        round(log_uniform(1 if family == "rnn" else 2, deepest)),
        one(*widths),
        activation,
        one("none", "none", "batch", "layer"),
        one("default", "he", "xavier", "orthogonal", "normal"),
        one(1.0, 1.0, log_uniform(0.05, 20), log_uniform(0.05, 20)),
        one(1.0, 1.0, log_uniform(0.01, 5)),
        one("plain", "zero"),
        one(True, True, False),
        one(*(DATASETS if held_out else SEEN_DATASETS)),
        one(1.0, 1.0, log_uniform(1e-3, 1e2)),
        shift,
        one(1.0, 1.0, log_uniform(0.03, 30)),
        one("sgd", "adam"),
        seed,
    )


class Tokens(nn.Module):
    """Images as a sequence of their rows."""

    def forward(self, x: Tensor) -> Tensor:
        """`[n, rows, columns]`."""
        side = math.isqrt(x.shape[1])
        return x.reshape(len(x), side, -1)


class Branch(nn.Module):
    """`x + scale f(x)`."""

    def __init__(self, inner: nn.Module, scale: float) -> None:
        super().__init__()
        self.inner, self.scale = inner, scale

    def forward(self, x: Tensor) -> Tensor:
        """Skip connection and branch."""
        return x + self.scale * self.inner(x)


class Last(nn.Module):
    """The state after the last step of a recurrent layer, or the mean over tokens."""

    def __init__(self, mean: bool) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, x: Tensor) -> Tensor:
        """`[n, width]`."""
        return x.mean(1) if self.mean else x[:, -1]


class Recurrent(nn.Module):
    """Stacked recurrent layers that return their sequence."""

    def __init__(
        self, kind: type[nn.RNNBase], inputs: int, width: int, depth: int, bias: bool
    ) -> None:
        super().__init__()
        self.inner = kind(inputs, width, depth, batch_first=True, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """`[n, steps, width]`."""
        return self.inner(x)[0]


class Attention(nn.Module):
    """Self-attention over tokens."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(width, 4, bias=bias, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """`[n, tokens, width]`."""
        return self.inner(x, x, x, need_weights=False)[0]


class Scaled(nn.Module):
    """Outputs times a constant."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        """`by x`."""
        return self.by * x


def built(design: Design, inputs: int, outputs: int) -> nn.Module:
    """The network, with its initial weights."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(design.seed)
        layers = _body(design, inputs)
        model = nn.Sequential(*layers, nn.LazyLinear(outputs, bias=design.bias))
        model.append(Scaled(design.output_scale))
        with torch.no_grad():
            model(torch.zeros(2, inputs))
        _initialise(model, design)
    return model


def _norm(design: Design, width: int, *, images: bool = False) -> list[nn.Module]:
    if design.norm == "batch" and design.family not in ("rnn", "transformer"):
        return [nn.BatchNorm2d(width) if images else nn.BatchNorm1d(width)]
    if design.norm == "none":
        return []
    return [nn.GroupNorm(1, width) if images else nn.LayerNorm(width)]


def _body(d: Design, inputs: int) -> list[nn.Module]:
    act, width = ACTIVATIONS[d.activation], d.width
    side = math.isqrt(inputs)
    if d.family == "rnn":
        kind = {"tanh": nn.RNN, "relu": nn.GRU}.get(d.activation, nn.LSTM)
        return [Tokens(), Recurrent(kind, inputs // side, width, d.depth, d.bias), Last(False)]
    if d.family == "transformer":
        layers: list[nn.Module] = [Tokens(), nn.Linear(inputs // side, width, bias=d.bias)]
        for _ in range(d.depth):
            parts = [Attention(width, d.bias)]
            feed = [nn.Linear(width, 2 * width), act(), nn.Linear(2 * width, width, bias=d.bias)]
            layers += [Branch(nn.Sequential(*_norm(d, width), *parts), d.residual)]
            layers += [Branch(nn.Sequential(*_norm(d, width), *feed), d.residual)]
        return [*layers, Last(True)]
    if d.family.endswith("mlp"):
        if d.family == "mlp":
            sizes = [inputs, *[width] * (d.depth - 1)]
            blocks = [
                [nn.Linear(a, b, bias=d.bias), *_norm(d, b), act()] for a, b in pairwise(sizes)
            ]
            return [layer for block in blocks for layer in block]
        branch = lambda: [
            *_norm(d, width),
            act(),
            nn.Linear(width, width, bias=d.bias),
            act(),
            nn.Linear(width, width, bias=d.bias),
        ]
        blocks = [Branch(nn.Sequential(*branch()), d.residual) for _ in range(max(1, d.depth // 2))]
        return [nn.Linear(inputs, width, bias=d.bias), *blocks]
    channels = width // 4
    conv = lambda a, b, stride=1: nn.Conv2d(a, b, 3, stride, padding=1, bias=d.bias)
    start = [nn.Unflatten(1, (1, side, side)), conv(1, channels, 2)]
    if d.family == "conv":
        body: list[nn.Module] = [*_norm(d, channels, images=True), act()]
        for _ in range(d.depth - 2):
            body += [conv(channels, channels), *_norm(d, channels, images=True), act()]
        return [*start, *body, nn.Flatten()]
    inner = lambda: [
        *_norm(d, channels, images=True),
        act(),
        conv(channels, channels),
        act(),
        conv(channels, channels),
    ]
    blocks = [Branch(nn.Sequential(*inner()), d.residual) for _ in range(max(1, d.depth // 2))]
    return [*start, *blocks, nn.Flatten()]


def _initialise(model: nn.Module, d: Design) -> None:
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            if p.ndim < 2:
                continue
            fan_in = p[0].numel()
            with torch.no_grad():
                if d.init == "he":
                    p.normal_(0, math.sqrt(2 / fan_in))
                elif d.init == "xavier":
                    nn.init.xavier_uniform_(p)
                elif d.init == "orthogonal":
                    nn.init.orthogonal_(p)
                elif d.init == "normal":
                    p.normal_(0, 0.05)
                if "embed" not in name:
                    p.mul_(d.scale)
    if d.branch_end == "zero":
        for module in model.modules():
            if isinstance(module, Branch):
                last = [p for p in module.parameters() if p.ndim > 1][-1]
                with torch.no_grad():
                    last.zero_()


def task(design: Design) -> tuple[Tensor, Tensor]:
    """Inputs `[n, features]` of its scale, and classes or values of unit spread."""
    g = torch.Generator().manual_seed(design.seed)
    if design.data == "regression":
        x = torch.randn(SAMPLES, 36, generator=g)
        A, b = torch.randn(36, 4, generator=g) / 6, torch.randn(4, generator=g)
        y = (x @ A + b).tanh() @ torch.randn(4, 3, generator=g)
        y = (y - y.mean(0)) / y.std(0)
    else:
        found = sources.open_data(design.data, samples=SAMPLES, generator=g)
        assert isinstance(found.inputs, Tensor)
        assert found.targets is not None
        x, y = found.inputs.flatten(1).float(), found.targets.long()
        if design.data == "fashion-mnist":
            x = F.avg_pool2d(x.reshape(len(x), 1, 28, 28), 2).flatten(1)
        x = (x - x.mean()) / x.std()
    return design.data_scale * (x + design.data_shift), y


def row_of(design: Design) -> dict[str, Any]:
    """The factors, as plain JSON."""
    return asdict(design)
