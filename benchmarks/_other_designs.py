"""A second generator of networks that train and that do not: other families, tasks and faults.

Nothing is shared with `_designs.py` but what counts as fitting. Half of the families (`FITTED`)
belong to what the probability is fitted on, the others are reported: none of their networks was
looked at while features or coefficients were chosen.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope import sources
from sigmascope.diagnosis.trainability import Optimizer

SAMPLES = 512
FITTED = ("vgg", "pyramid", "mixer", "post-norm", "dense", "stacked-gru", "plain-conv")
REPORTED = (
    "vit", "separable", "dilated", "gated", "sine", "embedded-lstm", "highway", "bare-conv",
    "auto-encoder",
)  # fmt: skip
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh, "selu": nn.SELU,
    "sigmoid": nn.Sigmoid, "mish": nn.Mish, "softplus": nn.Softplus, "hardtanh": nn.Hardtanh,
}  # fmt: skip
IMAGES, TABLES = ("fashion-mnist", "cifar10", "digits"), ("diabetes", "friedman", "spirals")
WORDS = (
    "first-letter",
    "majority",
)  # of so many classes that half right is far from what the most frequent one gets
FAULTS = (
    "none", "none", "none", "gain", "gain", "gain", "uneven-gain", "low-biases", "low-biases",
    "equal-rows", "zero-layer", "large-inputs", "small-inputs", "offset", "one-column", "closing",
    "loud", "quiet", "dropout", "frozen",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Other:
    """One network with its task and its fault."""

    family: str
    depth: int
    width: int
    activation: str
    norm: bool
    data: str
    fault: str
    strength: float
    optimizer: Optimizer
    seed: int


def other(seed: int, families: Sequence[str]) -> Other:
    """A random design."""
    g = torch.Generator().manual_seed(1_000_003 * seed + 17)

    def one(options: Sequence[Any]) -> Any:
        return options[int(torch.randint(len(options), (), generator=g))]

    def spread(low: float, high: float) -> float:
        return low * (high / low) ** float(torch.rand((), generator=g))

    family = one(families)
    deepest = {"stacked-gru": 3, "embedded-lstm": 2, "vit": 3, "post-norm": 5, "vgg": 9, "dense": 8,
               "plain-conv": 10, "bare-conv": 10, "dilated": 10, "gated": 12, "sine": 8,
               "pyramid": 32, "highway": 32}  # fmt: skip
    data = one(IMAGES)
    if family in ("pyramid", "gated", "sine", "highway"):
        data = one((*IMAGES, *TABLES))
    if family == "embedded-lstm":
        data = one(WORDS)
    return Other(
        family,
        round(spread(2, deepest.get(family, 16))),
        one((16, 24, 32)),
        one(tuple(ACTIVATIONS)),
        one((True, False, False)),
        data,
        one(FAULTS),
        spread(0.005, 200),
        one(("sgd", "adam")),
        seed,
    )


class Of(nn.Module):
    """A function of some layers."""

    def __init__(self, does: Callable[..., Tensor], **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._does = does

    def forward(self, x: Tensor) -> Tensor:
        """What it does."""
        return self._does(self, x)


def task_of(d: Other) -> tuple[Tensor, Tensor]:
    """Inputs `[n, c, h, w]`, `[n, features]` or ids `[n, t]`, and classes or values."""
    g = torch.Generator().manual_seed(d.seed)
    if d.data in WORDS:
        x = torch.randint(1, 12, (SAMPLES, 12), generator=g)
        y = x[:, 0] % 6 if d.data == "first-letter" else (x <= 5).sum(1).clamp(3, 8) - 3
        return x, y
    if d.data in IMAGES:
        found = sources.open_data(d.data, samples=SAMPLES, generator=g)
        assert isinstance(found.inputs, Tensor)
        assert found.targets is not None
        x, y = found.inputs.float(), found.targets.long()
        x = x.reshape(len(x), -1, math.isqrt(x[0, 0].numel()), math.isqrt(x[0, 0].numel())) \
            if x.dim() == 4 else x.reshape(len(x), 1, math.isqrt(x[0].numel()), -1)  # fmt: skip
        x = F.adaptive_avg_pool2d(x, 8)
        x = (x - x.mean()) / x.std()
        y = x.flatten(1)[:, ::2].clone() if d.family == "auto-encoder" else y
    elif d.data == "spirals":
        y = torch.arange(SAMPLES) % 6
        t = torch.rand(SAMPLES, generator=g).sqrt() * math.pi
        a = t + math.pi / 3 * y
        x = torch.stack([t * a.cos(), t * a.sin()], 1) / 2
        x = x + 0.02 * torch.randn(x.shape, generator=g)
    else:
        if d.data == "diabetes":
            found = datasets.load_diabetes(return_X_y=True)
        else:
            found = datasets.make_friedman1(SAMPLES, 8, noise=0.3, random_state=d.seed)
        x, y = (torch.tensor(part).float() for part in found)
        x, y = (x - x.mean(0)) / x.std(0), ((y - y.mean()) / y.std())[:, None]
    s = max(d.strength, 1 / d.strength)
    if d.fault == "large-inputs":
        x = x * 10 * s
    elif d.fault == "small-inputs":
        x = x / (10 * s)
    elif d.fault == "offset":
        x = x + s
    elif d.fault == "one-column":
        x = x.clone()
        x.flatten(1)[:, 0] *= 100 * s
    return x, y


def network(d: Other, x: Tensor, y: Tensor) -> nn.Sequential:
    """The network, with its initial weights."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(d.seed)
        outputs = y.shape[1] if y.dim() > 1 else int(y.max()) + 1
        body = BODIES[d.family](d, x)
        head = nn.LazyLinear(outputs)
        parts = [*body, *([nn.Dropout(0.95)] if d.fault == "dropout" else []), head]
        if d.fault == "closing":
            closing = (nn.ReLU(), nn.Sigmoid(), nn.Softmax(-1), nn.Tanh())
            parts.append(closing[d.seed % 4])
        model = nn.Sequential(*parts)
        with torch.no_grad():
            model(x[:4])
        _spoil(model, d)
    return model


def _spoil(model: nn.Sequential, d: Other) -> None:
    last = [m for m in model if isinstance(m, nn.Linear)][-1]
    inner = [p for p in model.parameters() if p.dim() > 1 and p is not last.weight]
    s = d.strength
    with torch.no_grad():
        if d.fault in ("gain", "uneven-gain"):
            for i, p in enumerate(inner):
                p.mul_(s ** (1 / 3) if d.fault == "gain" else (s if i == len(inner) // 2 else 1))
        elif d.fault == "low-biases":
            for name, p in model.named_parameters():
                if name.endswith("bias") and p is not last.bias:
                    p.sub_(0.3 * max(s, 1 / s) ** 0.5)
        elif d.fault == "equal-rows":
            for p in inner:
                p.copy_(p.mean(0, keepdim=True).expand_as(p))
        elif d.fault == "zero-layer":
            inner[len(inner) // 2].zero_()
        elif d.fault == "loud":
            last.weight.mul_(10 * max(s, 1 / s))
        elif d.fault == "quiet":
            last.weight.mul_(0.1 * min(s, 1 / s))
    if d.fault == "frozen":
        for p in model.parameters():
            p.requires_grad_(p is last.weight or p is last.bias or p is inner[0])


def _act(d: Other) -> nn.Module:
    return ACTIVATIONS[d.activation]()


def _conv(d: Other, a: int, b: int, *, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    norm = [nn.BatchNorm2d(b)] if d.norm else []
    return [nn.Conv2d(a, b, 3, stride, 1, groups=groups), *norm, _act(d)]


def _vgg(d: Other, x: Tensor) -> list[nn.Module]:
    layers, a = [], x.shape[1]
    for i in range(d.depth):
        layers += _conv(d, a, a := d.width if i >= d.depth // 2 else d.width // 2)
        if i in (d.depth // 3, 2 * d.depth // 3):
            layers.append(nn.MaxPool2d(2))
    wide = [nn.Flatten(), nn.LazyLinear(64), _act(d)]
    return [*layers, *wide]


def _plain_conv(d: Other, x: Tensor) -> list[nn.Module]:
    layers = _conv(d, x.shape[1], d.width, stride=2)
    for _ in range(d.depth):
        layers += _conv(d, d.width, d.width)
    return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def _bare_conv(d: Other, x: Tensor) -> list[nn.Module]:
    layers, a = [], x.shape[1]
    for i in range(d.depth):
        size = (5, 3)[i % 2]
        layers += [nn.Conv2d(a, a := d.width // 2, size, 1 + (i == 0), size // 2), _act(d)]
    return [*layers, nn.Flatten()]


def _pyramid(d: Other, x: Tensor) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten()]
    for i in range(d.depth):
        width = max(8, round(4 * d.width * 0.5 ** (4 * i / d.depth)))
        layers += [nn.LazyLinear(width), *([nn.LayerNorm(width)] if d.norm else []), _act(d)]
    return layers


def _mixer(d: Other, x: Tensor) -> list[nn.Module]:
    tokens = lambda n: nn.Sequential(nn.Linear(n, 2 * n), _act(d), nn.Linear(2 * n, n))
    norm = lambda: nn.LayerNorm(d.width) if d.norm else nn.Identity()
    layers: list[nn.Module] = [nn.Conv2d(x.shape[1], d.width, 2, 2), nn.Flatten(2)]
    layers.append(Of(lambda _, h: h.mT))
    for _ in range(max(1, d.depth // 3)):
        mix = lambda m, h: h + m.inner(m.norm(h).mT).mT
        layers += [Of(mix, inner=tokens(16), norm=norm())]
        layers += [Of(lambda m, h: h + m.inner(m.norm(h)), inner=tokens(d.width), norm=norm())]
    return [*layers, Of(lambda _, h: h.mean(1))]


def _patches(d: Other, x: Tensor, width: int) -> list[nn.Module]:
    return [nn.Conv2d(x.shape[1], width, 2, 2), nn.Flatten(2), Of(lambda _, h: h.mT)]


def _post_norm(d: Other, x: Tensor) -> list[nn.Module]:
    act = "gelu" if d.activation in ("gelu", "silu", "mish", "tanh") else "relu"
    each = lambda: nn.TransformerEncoderLayer(32, 4, 64, 0.0, act, batch_first=True)
    return [*_patches(d, x, 32), *(each() for _ in range(d.depth)), Of(lambda _, h: h.mean(1))]


class _Vit(nn.Module):
    def __init__(self, d: Other, x: Tensor) -> None:
        super().__init__()
        self.patches = nn.Sequential(*_patches(d, x, 48))
        self.place = nn.Parameter(0.02 * torch.randn(17, 48))
        self.sign = nn.Parameter(torch.zeros(1, 1, 48))
        self.norms = nn.ModuleList(nn.LayerNorm(48) for _ in range(2 * d.depth))
        self.attention = nn.ModuleList(
            nn.MultiheadAttention(48, 3, batch_first=True) for _ in range(d.depth)
        )
        self.feed = nn.ModuleList(
            nn.Sequential(nn.Linear(48, 96), _act(d), nn.Linear(96, 48)) for _ in range(d.depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.patches(x)
        h = torch.cat([self.sign.expand(len(h), 1, 48), h], 1) + self.place
        for i, (attention, feed) in enumerate(zip(self.attention, self.feed, strict=True)):
            n = self.norms[2 * i](h)
            h = h + attention(n, n, n, need_weights=False)[0]
            h = h + feed(self.norms[2 * i + 1](h))
        return h[:, 0]


def _dense(d: Other, x: Tensor) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(x.shape[1], 16, 3, 2, 1)]
    a = 16
    for _ in range(d.depth):
        inner = nn.Sequential(*([nn.BatchNorm2d(a)] if d.norm else []), _act(d),
                              nn.Conv2d(a, 8, 3, 1, 1))  # fmt: skip
        layers.append(Of(lambda m, h: torch.cat([h, m.inner(h)], 1), inner=inner))
        a += 8
    return [*layers, _act(d), nn.AdaptiveAvgPool2d(2), nn.Flatten()]


def _stacked_gru(d: Other, x: Tensor) -> list[nn.Module]:
    rows = Of(lambda _, h: h.permute(0, 2, 1, 3).flatten(2))
    inner = nn.GRU(x.shape[1] * x.shape[3], d.width, d.depth, batch_first=True)
    return [rows, Of(lambda m, h: m.inner(h)[0].mean(1), inner=inner)]


def _embedded_lstm(d: Other, x: Tensor) -> list[nn.Module]:
    kind: Any = nn.LSTM if d.norm or d.width == 32 else nn.RNN
    inner = kind(16, d.width, d.depth, batch_first=True, bidirectional=d.width == 48)
    return [nn.Embedding(12, 16), Of(lambda m, h: m.inner(h)[0][:, -1], inner=inner)]


def _separable(d: Other, x: Tensor) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(x.shape[1], d.width, 2, 2)]
    for _ in range(max(1, d.depth // 2)):
        norm = [nn.GroupNorm(1, d.width)] if d.norm else []
        inner = nn.Sequential(
            nn.Conv2d(d.width, d.width, 3, 1, 1, groups=d.width), *norm,
            nn.Conv2d(d.width, 2 * d.width, 1), _act(d), nn.Conv2d(2 * d.width, d.width, 1),
        )  # fmt: skip
        skip = d.seed % 3 > 0
        does = (lambda m, h: h + m.inner(h)) if skip else (lambda m, h: m.inner(h))
        layers.append(Of(does, inner=inner))
    return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def _dilated(d: Other, x: Tensor) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten(2), nn.Conv1d(x.shape[1], d.width, 1)]
    for i in range(d.depth):
        reach = 2 ** (i % 4)
        pad = Of(lambda _, h, r=reach: F.pad(h, (2 * r, 0)))
        inner = [nn.Conv1d(d.width, d.width, 3, dilation=reach), _act(d)]
        norm = [nn.BatchNorm1d(d.width)] if d.norm else []
        layers += [pad, *inner, *norm]
    return [*layers, Of(lambda _, h: h[..., -1])]


def _gated(d: Other, x: Tensor) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten(), nn.LazyLinear(d.width)]
    for _ in range(d.depth):
        parts = {"gate": nn.Linear(d.width, d.width), "value": nn.Linear(d.width, d.width)}
        act = ACTIVATIONS[d.activation]()
        gate = lambda m, h: m.act(m.gate(h)) * m.value(h)
        layers += [*([nn.LayerNorm(d.width)] if d.norm else []), Of(gate, act=act, **parts)]
    return layers


def _sine(d: Other, x: Tensor) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten()]
    frequency = (1.0, 3.0, 30.0)[d.seed % 3]
    for i in range(d.depth):
        scale = frequency if i == 0 else 1.0
        does = lambda m, h, w=scale: torch.sin(w * m.inner(h))
        layers.append(Of(does, inner=nn.LazyLinear(2 * d.width)))
    return layers


def _highway(d: Other, x: Tensor) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten(), nn.LazyLinear(d.width)]
    for _ in range(d.depth):
        gate = nn.Linear(d.width, d.width)
        nn.init.constant_(gate.bias, (-1.0, -3.0, 2.0)[d.seed % 3])
        carry = lambda m, h: h + torch.sigmoid(m.gate(h)) * (m.act(m.inner(h)) - h)
        layers.append(Of(carry, gate=gate, inner=nn.Linear(d.width, d.width), act=_act(d)))
    return layers


def _auto_encoder(d: Other, x: Tensor) -> list[nn.Module]:
    sizes = [4 * d.width, 2 * d.width, d.width // 2, 2 * d.width]
    layers: list[nn.Module] = [nn.Flatten()]
    for size in (sizes * 6)[: 4 * max(1, d.depth // 6)]:
        layers += [nn.LazyLinear(size), *([nn.LayerNorm(size)] if d.norm else []), _act(d)]
    return layers


BODIES: dict[str, Callable[[Other, Tensor], list[nn.Module]]] = {
    "vgg": _vgg, "pyramid": _pyramid, "mixer": _mixer, "post-norm": _post_norm, "dense": _dense,
    "stacked-gru": _stacked_gru, "plain-conv": _plain_conv, "bare-conv": _bare_conv,
    "vit": lambda d, x: [_Vit(d, x)], "separable": _separable, "dilated": _dilated,
    "gated": _gated, "sine": _sine, "embedded-lstm": _embedded_lstm, "highway": _highway,
    "auto-encoder": _auto_encoder,
}  # fmt: skip
