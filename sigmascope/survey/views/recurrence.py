"""Readings of recurrent layers: what is left of a gradient after all its steps."""

import math
from collections.abc import Iterator

import scipy
import torch
from torch import Tensor, nn

from sigmascope.linalg import sums
from sigmascope.probes import Subject
from sigmascope.probes.sequences import FEWEST, slope, step_gradients
from sigmascope.records import Estimate, Item, Reading, Skipped, View

VIEW: View = "setup"
RISK = 0.05


def recurrence_items(subject: Subject) -> Iterator[Item]:
    """By what factor the gradient of the last state grows with every step back."""
    seen: set[nn.Module] = set()
    for call in subject.calls:
        layer = call.module
        if not isinstance(layer, nn.RNNBase) or layer in seen or call.spoiled:
            continue
        seen.add(layer)
        if call.input.ndim != 3:
            why = "its samples are packed, or there is one alone"
            yield Skipped(call.site, "step factor", why)
            continue
        steps = call.input.shape[1 if layer.batch_first else 0]
        if steps >= FEWEST and sums.is_finite(call.input):
            yield Reading(call.site, "steps", Estimate.exactly(steps), VIEW)
            logs = step_gradients(layer, call.input, generator=torch.Generator().manual_seed(0))
            yield Reading(call.site, "step factor", _factor(logs), VIEW)


def _factor(logs: Tensor) -> Estimate:
    """Geometric mean over samples, with Student's interval; zero where most gradients are.

    The signs that stand for all units err by as much at every step, once a gradient has turned into
    the direction that shrinks least, so that they hardly move a slope.
    """
    slopes = torch.tensor([slope(row) for row in logs], dtype=torch.float64)
    there = slopes[slopes.isfinite()]  # units that are all off pass nothing back
    if 2 * len(there) < len(slopes):
        return Estimate.exactly(0.0)
    slopes = there
    mean, error = float(slopes.mean()), float(slopes.std()) / math.sqrt(len(slopes))
    reach = float(scipy.special.stdtrit(len(slopes) - 1, 1 - RISK / 2)) * error
    how = f"hutchinson({len(slopes)}), a line through the logarithms"
    return Estimate(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), how, RISK)
