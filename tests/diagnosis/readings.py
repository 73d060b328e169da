"""Profiles that are made up, so that each number stands next to a threshold or on it."""

import torch

from sigmascope.core.quantities import quantity
from sigmascope.core.records import Estimate, Fact, Layer, Profile, Reading
from sigmascope.diagnosis import judge

PART = 1e-6
ABOVE, BELOW = 1 + PART, 1 - PART


def reading(name, value, site="layer 0", view=None, form=""):
    estimate = value if isinstance(value, Estimate) else Estimate.exactly(float(value))
    return Reading(site, name, estimate, view or quantity(name).views[0], form)


def fact(name, word="yes", site="(loss)"):
    return Fact(site, name, quantity(name).views[0], word)


def layers(count):
    return tuple(Layer(f"layer {i}", "Linear", i, (f"layer {i}.weight",)) for i in range(count))


def profile(*readings, count=None, spectra=()):
    """Of readings and facts."""
    numbers, sites = (r for r in readings if isinstance(r, Reading)), {r.site for r in readings}
    facts = tuple(f for f in readings if isinstance(f, Fact))
    return Profile((*numbers,), layers=layers(count or len(sites)), spectra=spectra, facts=facts)


def series(quantity, *values, **where):
    return [reading(quantity, v, f"layer {i}", **where) for i, v in enumerate(values)]


def said(rule, *readings, **options):
    """Severities of what a rule finds, by name."""
    return {f.name: f.severity for f in rule(profile(*readings, **options))}


def diagnosed(*readings, **options):
    return {f.name: f.severity for f in judge(profile(*readings, **options))}


def ones(*shape):
    return torch.ones(shape, dtype=torch.float64)
