"""Linear networks with drawn weights."""

from itertools import pairwise

import torch
from torch import nn


def draw(seed, *shapes):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(*s, generator=g, dtype=torch.float64) for s in shapes]


def dense(*widths, seed=0):
    g = torch.Generator().manual_seed(seed)
    net = nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in pairwise(widths)))
    with torch.no_grad():
        for layer in net:
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=g))
    return net.double()
