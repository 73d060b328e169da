"""Readings of the gradients of single samples in the last layer."""

from collections.abc import Iterator

from sigmascope import quantities as q
from sigmascope.probes import Subject
from sigmascope.records import Estimate, Item, Reading, Skipped


def gradient_items(subject: Subject) -> Iterator[Item]:
    """|cos| between the gradients of single samples in the last layer."""
    view: q.View = "gradients"
    found = subject.gradients
    if found is None:
        yield Skipped("(last layer)", view, subject.unsplit)
        return
    if not found.pairs:
        yield Skipped(found.site, view, "no pair of samples has a gradient that is not zero")
        return
    how = f"autograd, {found.pairs} pairs"
    for quantity, value in (
        (q.MINIMUM_COS, found.least),
        (q.MEAN_COS, found.mean),
    ):
        low, high = max(value - found.error, 0.0), min(value + found.error, 1.0)
        yield Reading(found.site, quantity, Estimate(value, low, high, how), view)
