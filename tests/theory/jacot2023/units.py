"""Layers of one unit each, where every side is worked out by hand."""

import torch

from sigmascope.probes.structure import Stack


def units(*factors, bias=0.0, slope=0.0):
    weights = tuple(torch.full((1, 1), f, dtype=torch.float64) for f in factors)
    biases = tuple(torch.full((1,), bias, dtype=torch.float64) for _ in factors)
    names = tuple(f"layer {i}" for i in range(len(factors)))
    return Stack(names, weights, biases, slope, bias != 0)


def at(value, *factors, **options):
    return units(*factors, **options).at(torch.full((1,), value, dtype=torch.float64))


def sides(theorem, *facts):
    found = theorem("here", *facts).check()
    return found.measured.value, found.limit.value
