"""Small training runs that go well, and ways to make one fail at a known step."""

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

STEPS = 500
BATCH = 64


class Attention(nn.Module):
    """A causal transformer of two layers on letters."""

    def __init__(self, letters: int = 32, d: int = 48, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(letters, d)
        self.place = nn.Parameter(torch.randn(24, d) * 0.02)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, letters)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Block(nn.Module):
    """Attention and two linear layers, each behind a normaliser."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.one(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.two(x))


@dataclass
class Training:
    """One run.

    Attributes:
        name: Of its kind.
        model: What is trained.
        optimizer: By what.
        batches: Inputs and targets without end.
        schedule: Learning rate at a step, over that of the optimizer.
        loss: Of output and targets.
        spoil: What is done to inputs and targets.
        before: What is done before a step.
    """

    name: str
    model: nn.Module
    optimizer: Optimizer
    batches: Iterator[tuple[Tensor, Tensor]]
    schedule: Callable[[int], float]
    loss: Callable[[Tensor, Tensor], Tensor]
    spoil: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda x, y: (x, y)
    before: Callable[[], None] = lambda: None
    sign: float = 1.0
    extra: dict[str, float] = field(default_factory=dict)

    def together(self, wrap: str) -> "Training":
        """The same in each process of a group, each with its part of every batch."""
        rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
        if wrap == "ddp":
            self.model = DistributedDataParallel(self.model)
        else:
            from torch.distributed.fsdp import fully_shard

            self.model = fully_shard(self.model)
            kind: Any = type(self.optimizer)
            known = inspect.signature(kind).parameters
            of = {k: v for k, v in self.optimizer.defaults.items() if k in known}
            self.optimizer = kind(self.model.parameters(), **of)
        whole = self.batches
        self.batches = ((x[rank::count], y[rank::count]) for x, y in whole)
        return self

    def steps(self, count: int) -> Iterator[tuple[int, Tensor]]:
        """Train; each step with its loss."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for step in range(1, count + 1):
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * self.schedule(step) * self.extra.get("rate", 1.0)
            self.before()
            x, y = self.spoil(*next(self.batches))
            self.optimizer.zero_grad()
            loss = self.loss(self.model(x), y)
            (self.sign * loss).backward()
            self.optimizer.step()
            yield step, loss.detach()


def digits(generator: torch.Generator, *, images: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of handwritten digits."""
    data = load_digits()
    x, y = torch.tensor(data.data / 16.0).float(), torch.tensor(data.target)
    x = (x - x.mean()) / x.std()
    x = x.view(-1, 1, 8, 8) if images else x
    while True:
        order = torch.randperm(len(x), generator=generator)
        for at in order.split(BATCH):
            if len(at) == BATCH:
                yield x[at], y[at]


def letters(generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Sequences in which each letter follows from the two before it, and some noise."""
    table = torch.randint(0, 32, (32, 32), generator=generator)
    while True:
        x = torch.randint(0, 32, (BATCH // 2, 25), generator=generator)
        noise = torch.rand(x.shape, generator=generator) < 0.1
        for t in range(2, 25):
            x[:, t] = torch.where(noise[:, t], x[:, t], table[x[:, t - 1], x[:, t - 2] % 4])
        yield x[:, :-1], x[:, 1:]


def mlp(activation: type[nn.Module], depth: int = 5, width: int = 96) -> nn.Module:
    """A plain stack on digits."""
    sizes = [64, *[width] * depth]
    inner = [m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), activation())]
    return nn.Sequential(*inner, nn.Linear(width, 10))


def convolutional() -> nn.Module:
    """Convolutions with batch normalisation on digits."""

    def block(a: int, b: int) -> list[nn.Module]:
        return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]

    return nn.Sequential(
        *block(1, 16), *block(16, 16), nn.MaxPool2d(2), *block(16, 32), *block(32, 32),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


SCHEDULES: dict[str, Callable[[int], float]] = {
    "constant": lambda step: 1.0,
    "cosine": lambda step: 0.5 * (1 + math.cos(math.pi * step / STEPS)) + 1e-3,
    "warm-up": lambda step: min(1.0, step / 50) * (0.5 * (1 + math.cos(math.pi * step / STEPS))),
    "steps": lambda step: 0.1 ** (step // 200),
}


def training(kind: str, schedule: str, seed: int) -> Training:
    """A run that goes well.

    Args:
        kind: Of `KINDS`.
        schedule: Of `SCHEDULES`.
        seed: Of weights and batches.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    return KINDS[kind](generator, SCHEDULES[schedule])


def _cross(output: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, -2), y.flatten())


def _mlp(activation: type[nn.Module], adam: bool) -> Callable[..., Training]:
    def make(generator: torch.Generator, schedule: Callable[[int], float]) -> Training:
        model = mlp(activation)
        opt: Optimizer = torch.optim.SGD(
            model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4
        )
        if adam:
            opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
        return Training("mlp", model, opt, digits(generator, images=False), schedule, _cross)

    return make


def _conv(adam: bool) -> Callable[..., Training]:
    def make(generator: torch.Generator, schedule: Callable[[int], float]) -> Training:
        model = convolutional()
        opt: Optimizer = torch.optim.SGD(
            model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4
        )
        if adam:
            opt = torch.optim.Adam(model.parameters(), lr=2e-3)
        return Training("conv", model, opt, digits(generator, images=True), schedule, _cross)

    return make


def _transformer(generator: torch.Generator, schedule: Callable[[int], float]) -> Training:
    model = Attention()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1, betas=(0.9, 0.98))
    return Training("transformer", model, opt, letters(generator), schedule, _cross)


KINDS: dict[str, Callable[..., Training]] = {
    "relu, momentum": _mlp(nn.ReLU, adam=False),
    "relu, adam": _mlp(nn.ReLU, adam=True),
    "tanh, momentum": _mlp(nn.Tanh, adam=False),
    "convolutions, momentum": _conv(adam=False),
    "convolutions, adam": _conv(adam=True),
    "transformer": _transformer,
}


def _weights(run: Training) -> list[nn.Parameter]:
    return [p for p in run.model.parameters() if p.ndim > 1]


def _scaling(factor: float, which: slice) -> Callable[[Training], None]:
    """Weights times a factor before each step."""

    def spoil(run: Training) -> None:
        def before() -> None:
            with torch.no_grad():
                for p in _weights(run)[which]:
                    p.mul_(factor)

        run.before = before

    return spoil


def _rate(factor: float) -> Callable[[Training], None]:
    def spoil(run: Training) -> None:
        run.extra["rate"] = factor

    return spoil


def _ramp(run: Training) -> None:
    def before() -> None:
        run.extra["rate"] = run.extra.get("rate", 1.0) * 1.1

    run.before = before


def _inputs(change: Callable[[Tensor], Tensor]) -> Callable[[Training], None]:
    def spoil(run: Training) -> None:
        run.spoil = lambda x, y: (change(x) if x.is_floating_point() else x * 0 + x[:1], y)

    return spoil


def _nan(run: Training) -> None:
    with torch.no_grad():
        held: Any = _weights(run)[1]
        (held.to_local() if hasattr(held, "to_local") else held).view(-1)[:1] = math.nan


def _labels(run: Training) -> None:
    run.spoil = lambda x, y: (x, y[torch.randperm(len(y))].roll(1, -1))


def _biases(run: Training) -> None:
    """Biases of the inner layers far below zero: units die."""
    with torch.no_grad():
        for p in [p for p in run.model.parameters() if p.ndim == 1][1:-1]:
            p.sub_(4.0)


def _ascend(run: Training) -> None:
    run.sign = -1.0


def _large(run: Training) -> None:
    with torch.no_grad():
        for p in _weights(run)[1:-1]:
            p.mul_(20.0)


def _decays(decay: float) -> Callable[[Training, float], None]:
    """Decoupled decay of a rate of 1e-3, whatever the optimizer."""

    def spoil(run: Training, _: float) -> None:
        with torch.no_grad():
            for p in _weights(run):
                p.mul_(1 - 1e-3 * decay)

    return spoil


def _confuses(run: Training, share: float) -> None:
    """More and more labels of other samples."""

    def spoil(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        wrong = torch.rand(y.shape) < share
        return x, torch.where(wrong, y.flatten()[torch.randperm(y.numel())].view(y.shape), y)

    run.spoil = spoil


def _blurs(run: Training, share: float) -> None:
    """More and more noise in the inputs, or letters by chance."""

    def spoil(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if x.is_floating_point():
            return (1 - share) * x + share * torch.randn_like(x), y
        return torch.where(torch.rand(x.shape) < share, torch.randint(0, 32, x.shape), x), y

    run.spoil = spoil


def _stiffens(run: Training, share: float) -> None:
    """Biases of inner layers sink."""
    with torch.no_grad():
        for p in [p for p in run.model.parameters() if p.ndim == 1][1:-1]:
            p.sub_(0.01)


# what is done before every step, with the share of the time of ruin that is over
RUINS: dict[str, Callable[[Training, float], None]] = {
    "decay 10": _decays(10.0),
    "decay 50": _decays(50.0),
    "labels": _confuses,
    "inputs": _blurs,
    "biases sink": _stiffens,
}


# what is done at the step of the fault
FAULTS: dict[str, Callable[[Training], None]] = {
    "rate x 100": _rate(100.0),
    "rate grows by a tenth each step": _ramp,
    "nan in a weight": _nan,
    "labels of other samples": _labels,
    "inputs of one sample only": _inputs(lambda x: x * 0 + x[:1]),
    "weights shrink by a tenth each step": _scaling(0.9, slice(None)),
    "one layer grows by a tenth each step": _scaling(1.1, slice(1, 2)),
    "biases far below zero": _biases,
    "weights x 20": _large,
    "uphill": _ascend,
    "rate x 0": _rate(0.0),
    "inputs x 100": _inputs(lambda x: x * 100),
    "inputs shifted": _inputs(lambda x: x + 5),
}
