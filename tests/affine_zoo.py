"""Piecewise-affine networks of every kind, shared by the tests of their maps and regions."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from sigmascope.models import networks
from sigmascope.models.networks import Abs

D = torch.float64


class Pooled(nn.Module):
    def __init__(self, size, *, side, relu=True, ceil=False):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.between = nn.ReLU() if relu else nn.Identity()
        self.pool = nn.MaxPool2d(size, ceil_mode=ceil)
        left = self.pool(torch.zeros(1, 3, side - 2, side - 2)).numel()
        self.last = nn.Linear(left, 2)

    def forward(self, x):
        return self.last(self.pool(self.between(self.conv(x))).flatten(1))


class Dense(nn.Module):
    """Everything that went before is read again (DenseNet), with functions for activations."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4 * (i + 1), 4) for i in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, F.relu(layer(x))], dim=1)
        return x.clamp(min=-1, max=1)


def images(*parts):
    return nn.Sequential(nn.Conv2d(2, 3, 3), *parts, nn.Flatten(), nn.LazyLinear(4))


NETWORKS = {
    "relu": lambda: (networks.mlp(inputs=5, outputs=3, depth=3, width=7), (1, 5)),
    "leaky": lambda: (networks.mlp(inputs=5, outputs=3, width=7, activation="leaky"), (1, 5)),
    "abs": lambda: (networks.mlp(inputs=5, outputs=3, width=7, activation="abs"), (1, 5)),
    "linear": lambda: (networks.mlp(inputs=5, outputs=3, width=7, activation="linear"), (1, 5)),
    "residual": lambda: (networks.mlp(inputs=5, outputs=3, width=5, residual=0.7), (1, 5)),
    "batch norm": lambda: (networks.mlp(inputs=5, outputs=3, width=7, norm="batch"), (1, 5)),
    "dense": lambda: (Dense(), (1, 4)),
    "hard": lambda: (
        nn.Sequential(nn.Linear(5, 6), nn.Hardtanh(), nn.Linear(6, 6), nn.PReLU(), nn.ReLU6(True)),
        (1, 5),
    ),
    "max-pooling": lambda: (
        images(nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2)),
        (1, 2, 10, 10),
    ),
    "transposed, grouped, dilated": lambda: (
        images(
            nn.LeakyReLU(0.3),
            nn.ConvTranspose2d(3, 6, 2, 2),
            Abs(),
            nn.Conv2d(6, 4, 3, groups=2, dilation=2),
            nn.AdaptiveAvgPool2d(3),
            nn.Upsample(size=5),
        ),
        (1, 2, 8, 8),
    ),
}


def built(kind, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, shape = NETWORKS[kind]()
        model = model.double()
        x = torch.randn(shape, dtype=D)
        model.eval()(x)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                nn.init.normal_(module.running_mean)
                nn.init.uniform_(module.running_var, 0.5, 2)
        return model, x, torch.randn(shape, dtype=D)


class Through(nn.Module):
    """Functions of a row of six numbers, between linear layers."""

    def __init__(self, *functions):
        super().__init__()
        self.functions = functions
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in functions[1:])
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        h = self.functions[0](self.first(x))
        for layer, f in zip(self.layers, self.functions[1:], strict=True):
            h = f(layer(h))
        return self.last(h)


def through(*functions, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Through(*functions).double()
        return model, torch.randn(1, 4, dtype=D), torch.randn(1, 4, dtype=D)


class Straight(torch.autograd.Function):
    """A step whose derivative claims to be that of the identity."""

    @staticmethod
    def forward(ctx, h):
        return (h > 0).to(h)

    @staticmethod
    def backward(ctx, g):
        return g


class Reversed(torch.autograd.Function):
    """The identity, with its derivative turned round."""

    @staticmethod
    def forward(ctx, h):
        return h.view_as(h)

    @staticmethod
    def backward(ctx, g):
        return -g


class Doubled(torch.autograd.Function):
    """A function with the derivative that is its own."""

    @staticmethod
    def forward(ctx, h):
        return 2 * h

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def hooked(h):
    h = 1 * h
    if h.requires_grad:
        h.register_hook(lambda g: 2 * g)
    return h


def without_tape(h):
    with torch.no_grad():
        more = 2 * h
    return h + more


def in_place_without_tape(h):
    h = 1 * h
    with torch.no_grad():
        h.mul_(2)
    return h


def behind_its_back(h):
    h = 1 * h
    h.data.mul_(2)
    return h


def in_a_thread(h):
    with ThreadPoolExecutor(1) as other:
        return h + other.submit(torch.relu, h).result()


def into_a_buffer(h):
    b = h.new_zeros(len(h), 8)
    b[:, :6] = h
    b[:, 6:] = h[:, :2]
    return b.relu()[:, :6]


def images_of(h):
    return F.max_pool2d(h.relu().reshape(-1, 1, 2, 3), 2, stride=1, padding=1).flatten(1)[:, :6]


# piecewise affine, in many spellings
PIECEWISE = {
    "where": lambda h: torch.where(h > 0, h, 0.1 * h),
    "where, method": lambda h: h.where(h >= 0.2, 0.1 * h - 1),
    "clip": lambda h: h.clip(0, 1),
    "torch.clip": lambda h: torch.clip(h, min=-1),
    "clamp_": lambda h: (1 * h).clamp_(0),
    "clamp by tensors": lambda h: h.clamp(h.new_full((6,), -0.3), torch.linspace(0, 1, 6).to(h)),
    "clamp by itself": lambda h: h.clamp(max=h.flip(1)),
    "mask": lambda h: h * (h > 0),
    "dunder mask": lambda h: (h.__lt__(0.1)).__rmul__(h),
    "mul_": lambda h: (1 * h).mul_(h > 0.3),
    "band": lambda h: h * ((h > 0) & ~(h > 1)),
    "count": lambda h: h * (h > 0).sum(1, keepdim=True),
    "jump": lambda h: h - (h > 0).to(h),
    "masked_fill": lambda h: h.masked_fill(h < 0, 0.5),
    "masked_fill_": lambda h: (1 * h).masked_fill_(h < 0, 0.0),
    "index_put": lambda h: torch.index_put(h, (h > 0).nonzero(as_tuple=True), h.new_tensor(0.0)),
    "argmax": lambda h: h.gather(1, h.argmax(1, keepdim=True)).expand(len(h), 6),
    "table": lambda h: h + F.embedding((h > 0).sum(1), torch.arange(42.0).to(h).reshape(7, 6)),
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "threshold": lambda h: F.threshold(h, 0.1, 2.0),
    "sign": lambda h: h * h.sign(),
    "abs": abs,
    "rrelu": F.rrelu,
    "prelu": lambda h: F.prelu(h, h.new_tensor([0.3])),
    "max": lambda h: h - h.max(1, keepdim=True)[0],
    "amin": lambda h: h - h.amin(1, keepdim=True),
    "maximum": lambda h: torch.maximum(h, h.flip(1)),
    "torch.min": lambda h: torch.min(h, -h),
    "fmin": lambda h: torch.fmin(h, 0.5 * h),
    "max-pooling": images_of,
    "max-pooling in one dimension": lambda h: F.max_pool1d(h[:, None], 2, 1)[
        :, 0, [0, 1, 2, 3, 4, 4]
    ],
    "buffer": into_a_buffer,
    "vmap": lambda h: torch.func.vmap(lambda r: torch.where(r > 0, r, 0.2 * r))(h),
    "finite": lambda h: (h if torch.isfinite(h).all() else h / 0).relu(),
    "transposed": lambda h: h.t().relu().t(),
    "printed": lambda h: (str(h), h.relu())[1],
    "checkpoint": lambda h: checkpoint(torch.relu, h, use_reentrant=False),
    "addcmul": lambda h: torch.addcmul(h, h.relu(), torch.ones(6).to(h)),
    "lerp": lambda h: torch.lerp(h, h.abs(), 0.3),
    "branch": lambda h: 2 * h if h.sum() > 0 else 0.5 * h,
    "chosen": lambda h: h.new_zeros(1, 6).masked_scatter(h > 0, 2 * h[h > 0]),
}
# not piecewise affine, not known to be, or not what their derivative says; and what names them
REFUSED = {
    "h * h.detach()": (lambda h: h * h.detach(), "cut off from the derivative.*`Mul`"),
    "h / norm.detach()": (lambda h: h / h.norm().detach(), "LinalgVectorNorm"),
    "h * h.data": (lambda h: h * h.data, "cut off"),
    "clamp(out=)": (
        lambda h: h + torch.clamp(h.detach(), 0, 1, out=torch.empty_like(h.detach())),
        "cut off",
    ),
    "no_grad": (without_tape, "cut off"),
    "no_grad in place": (in_place_without_tape, "cut off"),
    "data in place": (behind_its_back, "cut off"),
    "straight-through": (lambda h: h + Straight.apply(h), "`Straight`"),
    "rounding straight-through": (lambda h: h + (h.round() - h).detach(), "Round"),
    "reversed": (Reversed.apply, "`Reversed`"),
    "hook": (hooked, "than its derivative"),
    "numpy": (lambda h: h * torch.from_numpy(2 * h.detach().numpy()), "leave PyTorch .`numpy`"),
    "asarray": (lambda h: h + torch.as_tensor(np.asarray(h.detach())), "leave PyTorch"),
    "tolist": (lambda h: h + h.new_tensor(h.tolist()), "leave PyTorch .`tolist`"),
    "item": (lambda h: h * h.sum().item(), "leave PyTorch .`item`"),
    "deepcopy": (lambda h: h * copy.deepcopy(h.detach()), "leave PyTorch"),
    "square": (lambda h: h**2, "`Pow`"),
    "product": (lambda h: h * h.flip(1), "a product .`Mul`"),
    "addcmul of two": (lambda h: torch.addcmul(h, h, h), "a product .`Addcmul`"),
    "lerp of two": (lambda h: torch.lerp(h, 2 * h, h), "a product .`Lerp`"),
    "einsum": (lambda h: torch.einsum("ni,nj->nij", h, h).sum(2), "a product"),
    "quotient": (lambda h: 1 + h / h.sum(), "a division"),
    "floor division": (
        lambda h: torch.div(h, 0.3, rounding_mode="floor"),
        "a division that rounds",
    ),
    "floor": (torch.floor, "`Floor`"),
    "remainder": (lambda h: h % 1, "`Remainder`"),
    "int": (lambda h: h + h.int(), "rounded to integers"),
    "bits": (lambda h: h * h.detach().view(torch.int64), "bits"),
    "complex": (
        lambda h: torch.view_as_complex(h.reshape(-1, 3, 2)).abs().repeat(1, 2),
        "ViewAsComplex|complex",
    ),
    "fft": (lambda h: torch.fft.rfft(h).real[:, [0, 1, 2, 3, 0, 1]], "`FftR2c`"),
    "hardswish": (F.hardswish, "`Hardswish`"),
    "celu": (F.celu, "`Celu`"),
    "softmax": (lambda h: h.softmax(1), "`Softmax`"),
    "instance norm": (
        lambda h: F.instance_norm(h[:, None])[:, 0],
        "takes the statistics of its input",
    ),
    "dropout": (F.dropout, "random numbers"),
    "noise": (lambda h: h + torch.randn_like(h), "random numbers .`RandnLike`"),
    "derivative": (
        lambda h: torch.func.jvp(torch.tanh, (h,), (h.detach() * 0,))[1] + h,
        "Tanh|cut",
    ),
    "scatter_reduce": (
        lambda h: h.scatter_reduce(1, torch.zeros(1, 6, dtype=torch.int64), h, "amax"),
        "`ScatterReduce`",
    ),
    "thread": (in_a_thread, "out of sight"),
    "equal": (lambda h: 2 * h if torch.equal(h, h.relu()) else h, "`Equal`"),
    "bucketize": (lambda h: h + torch.bucketize(h, torch.zeros(1).to(h)), "`Bucketize`"),
}
# piecewise affine with bends that are not looked for
UNKNOWN = {
    "sort": lambda h: h.sort(1)[0],
    "topk": lambda h: h.topk(3, 1)[0].repeat(1, 2),
    "cummax": lambda h: h.cummax(1)[0],
    "pooling of any size": lambda h: F.adaptive_max_pool1d(h[:, None], 3)[:, 0].repeat(1, 2),
    "mask of what is cut off": lambda h: h * (h.detach() > 0),
}
