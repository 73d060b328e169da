"""Readings of the weights: norms, ranks, condition, and how far their mean is from zero."""

import math
from collections.abc import Iterator

from sigmascope import quantities as q
from sigmascope.linalg import measure, sums
from sigmascope.probes import Subject, Weight, weight_spectra
from sigmascope.records import Estimate, Item, Reading, SiteSpectrum, Skipped
from sigmascope.survey.views.base import ProfileView

QUANTITIES = (
    q.SPECTRAL_NORM, q.FROBENIUS_NORM, q.STABLE_RANK, q.EFFECTIVE_RANK, q.CONDITION_NUMBER,
)  # fmt: skip


def weight_items(subject: Subject) -> Iterator[Item]:
    """Norms, ranks and condition of every weight."""
    view: q.View = "weights"
    for weight, s in zip(subject.weights, weight_spectra(subject.weights), strict=True):
        yield SiteSpectrum(weight.site, view, weight.form, s)
        if weight.form != "operator":
            yield from _mean_shift(weight)
        found = measure(s, QUANTITIES)
        for name, estimate in found.numbers.items():
            yield Reading(weight.site, name, estimate, view, weight.form)
        for why in {*found.undefined.values()}:
            yield Skipped(weight.site, "ranks and condition number", why)
    convolutions = {w.site for w in subject.weights if w.form == "kernel"}
    for site in sorted(convolutions - {w.site for w in subject.weights if w.form == "operator"}):
        yield Skipped(site, "operator", "the whole convolution is too dear here, or never ran")


def _mean_shift(weight: Weight) -> Iterator[Item]:
    """Singular value of a weight's constant part over the largest that its spread would give.

    A matrix `[m, n]` of equal entries has the singular value `|mean| √(mn)`; independent entries
    of spread s and mean zero stay below `s (√m + √n)` (Bai & Yin 1993).
    """
    m, n = weight.shape
    mean, spread = sums.mean_and_spread(weight.matrix)
    if spread > 0:
        value = abs(mean) * math.sqrt(m * n) / (spread * (m**0.5 + n**0.5))
        shift = Estimate.rounded(value, ulps=64)
        yield Reading(weight.site, q.MEAN_SHIFT, shift, "weights", weight.form)
    else:
        yield Skipped(weight.site, q.MEAN_SHIFT, "all its entries are equal")


VIEW = ProfileView("weights", weight_items, differentiates=False)
