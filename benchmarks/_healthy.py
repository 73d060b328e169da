"""Ordinary training programs that train, of many kinds: none of them deserves an error.

`python -m benchmarks.programs --own --train` trains each and prints its first and last loss.
"""

import itertools
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

Making = Callable[[], dict[str, Any]]
PROGRAMS: dict[str, Making] = {}


def program(make: Making) -> Making:
    """Register a program, whose weights are drawn from one seed."""

    def seeded() -> dict[str, Any]:
        torch.manual_seed(0)
        return make()

    PROGRAMS[make.__name__] = seeded
    return seeded


def gen(seed: int = 0) -> torch.Generator:
    """A generator of a seed."""
    return torch.Generator().manual_seed(seed)


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Handwritten digits between 0 and 1, and their classes."""
    x, y = datasets.load_digits(return_X_y=True)
    return torch.tensor(x).float() / 16, torch.tensor(y)


@cache
def table(name: str) -> tuple[Tensor, Tensor]:
    """A table of scikit-learn, its columns standardised."""
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    x = torch.tensor(x).float()
    return (x - x.mean(0)) / x.std(0), torch.tensor(y)


def pictures() -> tuple[Tensor, Tensor]:
    """Digits as pictures, standardised."""
    x, y = digits()
    return ((x - x.mean()) / x.std()).view(-1, 1, 8, 8), y


def mlp(*sizes: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with an activation between them."""
    inner = [m for a, b in itertools.pairwise(sizes[:-1])
             for m in (nn.Linear(a, b), act())]  # fmt: skip
    return nn.Sequential(*inner, nn.Linear(*sizes[-2:]))


def sequences(n: int = 600, length: int = 16, letters: int = 20) -> Tensor:
    """Letters each of which follows from the one before, with noise."""
    g = gen(1)
    follow = torch.randperm(letters, generator=g)
    x = torch.randint(0, letters, (n, length), generator=g)
    for t in range(1, length):
        keep = torch.rand(n, generator=g) < 0.15
        x[:, t] = torch.where(keep, x[:, t], follow[x[:, t - 1]])
    return x


def of_rows(o: Tensor, t: Tensor) -> Tensor:
    """Cross-entropy at every place."""
    return F.cross_entropy(o.flatten(0, 1), t.flatten())


class Fn(nn.Module):
    """A module of some parts and a function of them."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._does = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._does(self, *args, **kwargs)


@program
def linear_regression() -> dict[str, Any]:
    x, y = table("diabetes")
    y = (y.float()[:, None] - 152) / 77
    return {
        "model": nn.Linear(10, 1),
        "data": (x, y),
        "loss": nn.MSELoss(),
        "optimizer": "sgd",
        "lr": 0.05,
        "batch_size": 32,
        "epochs": 20,
    }


@program
def logistic_regression() -> dict[str, Any]:
    x, y = table("breast_cancer")
    return {
        "model": nn.Linear(30, 1),
        "data": (x, y.float()[:, None]),
        "loss": nn.BCEWithLogitsLoss(),
        "optimizer": "sgd",
        "lr": 0.1,
        "batch_size": 32,
        "epochs": 10,
    }


@program
def squeezed_logits() -> dict[str, Any]:
    x, y = table("breast_cancer")
    model = nn.Sequential(mlp(30, 32, 1), nn.Flatten(0))
    return {
        "model": model,
        "data": (x, y.float()),
        "loss": nn.BCEWithLogitsLoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 10,
    }


@program
def house_prices() -> dict[str, Any]:
    x, y = table("diabetes")
    y = (y.float()[:, None] - 152) / 77
    model = nn.Sequential(
        nn.Linear(10, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Linear(32, 1),
    )
    return {
        "model": model,
        "data": (x, y),
        "loss": nn.SmoothL1Loss(),
        "optimizer": "adamw",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 25,
    }


@program
def quantile_regression() -> dict[str, Any]:
    x, y = table("diabetes")
    y, q = (y.float()[:, None] - 152) / 77, torch.tensor([0.1, 0.5, 0.9])

    def pinball(o: Tensor, t: Tensor) -> Tensor:
        e = t - o
        return torch.maximum(q * e, (q - 1) * e).mean()

    return {
        "model": mlp(10, 64, 3),
        "data": (x, y),
        "loss": pinball,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 25,
    }


@program
def gaussian_mean_and_variance() -> dict[str, Any]:
    x, y = table("diabetes")
    y = (y.float()[:, None] - 152) / 77
    net = Fn(
        lambda s, x: (s.mean(h := s.body(x)), F.softplus(s.var(h)) + 1e-3),
        body=nn.Sequential(nn.Linear(10, 64), nn.Tanh()),
        mean=nn.Linear(64, 1),
        var=nn.Linear(64, 1),
    )
    return {
        "model": net,
        "data": (x, y),
        "loss": lambda o, t: F.gaussian_nll_loss(o[0], t, o[1]),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 25,
    }


@program
def mixture_density() -> dict[str, Any]:
    g = gen(2)
    y = torch.rand(800, 1, generator=g) * 2 - 1
    x = y + 0.3 * torch.sin(2 * math.pi * y) + 0.05 * torch.randn(800, 1, generator=g)

    def nll(o: Tensor, t: Tensor) -> Tensor:
        pi, mu, s = o.chunk(3, -1)
        dist = torch.distributions.Normal(mu, s.exp().clamp(1e-2))
        return -torch.logsumexp(pi.log_softmax(-1) + dist.log_prob(t), -1).mean()

    return {
        "model": mlp(1, 64, 15, act=nn.Tanh),
        "data": (x, y),
        "loss": nll,
        "optimizer": "adam",
        "lr": 5e-3,
        "batch_size": 64,
        "epochs": 30,
    }


@program
def poisson_counts() -> dict[str, Any]:
    g = gen(3)
    x = torch.randn(800, 6, generator=g)
    y = torch.poisson((x @ torch.tensor([0.6, -0.5, 0.4, 0.0, 0.3, -0.2]) + 1).exp(), generator=g)
    return {
        "model": mlp(6, 32, 1),
        "data": (x, y[:, None]),
        "loss": nn.PoissonNLLLoss(),
        "optimizer": "adam",
        "lr": 5e-3,
        "batch_size": 32,
        "epochs": 15,
    }


@program
def autoencoder() -> dict[str, Any]:
    x = digits()[0]
    model = nn.Sequential(
        nn.Linear(64, 48),
        nn.ReLU(),
        nn.Linear(48, 12),
        nn.Linear(12, 48),
        nn.ReLU(),
        nn.Linear(48, 64),
        nn.Sigmoid(),
    )
    return {
        "model": model,
        "data": (x, x),
        "loss": nn.MSELoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 64,
        "epochs": 25,
    }


@program
def denoising_convolutions() -> dict[str, Any]:
    x = digits()[0].view(-1, 1, 8, 8)
    noisy = x + 0.3 * torch.randn(x.shape, generator=gen(4))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 1, 3, padding=1),
    )
    return {
        "model": model,
        "data": (noisy, x),
        "loss": nn.L1Loss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 64,
        "epochs": 8,
    }


@program
def strided_and_upsampled() -> dict[str, Any]:
    x = digits()[0].view(-1, 1, 8, 8)
    model = nn.Sequential(
        nn.Conv2d(1, 24, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 1, 3, padding=1),
        nn.Upsample(scale_factor=2),
    )
    return {
        "model": model,
        "data": (x, x),
        "loss": nn.MSELoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 64,
        "epochs": 8,
    }


@program
def super_resolution() -> dict[str, Any]:
    x = digits()[0].view(-1, 1, 8, 8)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 4, 3, padding=1),
        nn.PixelShuffle(2),
    )
    return {
        "model": model,
        "data": (F.avg_pool2d(x, 2), x),
        "loss": nn.L1Loss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 64,
        "epochs": 8,
    }


def _masks() -> tuple[Tensor, Tensor]:
    g = gen(5)
    c = torch.rand(300, 2, generator=g) * 10 + 3
    i = torch.arange(16.0)
    m = ((i[None, :, None] - c[:, :1, None]) ** 2 + (i[None, None] - c[:, 1:, None]) ** 2) < 9
    m = m.float()[:, None]
    return m + 0.4 * torch.randn(m.shape, generator=g), m


def _segmenter(out: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, out, 1),
    )


def _dice(p: Tensor, t: Tensor) -> Tensor:
    both = (p * t).sum((1, 2, 3))
    return 1 - ((2 * both + 1) / (p.sum((1, 2, 3)) + t.sum((1, 2, 3)) + 1)).mean()


@program
def segmentation_dice() -> dict[str, Any]:
    x, m = _masks()
    return {
        "model": nn.Sequential(_segmenter(), nn.Sigmoid()),
        "data": (x, m),
        "loss": _dice,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 16,
        "epochs": 12,
    }


@program
def segmentation_dice_of_logits() -> dict[str, Any]:
    x, m = _masks()
    return {
        "model": _segmenter(),
        "data": (x, m),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 16,
        "epochs": 8,
        "loss": lambda o, t: F.binary_cross_entropy_with_logits(o, t) + _dice(o.sigmoid(), t),
    }


@program
def segmentation_classes() -> dict[str, Any]:
    x, m = _masks()
    return {
        "model": _segmenter(2),
        "data": (x, m[:, 0].long()),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "batch_size": 16,
        "epochs": 8,
    }


@program
def many_labels() -> dict[str, Any]:
    x, y = digits()
    labels = torch.stack([y % 2 == 0, y > 4, y % 3 == 0, (y == 1) | (y == 7)], 1).float()
    return {
        "model": mlp(64, 64, 4),
        "data": (x, labels),
        "loss": nn.BCEWithLogitsLoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 8,
    }


@program
def focal_loss() -> dict[str, Any]:
    x, y = table("breast_cancer")

    def focal(o: Tensor, t: Tensor) -> Tensor:
        ce = F.cross_entropy(o, t, reduction="none")
        return ((1 - (-ce).exp()) ** 2 * ce).mean()

    return {
        "model": mlp(30, 32, 2),
        "data": (x, y),
        "loss": focal,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 10,
    }


@program
def smoothed_weighted_classes() -> dict[str, Any]:
    x, y = pictures()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    loss = nn.CrossEntropyLoss(weight=torch.linspace(0.5, 1.5, 10), label_smoothing=0.1)
    return {
        "model": model,
        "data": (x, y),
        "loss": loss,
        "optimizer": "sgd",
        "lr": 0.05,
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "batch_size": 32,
        "epochs": 5,
    }


@program
def hinge() -> dict[str, Any]:
    x, y = table("wine")
    return {
        "model": nn.Linear(13, 3),
        "data": (x, y),
        "loss": nn.MultiMarginLoss(),
        "optimizer": "sgd",
        "lr": 0.05,
        "batch_size": 16,
        "epochs": 15,
    }


@program
def soft_capped() -> dict[str, Any]:
    x, y = digits()
    net = Fn(lambda s, x: 15 * torch.tanh(s.body(x) / 15), body=mlp(64, 64, 10))
    return {
        "model": net,
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 6,
    }


@program
def distillation() -> dict[str, Any]:
    x, _ = digits()
    teacher = (x @ torch.randn(64, 10, generator=gen(6)) * 2).softmax(1)
    loss = lambda o, t: F.kl_div(F.log_softmax(o, 1), t, reduction="batchmean")
    return {
        "model": mlp(64, 64, 10),
        "data": (x, teacher),
        "loss": loss,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 10,
    }


@program
def multi_task() -> dict[str, Any]:
    x, y = digits()
    t = torch.stack([y.float(), x.mean(1) * 4], 1)
    net = Fn(
        lambda s, x: {"digit": s.digit(h := s.body(x)), "ink": s.ink(h)},
        body=nn.Sequential(nn.Linear(64, 64), nn.ReLU()),
        digit=nn.Linear(64, 10),
        ink=nn.Linear(64, 1),
    )
    loss = lambda o, t: (
        F.cross_entropy(o["digit"], t[:, 0].long()) + F.mse_loss(o["ink"][:, 0], t[:, 1])
    )
    return {
        "model": net,
        "data": (x, t),
        "loss": loss,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 8,
    }


@program
def auxiliary_head() -> dict[str, Any]:
    x, y = pictures()
    net = Fn(
        lambda s, x: (s.main(s.two(h := s.one(x)).mean((2, 3))), s.aux(h.mean((2, 3)))),
        one=nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU()),
        two=nn.Sequential(nn.Conv2d(24, 48, 3, 2, 1), nn.BatchNorm2d(48), nn.ReLU()),
        main=nn.Linear(48, 10),
        aux=nn.Linear(24, 10),
    )
    loss = lambda o, t: F.cross_entropy(o[0], t) + 0.3 * F.cross_entropy(o[1], t)
    return {
        "model": net,
        "data": (x, y),
        "loss": loss,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 5,
    }


@program
def actor_critic() -> dict[str, Any]:
    g = gen(7)
    s = torch.randn(1500, 6, generator=g)
    best = (s @ torch.randn(6, 4, generator=g)).argmax(1)
    a = torch.randint(0, 4, (1500,), generator=g)
    r = (a == best).float()
    net = Fn(
        lambda s, x: (s.actor(h := s.body(x)), s.critic(h)),
        actor=nn.Linear(64, 4),
        critic=nn.Linear(64, 1),
        body=nn.Sequential(nn.Linear(6, 64), nn.Tanh()),
    )

    def loss(o: Any, t: Tensor) -> Tensor:
        logits, value = o
        advantage = t[:, 1] - value[:, 0].detach()
        dist = torch.distributions.Categorical(logits=logits)
        policy = -(dist.log_prob(t[:, 0]) * advantage).mean()
        return policy + 0.5 * F.mse_loss(value[:, 0], t[:, 1]) - 0.01 * dist.entropy().mean()

    return {
        "model": net,
        "data": (s, torch.stack([a.float(), r], 1)),
        "loss": loss,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 64,
        "epochs": 10,
    }


@program
def policy_gradient() -> dict[str, Any]:
    g = gen(8)
    s = torch.randn(1500, 4, generator=g)
    best = (s @ torch.randn(4, 3, generator=g)).argmax(1)
    a = torch.randint(0, 3, (1500,), generator=g)
    r = (a == best).float()
    t = torch.stack([a.float(), (r - r.mean()) / r.std()], 1)
    loss = lambda o, t: (
        -(torch.distributions.Categorical(logits=o).log_prob(t[:, 0]) * t[:, 1]).mean()
    )
    return {
        "model": mlp(4, 64, 3),
        "data": (s, t),
        "loss": loss,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 100,
        "epochs": 6,
    }


@program
def q_learning() -> dict[str, Any]:
    g = gen(9)
    s = torch.randn(1500, 4, generator=g)
    a = torch.randint(0, 3, (1500, 1), generator=g)
    q = torch.tanh(s @ torch.randn(4, 3, generator=g)).gather(1, a)
    t = torch.cat([a.float(), q], 1)
    loss = lambda o, t: F.smooth_l1_loss(o.gather(1, t[:, :1].long()), t[:, 1:])
    return {
        "model": mlp(4, 64, 3),
        "data": (s, t),
        "loss": loss,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 64,
        "epochs": 10,
    }


@program
def triplets() -> dict[str, Any]:
    x, y = digits()
    g = gen(10)
    same = torch.stack(
        [
            torch.nonzero(y == c)[:, 0][torch.randint(0, int((y == c).sum()), (1,), generator=g)][0]
            for c in y
        ]
    )
    other = torch.randperm(len(y), generator=g)
    data = torch.stack([x, x[same], x[other]], 1)
    model = mlp(64, 64, 16)

    def loss(o: Tensor, _: Any) -> Tensor:
        return F.triplet_margin_loss(o[:, 0], o[:, 1], o[:, 2])

    return {
        "model": model,
        "data": (data, torch.arange(len(x))),
        "loss": loss,
        "optimizer": "adam",
        "lr": 1e-3,
        "batch_size": 64,
        "epochs": 8,
    }


@program
def pairs_of_modalities() -> dict[str, Any]:
    x, _ = digits()
    other = (x @ torch.randn(64, 24, generator=gen(11))).tanh()
    net = Fn(
        lambda s, a, b: (F.normalize(s.a(a), dim=1), F.normalize(s.b(b), dim=1)),
        a=mlp(64, 64, 16),
        b=mlp(24, 64, 16),
    )

    def clip(o: Any, _: Any) -> Tensor:
        logits = o[0] @ o[1].T / 0.1
        at = torch.arange(len(logits))
        return (F.cross_entropy(logits, at) + F.cross_entropy(logits.T, at)) / 2

    return {
        "model": net,
        "data": ((x, other), torch.arange(len(x))),
        "loss": clip,
        "optimizer": "adam",
        "lr": 1e-3,
        "batch_size": 64,
        "epochs": 8,
    }


@program
def character_lstm() -> dict[str, Any]:
    x = sequences()
    net = Fn(
        lambda s, x: s.out(s.rnn(s.emb(x))[0]),
        emb=nn.Embedding(20, 24),
        rnn=nn.LSTM(24, 48, batch_first=True),
        out=nn.Linear(48, 20),
    )
    return {
        "model": net,
        "data": (x[:, :-1], x[:, 1:]),
        "loss": of_rows,
        "optimizer": "adam",
        "lr": 5e-3,
        "batch_size": 32,
        "epochs": 8,
    }


@program
def recurrent_forecast() -> dict[str, Any]:
    g = gen(12)
    s = torch.sin((torch.arange(31)[None] + torch.randint(0, 60, (300, 1), generator=g)) / 4.0)
    s = s + 0.05 * torch.randn(s.shape, generator=g)

    def run(m: Any, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), 32)
        steps = []
        for t in range(x.shape[1]):
            h = m.cell(x[:, t : t + 1], h)
            steps.append(m.out(h))
        return torch.stack(steps, 1)[..., 0]

    net = Fn(run, cell=nn.GRUCell(1, 32), out=nn.Linear(32, 1))
    return {
        "model": net,
        "data": (s[:, :-1], s[:, 1:]),
        "loss": nn.MSELoss(),
        "optimizer": "adam",
        "lr": 1e-2,
        "batch_size": 32,
        "epochs": 12,
    }


@program
def temporal_convolutions() -> dict[str, Any]:
    x, y = digits()
    model = nn.Sequential(
        nn.Unflatten(1, (8, 8)),
        nn.Conv1d(8, 32, 3, padding=2, dilation=2),
        nn.ReLU(),
        nn.Conv1d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return {
        "model": model,
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adam",
        "lr": 5e-3,
        "batch_size": 32,
        "epochs": 8,
    }


@program
def vision_transformer() -> dict[str, Any]:
    x, y = pictures()

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(1, 48, 2, 2)
            self.cls = nn.Parameter(torch.zeros(1, 1, 48))
            self.pos = nn.Parameter(torch.randn(1, 17, 48) * 0.02)
            block = nn.TransformerEncoderLayer(48, 4, 96, 0.1, batch_first=True, norm_first=True)
            self.enc = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 10)

        def forward(self, x: Tensor) -> Tensor:
            h = self.patch(x).flatten(2).mT
            h = torch.cat([self.cls.expand(len(x), -1, -1), h], 1) + self.pos
            return self.head(self.norm(self.enc(h)[:, 0]))

    return {
        "model": ViT(),
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adamw",
        "lr": 2e-3,
        "weight_decay": 0.05,
        "batch_size": 64,
        "epochs": 10,
    }


@program
def mixer() -> dict[str, Any]:
    x, y = pictures()

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(1, 32, 2, 2)
            self.n1, self.n2, self.n3 = nn.LayerNorm(32), nn.LayerNorm(32), nn.LayerNorm(32)
            self.tokens, self.channels = mlp(16, 32, 16, act=nn.GELU), mlp(32, 64, 32, act=nn.GELU)
            self.head = nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            h = self.patch(x).flatten(2).mT
            h = h + self.tokens(self.n1(h).mT).mT
            h = h + self.channels(self.n2(h))
            return self.head(self.n3(h).mean(1))

    return {
        "model": Mixer(),
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adamw",
        "lr": 3e-3,
        "batch_size": 64,
        "epochs": 10,
    }


@program
def learned_queries() -> dict[str, Any]:
    x, y = digits()

    class Perceiver(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.latents = nn.Parameter(torch.randn(4, 32))
            self.embed, self.pos = nn.Linear(8, 32), nn.Parameter(torch.randn(8, 32) * 0.3)
            self.attend = nn.MultiheadAttention(32, 4, batch_first=True)
            self.mlp, self.head = mlp(32, 64, 32), nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            h = self.embed(x.view(-1, 8, 8)) + self.pos
            q = self.latents.expand(len(x), -1, -1)
            z = q + self.attend(q, h, h, need_weights=False)[0]
            return self.head((z + self.mlp(z)).mean(1))

    return {
        "model": Perceiver(),
        "data": (x * 2, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 10,
    }


@program
def masked_language() -> dict[str, Any]:
    x = sequences()
    hide = torch.rand(x.shape, generator=gen(13)) < 0.15
    inputs, labels = x.masked_fill(hide, 20), x.masked_fill(~hide, -100)
    net = Fn(
        lambda s, x: s.out(s.enc(s.emb(x) + s.pos(torch.arange(x.shape[1])))),
        emb=nn.Embedding(21, 32),
        pos=nn.Embedding(16, 32),
        out=nn.Linear(32, 20),
        enc=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True),
            2,
            enable_nested_tensor=False,
        ),
    )
    return {
        "model": net,
        "data": (inputs, labels),
        "loss": of_rows,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 30,
    }


@program
def translation() -> dict[str, Any]:
    x = torch.randint(1, 12, (800, 8), generator=gen(14))
    y = x.flip(1)
    begun = torch.cat([torch.zeros(800, 1, dtype=torch.long), y[:, :-1]], 1)
    causal = torch.triu(torch.full((8, 8), -math.inf), 1)
    core = nn.Transformer(32, 4, 1, 1, 64, 0.0, batch_first=True)
    net = Fn(
        lambda s, a, b: s.out(
            s.core(s.emb(a) + s.pos.weight, s.emb(b) + s.pos.weight, tgt_mask=causal)
        ),
        emb=nn.Embedding(12, 32),
        pos=nn.Embedding(8, 32),
        core=core,
        out=nn.Linear(32, 12),
    )
    return {
        "model": net,
        "data": ((x, begun), y),
        "loss": of_rows,
        "optimizer": "adam",
        "lr": 2e-3,
        "batch_size": 32,
        "epochs": 12,
    }


@program
def bag_of_words() -> dict[str, Any]:
    g = gen(15)
    x = torch.randint(0, 80, (800, 15), generator=g)
    y = (torch.randn(80, generator=g)[x].sum(1) > 0).long()
    return {
        "model": nn.Sequential(nn.EmbeddingBag(80, 16), nn.Linear(16, 2)),
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adam",
        "lr": 1e-2,
        "batch_size": 32,
        "epochs": 15,
    }


@program
def skip_gram() -> dict[str, Any]:
    x = sequences()
    centre, near = x[:, :-1].flatten(), x[:, 1:].flatten()
    other = torch.randint(0, 20, near.shape, generator=gen(16))
    data = torch.stack([centre, near, other], 1)[:4000]
    net = Fn(
        lambda s, t: torch.stack([(s.a(t[:, 0]) * s.b(t[:, k])).sum(-1) for k in (1, 2)], 1),
        a=nn.Embedding(20, 16),
        b=nn.Embedding(20, 16),
    )
    loss = lambda o, _: -(F.logsigmoid(o[:, 0]) + F.logsigmoid(-o[:, 1])).mean()
    return {
        "model": net,
        "data": (data, torch.zeros(len(data))),
        "loss": loss,
        "optimizer": "adam",
        "lr": 1e-2,
        "batch_size": 64,
        "epochs": 10,
    }


@program
def matrix_factorisation() -> dict[str, Any]:
    g = gen(17)
    u, v = torch.randn(60, 4, generator=g), torch.randn(40, 4, generator=g)
    at = torch.stack(
        [torch.randint(0, 60, (3000,), generator=g), torch.randint(0, 40, (3000,), generator=g)], 1
    )
    y = (u[at[:, 0]] * v[at[:, 1]]).sum(1) / 2
    net = Fn(
        lambda s, t: (s.u(t[:, 0]) * s.v(t[:, 1])).sum(1) + s.b(t[:, 0])[:, 0],
        u=nn.Embedding(60, 8),
        v=nn.Embedding(40, 8),
        b=nn.Embedding(60, 1),
    )
    return {
        "model": net,
        "data": (at, y),
        "loss": nn.MSELoss(),
        "optimizer": "adam",
        "lr": 2e-2,
        "weight_decay": 1e-5,
        "batch_size": 64,
        "epochs": 15,
    }


@program
def table_with_categories() -> dict[str, Any]:
    x, y = table("breast_cancer")
    cats = torch.stack([(x[:, i] > 0).long() + (x[:, i] > 1).long() for i in (0, 3)], 1)
    net = Fn(
        lambda s, nums, cats: s.body(torch.cat([nums, s.a(cats[:, 0]), s.b(cats[:, 1])], 1)),
        a=nn.Embedding(3, 4),
        b=nn.Embedding(3, 4),
        body=mlp(38, 32, 2),
    )
    return {
        "model": net,
        "data": ({"nums": x, "cats": cats}, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 10,
    }


@program
def point_clouds() -> dict[str, Any]:
    g = gen(18)
    y = torch.randint(0, 3, (600,), generator=g)
    x = torch.randn(600, 24, 3, generator=g)
    x = x * torch.tensor([[1.0, 1, 1], [2, 1, 0.3], [0.3, 0.3, 2]])[y][:, None]
    net = Fn(lambda s, x: s.head(s.point(x).amax(1)), point=mlp(3, 32, 64), head=mlp(64, 32, 3))
    return {
        "model": net,
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adam",
        "lr": 2e-3,
        "batch_size": 32,
        "epochs": 10,
    }


@program
def graph_attention() -> dict[str, Any]:
    g = gen(19)
    y = torch.arange(150) % 3
    edge = torch.rand(150, 150, generator=g) < torch.where(y[:, None] == y, 0.2, 0.02)
    edge = (edge | edge.T).fill_diagonal_(True)
    x = torch.randn(150, 12, generator=g) + F.one_hot(y, 12).float()

    class GAT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("edge", edge)
            self.w1, self.w2 = nn.Linear(12, 24, bias=False), nn.Linear(24, 3, bias=False)
            self.a1, self.a2 = nn.Linear(48, 1), nn.Linear(6, 1)

        def layer(self, h: Tensor, a: nn.Linear) -> Tensor:
            n, d = h.shape
            e = a(torch.cat([h[:, None].expand(n, n, d), h[None].expand(n, n, d)], -1))[..., 0]
            return F.leaky_relu(e, 0.2).masked_fill(~self.edge, -math.inf).softmax(1) @ h  # type: ignore

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.w2(F.elu(self.layer(self.w1(x), self.a1))), self.a2)

    return {
        "model": GAT(),
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adam",
        "lr": 1e-2,
        "batch_size": 150,
        "epochs": 100,
    }


@program
def diffusion() -> dict[str, Any]:
    g = gen(20)
    x = digits()[0] * 2 - 1
    t = torch.rand(len(x), 1, generator=g)
    e = torch.randn(x.shape, generator=g)
    noisy = (1 - t).sqrt() * x + t.sqrt() * e
    net = Fn(lambda s, x, t: s.body(torch.cat([x, t], 1)), body=mlp(65, 128, 128, 64, act=nn.SiLU))
    return {
        "model": net,
        "data": ((noisy, t), e),
        "loss": nn.MSELoss(),
        "optimizer": "adamw",
        "lr": 2e-3,
        "batch_size": 64,
        "epochs": 20,
    }


@program
def normalising_flow() -> dict[str, Any]:
    g = gen(21)
    x = torch.randn(1500, 2, generator=g) @ torch.tensor([[2.0, 0.5], [0.0, 0.4]]) + 1.5

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nets = nn.ModuleList(mlp(1, 32, 2, act=nn.Tanh) for _ in range(4))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            logdet = x.new_zeros(len(x))
            for i, net in enumerate(self.nets):
                a, b = x[:, i % 2 : i % 2 + 1], x[:, 1 - i % 2 : 2 - i % 2]
                s, t = net(a).chunk(2, 1)
                b = b * s.exp() + t
                x = torch.cat([a, b] if i % 2 == 0 else [b, a], 1)
                logdet = logdet + s[:, 0]
            return x, logdet

    loss = lambda o, _: (0.5 * o[0].square().sum(1) - o[1]).mean()
    return {
        "model": Flow(),
        "data": (x, torch.zeros(1500)),
        "loss": loss,
        "optimizer": "adam",
        "lr": 5e-3,
        "batch_size": 64,
        "epochs": 10,
    }


@program
def picture_coordinates() -> dict[str, Any]:
    x = digits()[0][0].view(8, 8)
    picture = F.interpolate(x[None, None], scale_factor=4, mode="bilinear")[0, 0]
    at = torch.stack(
        torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32), indexing="ij"), -1
    )

    class Sine(nn.Module):
        def __init__(self, a: int, b: int, w: float, first: bool) -> None:
            super().__init__()
            self.linear, self.w = nn.Linear(a, b), w
            nn.init.uniform_(
                self.linear.weight,
                *((-1 / a, 1 / a) if first else (-math.sqrt(6 / a) / w, math.sqrt(6 / a) / w)),
            )

        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(self.w * self.linear(x))

    model = nn.Sequential(Sine(2, 64, 10.0, True), Sine(64, 64, 10.0, False), nn.Linear(64, 1))
    return {
        "model": model,
        "data": (at.view(-1, 2), picture.reshape(-1, 1)),
        "loss": nn.MSELoss(),
        "optimizer": "adam",
        "lr": 1e-3,
        "batch_size": 256,
        "epochs": 60,
    }


@program
def low_rank_adapters() -> dict[str, Any]:
    x, y = digits()
    base = mlp(64, 96, 96, 10)
    opt = torch.optim.Adam(base.parameters(), lr=3e-3)
    for _ in range(4):
        for at in torch.randperm(len(x), generator=gen(22)).split(64):
            opt.zero_grad()
            F.cross_entropy(base(x[at]), (y[at] + 3) % 10).backward()
            opt.step()

    class Adapted(nn.Module):
        def __init__(self, layer: nn.Linear) -> None:
            super().__init__()
            self.base = layer.requires_grad_(False)
            self.a = nn.Parameter(torch.randn(8, layer.in_features) / 8)
            self.b = nn.Parameter(torch.zeros(layer.out_features, 8))

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + 2 * (x @ self.a.T @ self.b.T)

    model = nn.Sequential(*(Adapted(m) if isinstance(m, nn.Linear) else m for m in base))
    return {
        "model": model,
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adamw",
        "lr": 5e-3,
        "batch_size": 32,
        "epochs": 8,
    }


@program
def transferred() -> dict[str, Any]:
    x, y = pictures()
    body = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
    )
    pre, low = nn.Linear(1024, 2), y < 5
    opt = torch.optim.Adam([*body.parameters(), *pre.parameters()], lr=1e-3)
    for at in torch.randperm(len(x), generator=gen(23)).split(64):
        opt.zero_grad()
        F.cross_entropy(pre(body(x[at])), low[at].long()).backward()
        opt.step()
    model = nn.Sequential(body.requires_grad_(False), nn.Linear(1024, 10))
    return {
        "model": model,
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "batch_size": 32,
        "epochs": 5,
        "optimizer": torch.optim.Adam(model[1].parameters(), lr=1e-3),
    }


@program
def mixture_of_experts() -> dict[str, Any]:
    x, y = digits()

    def run(s: Any, x: Tensor) -> Tensor:
        gate = s.gate(x).softmax(-1)
        return torch.einsum("ne,nek->nk", gate, torch.stack([e(x) for e in s.experts], 1))

    net = Fn(run, gate=nn.Linear(64, 4), experts=nn.ModuleList(mlp(64, 32, 10) for _ in range(4)))
    return {
        "model": net,
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 8,
    }


@program
def discriminator() -> dict[str, Any]:
    x = digits()[0]
    fake = torch.rand(x.shape, generator=gen(24)) * x.mean(0) * 2
    both, y = torch.cat([x, fake]), torch.cat([torch.ones(len(x), 1), torch.zeros(len(x), 1)])
    model = nn.Sequential(
        nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(64, 1), nn.Sigmoid()
    )
    return {
        "model": model,
        "data": (both, y),
        "loss": nn.BCELoss(),
        "optimizer": partial(torch.optim.Adam, lr=1e-3, betas=(0.5, 0.999)),
        "batch_size": 64,
        "epochs": 8,
    }


@program
def survival() -> dict[str, Any]:
    g = gen(25)
    x = torch.randn(800, 5, generator=g)
    risk = x @ torch.tensor([1.0, -0.7, 0.5, 0.0, 0.3])
    time = -torch.rand(800, generator=g).log() / risk.exp()
    t = torch.stack([time, (torch.rand(800, generator=g) < 0.8).float()], 1)

    def cox(o: Tensor, t: Tensor) -> Tensor:
        order = t[:, 0].argsort(descending=True)
        o, event = o[order, 0], t[order, 1]
        return -((o - o.logcumsumexp(0)) * event).sum() / event.sum().clamp(min=1)

    return {
        "model": mlp(5, 32, 1),
        "data": (x, t),
        "loss": cox,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 64,
        "epochs": 15,
    }


@program
def ordinal() -> dict[str, Any]:
    x, y = table("diabetes")
    level = (y > 90).long() + (y > 140).long() + (y > 200).long()
    t = (level[:, None] > torch.arange(3)).float()
    return {
        "model": mlp(10, 32, 3),
        "data": (x, t),
        "loss": nn.BCEWithLogitsLoss(),
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 20,
    }


@program
def full_batch_lbfgs() -> dict[str, Any]:
    x, y = table("wine")
    return {
        "model": mlp(13, 16, 3, act=nn.Tanh),
        "data": (x, y),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": partial(torch.optim.LBFGS, lr=0.5, max_iter=5),
        "batch_size": 178,
        "epochs": 20,
    }


@program
def loader_with_dictionaries() -> dict[str, Any]:
    x, y = digits()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    return {
        "model": nn.Sequential(nn.LayerNorm(64), mlp(64, 64, 64, 10, act=nn.GELU)),
        "data": loader,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": "adamw",
        "lr": 2e-3,
        "epochs": 6,
    }


@program
def double_precision_physics() -> dict[str, Any]:
    g = gen(26)
    x = torch.rand(600, 2, generator=g, dtype=torch.float64) * 2 - 1
    y = torch.sin(3 * x[:, :1]) * torch.cos(2 * x[:, 1:])
    model = mlp(2, 48, 48, 1, act=nn.Tanh).double()
    return {
        "model": model,
        "data": (x, y),
        "loss": nn.MSELoss(),
        "optimizer": "adam",
        "lr": 5e-3,
        "batch_size": 64,
        "epochs": 30,
    }


@program
def anomaly_scores() -> dict[str, Any]:
    x = table("wine")[0]

    def hypersphere(o: Tensor, _: Any) -> Tensor:
        return (o - 0.5).square().sum(1).mean()

    return {
        "model": nn.Sequential(
            nn.Linear(13, 32, bias=False), nn.LeakyReLU(), nn.Linear(32, 4, bias=False)
        ),
        "data": (x, torch.zeros(len(x))),
        "loss": hypersphere,
        "optimizer": "adam",
        "lr": 3e-3,
        "batch_size": 32,
        "epochs": 15,
    }
