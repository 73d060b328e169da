"""Random stacks of every depth, width, slope and scale."""

import math
from itertools import pairwise

import torch

from sigmascope.probes.structure import Stack

SLOPES = (0.0, 0.1, -0.6)


def stack(seed, *, slope=None, biased=None, depth=None, width=8):
    g = torch.Generator().manual_seed(seed)
    pick = lambda n: int(torch.randint(n, (), generator=g))
    depth = depth or 2 + pick(5)
    widths = [1 + pick(width) for _ in range(depth + 1)]
    biased = bool(pick(2)) if biased is None else biased
    slope = SLOPES[pick(3)] if slope is None else slope
    scale = 10 ** (float(torch.rand((), generator=g)) - 0.5)
    draw = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    weights = tuple(scale * draw(b, a) / math.sqrt(a) for a, b in pairwise(widths))
    biases = tuple(0.3 * biased * draw(b) for b in widths[1:])
    sites = tuple(f"layer {i}" for i in range(depth))
    return Stack(sites, weights, biases, slope, biased), draw(widths[0]), draw(widths[0])
