"""Random stacks of every depth, width, slope and scale."""

import math
from dataclasses import replace
from itertools import pairwise

import torch

from sigmascope.core.records import Verdict
from sigmascope.models.structure import Stack
from sigmascope.theory.jacot2023.facts import singular_values

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


COUNT = 60  # the adversary draws many more


GOOD = (Verdict.HOLDS, Verdict.CONSISTENT, Verdict.VACUOUS)


def points(slope=None, count=COUNT, **options):
    """Points at which the Jacobian has a direction."""
    found = seed = 0
    while found < count:
        net, x, y = stack(seed, slope=slope, **options)
        seed += 1
        if singular_values(net.at(x).spectrum):
            found += 1
            yield net, net.at(x), net.at(y)


def units(*factors, bias=0.0, slope=0.0):
    """Layers of one unit each, where every side is worked out by hand."""
    weights = tuple(torch.full((1, 1), f, dtype=torch.float64) for f in factors)
    biases = tuple(torch.full((1,), bias, dtype=torch.float64) for _ in factors)
    names = tuple(f"layer {i}" for i in range(len(factors)))
    return Stack(names, weights, biases, slope, bias != 0)


def at(value, *factors, **options):
    return units(*factors, **options).at(torch.full((1,), value, dtype=torch.float64))


def sides(theorem, *facts):
    found = theorem("here", *facts).check()
    return found.measured.value, found.limit.value


def unbiased(*weights, slope=1.0):
    """Layers without biases."""
    weights = tuple(W.double() for W in weights)
    zeros = tuple(torch.zeros(len(W), dtype=torch.float64) for W in weights)
    return Stack(tuple("abcdefgh"[: len(weights)]), weights, zeros, slope, False)


def faked(point, **changes):
    """A point whose facts do not fit together."""
    fake = replace(point, stack=changes.pop("stack", point.stack))
    for name in ("jacobian", "slopes", "preactivations", "forwards", "backwards", "errors"):
        fake.__dict__[name] = changes.get(name, getattr(point, name))
    return fake
