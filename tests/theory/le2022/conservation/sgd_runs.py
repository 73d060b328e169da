"""Data and networks that stochastic gradient descent is run on."""

import torch
from torch import nn


def data(seed, n=24):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=g, dtype=torch.float64)
    y = torch.randint(3, (n,), generator=g)
    return x, y


def network(seed, act=nn.ReLU):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        parts = nn.Linear(5, 8), act(), nn.Linear(8, 7), act(), nn.Linear(7, 3)
        return nn.Sequential(*parts).double()
