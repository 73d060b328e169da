import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import networks
from sigmascope.gate import Refusal
from sigmascope.probes import Subject


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(2 * 25, 3)

    def forward(self, x):
        return self.second((x + F.relu(self.first(x))).flatten(1))


class Tokens(nn.Module):
    """A linear layer that is applied at every position."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2, bias=False)

    def forward(self, x):
        return self.second(F.leaky_relu(self.first(x), 0.2)).mean(1)


def convolutions(**options):
    return nn.Sequential(nn.Conv2d(2, 4, 3, **options), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))


NETWORKS = {
    "linear": (lambda: nn.Linear(5, 3), (6, 5)),
    "relu": (lambda: networks.mlp(inputs=5, outputs=3, depth=2, width=6), (6, 5)),
    "leaky": (
        lambda: networks.mlp(inputs=5, outputs=3, depth=2, width=4, activation="leaky"),
        (6, 5),
    ),
    "abs": (lambda: networks.mlp(inputs=4, outputs=2, depth=3, width=4, activation="abs"), (3, 4)),
    "skips": (lambda: networks.mlp(inputs=5, outputs=3, depth=3, width=5, residual=1.0), (6, 5)),
    "no bias": (lambda: networks.mlp(inputs=5, outputs=3, depth=2, width=4, bias=False), (6, 5)),
    "one sample": (lambda: networks.mlp(inputs=5, outputs=3, depth=1, width=4), (1, 5)),
    "convolution": (lambda: convolutions(), (3, 2, 5, 5)),
    "strided, padded, dilated": (
        lambda: convolutions(stride=2, padding=2, dilation=2),
        (3, 2, 6, 6),
    ),
    "grouped, without bias": (lambda: convolutions(groups=2, bias=False), (3, 2, 5, 5)),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 2), nn.Flatten(), nn.LazyLinear(2)),
        (3, 2, 3, 3),
    ),
    "pooled": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 2), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(2)),
        (3, 2, 5, 5),
    ),
    "residual convolution": (Residual, (3, 2, 5, 5)),
    "positions": (Tokens, (4, 5, 4)),
}


def built(kind, seed):
    make, shape = NETWORKS[kind]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make().double()
        outputs = model(x).shape[1]
    return model, x, torch.randint(0, outputs, (shape[0],), generator=generator)


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda out, y: out.sum(1).mean().square(), "mixes samples"),
        (lambda out, y: out.sin().sum(), "not convex in the output"),
    ],
)
def test_losses_without_a_quadratic_form_are_refused(loss, says):
    model, x, y = built("relu", 0)
    with pytest.raises(Refusal, match=says):
        _ = Subject(model, x, y, loss).conditioning


def test_a_loss_that_is_linear_has_no_curvature():
    model, x, y = built("relu", 0)
    found = Subject(model, x, y, lambda out, _: out.sum()).conditioning.found
    assert all(float(one.root.sigma[0]) == 0 for one in found)
