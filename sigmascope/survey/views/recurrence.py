"""Readings of recurrent layers: what is left of a gradient after all its steps."""

from collections.abc import Iterator

import torch
from torch import nn

from sigmascope import quantities as q
from sigmascope.linalg import sums
from sigmascope.probes import Subject
from sigmascope.probes.sequences import FEWEST, step_gradients
from sigmascope.records import Estimate, Item, Reading, Skipped, View

VIEW: View = "setup"


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
            yield Skipped(call.site, q.STEP_FACTOR, why)
            continue
        steps = call.input.shape[1 if layer.batch_first else 0]
        if steps >= FEWEST and sums.is_finite(call.input):
            yield Reading(call.site, q.STEPS, Estimate.exactly(steps), VIEW)
            generator = subject.generator or torch.Generator().manual_seed(0)
            found = step_gradients(layer, call.input, generator=generator)
            yield Reading(call.site, q.STEP_FACTOR, found.factor(), VIEW)
