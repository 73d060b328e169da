"""Piecewise-affine networks of every kind, shared by the tests of their maps and regions."""

import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import networks
from sigmascope.networks import Abs

D = torch.float64


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
