"""Small dense networks, twelve samples of four features, and balances on them."""

import itertools

import torch
from torch import nn

from sigmascope.theory import le2022


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
    return le2022.conservation.invariants(net, x)
