"""Small dense networks, twelve samples of four features, and balances on them."""

import itertools

import torch
from torch import nn

from sigmascope.theory.le2022 import conservation


def dense(*widths, act=nn.Identity, seed=0, bias=True):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        parts = [
            p for a, b in itertools.pairwise(widths) for p in (nn.Linear(a, b, bias=bias), act())
        ]
        return nn.Sequential(*parts[:-1]).double()


X = torch.randn(12, 4, generator=torch.Generator().manual_seed(1)).double()


Y = torch.arange(12) % 3


def balances(net, x=X):
    return conservation.invariants(net, x)


def data(seed, n=24):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=g, dtype=torch.float64)
    y = torch.randint(3, (n,), generator=g)
    return x, y


def network(seed, act=nn.ReLU):
    return dense(5, 8, 7, 3, act=act, seed=seed)
