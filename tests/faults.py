"""Three architectures that are known to train, and twenty ways to break one of them.

`FAULTS` holds (name, architecture, what breaks it, the finding that names it).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope import sources
from sigmascope.models.networks import resnet


@dataclass
class Case:
    """A network with its task; faults change it in place."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy


class Mixer(nn.Module):
    """One block of an MLP-mixer: across tokens, then across channels, each a pre-norm branch."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        part = lambda n: nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
        self.tokens, self.channels = part(tokens), part(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).mT).mT
        return x + self.channels(self.norm2(x))


class Patches(nn.Module):
    """Images of 8 x 8 as 16 tokens of 4 pixels."""

    def forward(self, x: Tensor) -> Tensor:
        return F.unfold(x, 2, stride=2).mT


class Mean(nn.Module):
    """Over tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def _seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()


def _encoder(depth: int = 4, width: int = 32) -> nn.Module:
    layer = nn.TransformerEncoderLayer(
        width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.Sequential(
        Patches(),
        nn.Linear(4, width),
        nn.TransformerEncoder(layer, depth, enable_nested_tensor=False),
        nn.LayerNorm(width),
        Mean(),
        nn.Linear(width, 10),
    )


def _mixer(depth: int = 4, width: int = 32) -> nn.Module:
    blocks = [Mixer(16, width) for _ in range(depth)]
    return nn.Sequential(
        Patches(), nn.Linear(4, width), *blocks, nn.LayerNorm(width), Mean(), nn.Linear(width, 10)
    )


def _resnet(**options: Any) -> nn.Module:
    return resnet(**{"inputs": (1, 8, 8), "outputs": 10, "depth": 14, "width": 16, **options})


ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "resnet": _resnet,
    "transformer": _encoder,
    "mixer": _mixer,
}


def case(name: str, seed: int = 0, samples: int = 128, **size: int) -> Case:
    """An architecture on digits, with fresh weights."""
    data = sources.open_data("digits", samples=samples)
    inputs = (data.inputs - data.inputs.mean()) / data.inputs.std()
    return Case(_seeded(lambda: ARCHITECTURES[name](**size), seed), inputs, data.targets)


def _weights(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.ndim > 1]


def _scaled(factor: float) -> Callable[[Case], None]:
    def change(c: Case) -> None:
        for p in _weights(c.model):
            p.data.mul_(factor)

    return change


def _plain(c: Case, *layers: Callable[[], nn.Module], depth: int, width: int = 64) -> None:
    def build() -> nn.Module:
        sizes = [64, *[width] * depth]
        parts = [
            part
            for a, b in pairwise(sizes)
            for part in (nn.Linear(a, b), *(layer() for layer in layers))
        ]
        return nn.Sequential(nn.Flatten(), *parts, nn.Linear(width, 10))

    c.model = _seeded(build, 0)


def unscaled_residual(c: Case) -> None:
    """Forty residual blocks without normalisation, each added with full strength."""

    class Add(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
            nn.init.kaiming_normal_(self.first.weight)
            nn.init.kaiming_normal_(self.second.weight, nonlinearity="linear")

        def forward(self, x: Tensor) -> Tensor:
            return x + self.second(F.relu(self.first(x)))

    c.model = _seeded(
        lambda: nn.Sequential(nn.Flatten(), *[Add() for _ in range(40)], nn.Linear(64, 10)), 0
    )


def frozen(c: Case) -> None:
    """One weight in the middle does not require gradients."""
    _weights(c.model)[5].requires_grad_(False)


def shuffled(c: Case) -> None:
    """Targets in another order than inputs."""
    g = torch.Generator().manual_seed(3)
    c.targets = c.targets[torch.randperm(len(c.targets), generator=g)]


def raw_pixels(c: Case) -> None:
    """Inputs from 0 to 255."""
    c.inputs = 255 * (c.inputs - c.inputs.min()) / (c.inputs.max() - c.inputs.min())


def evaluation(c: Case) -> None:
    """Batch normalisers in evaluation mode from the start."""
    c.model.eval()


def zeros(c: Case) -> None:
    """Every weight and bias zero."""
    for p in c.model.parameters():
        p.data.zero_()


def constants(c: Case) -> None:
    """Every weight matrix filled with one number."""
    for p in _weights(c.model):
        p.data.fill_(0.05)


def not_a_number(c: Case) -> None:
    """One entry of one weight is nan."""
    _weights(c.model)[3].data.view(-1)[0] = float("nan")


def shifted_weights(c: Case) -> None:
    """Weights with a mean, as drawn from [0, 1)."""
    for p in _weights(c.model):
        p.data.add_(p.data.std())


def dead(c: Case) -> None:
    """Biases so low that no ReLU opens."""
    _plain(c, nn.ReLU, depth=4)
    for m in c.model.modules():
        if isinstance(m, nn.Linear) and m.out_features == 64:
            nn.init.constant_(m.bias, -10.0)


def saturated(c: Case) -> None:
    """tanh units pushed to the ends of their range."""
    _plain(c, nn.Tanh, depth=3)
    nn.init.normal_(c.model[1].weight, std=6.0)


def double_softmax(c: Case) -> None:
    """Cross-entropy of what a softmax has already made probabilities."""
    c.model = nn.Sequential(c.model, nn.Softmax(-1))


def positive_outputs(c: Case) -> None:
    """Values to be fitted that a closing ReLU cannot reach."""
    g = torch.Generator().manual_seed(0)
    y = c.inputs.flatten(1) @ torch.randn(64, 10, generator=g) / 8 - 2
    c.model, c.targets, c.loss = nn.Sequential(c.model, nn.ReLU()), y, F.mse_loss


def cut(c: Case) -> None:
    """What the first layers write is detached."""

    class Detached(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach()

    layers = list(c.model.children())
    c.model = nn.Sequential(*layers[:3], Detached(), *layers[3:])


def same_samples(c: Case) -> None:
    """A loader that gives one sample again and again."""
    c.inputs = c.inputs[:1].expand_as(c.inputs).clone()


class _Lost(nn.Module):
    """Multiplies by a mask the wrong way round: what is kept is nothing."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x * (x != x) + 0.5)


def lost(c: Case) -> None:
    """A mask that keeps none of the inputs."""
    c.model = _Lost(c.model)


FAULTS: tuple[tuple[str, str, Callable[[Case], None], str], ...] = (
    ("weights ten times too large", "mixer", _scaled(10), "weight-scale"),
    ("weights ten times too large", "resnet", _scaled(10), "weight-scale"),
    ("weights a hundred times too small", "transformer", _scaled(0.01), "weight-scale"),
    ("no residual scale at depth 40", "resnet", unscaled_residual, "strong-residual"),
    ("frozen layer", "transformer", frozen, "frozen-layer"),
    ("labels shuffled", "mixer", shuffled, "unrelated-targets"),
    ("labels shuffled", "resnet", shuffled, "unrelated-targets"),
    ("inputs not scaled", "transformer", raw_pixels, "unscaled-inputs"),
    ("BatchNorm in evaluation mode", "resnet", evaluation, "untouched-statistics"),
    ("sigmoid stack", "mixer", lambda c: _plain(c, nn.Sigmoid, depth=10), "sigmoid-stack"),
    ("deep and not normalised", "resnet", lambda c: _plain(c, nn.ReLU, depth=20), "rank-collapse"),
    ("zero everywhere", "mixer", zeros, "zero-weights"),
    ("one constant everywhere", "transformer", constants, "equal-units"),
    ("nan in one weight", "resnet", not_a_number, "non-finite"),
    ("weights with a mean", "resnet", shifted_weights, "asymmetric-weights"),
    ("dead ReLU", "mixer", dead, "dead-units"),
    ("saturated tanh", "mixer", saturated, "saturated-units"),
    ("softmax before cross-entropy", "transformer", double_softmax, "double-softmax"),
    ("ReLU before values", "mixer", positive_outputs, "out-of-reach"),
    ("detached in the middle", "mixer", cut, "no-gradient"),
    ("the same sample again and again", "transformer", same_samples, "alike-inputs"),
    ("inputs masked away", "mixer", lost, "lost-inputs"),
    ("inputs masked away", "transformer", lost, "lost-inputs"),
)
