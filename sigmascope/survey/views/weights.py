"""Readings of the weights: norms, ranks, condition, and how far their mean is from zero."""

import math
from collections.abc import Callable, Iterator

from sigmascope import quantities as q
from sigmascope.linalg import (
    condition_number,
    effective_rank,
    schatten_norm,
    stable_rank,
    sums,
)
from sigmascope.probes import Subject, Weight, weight_spectra
from sigmascope.records import Estimate, Item, Reading, SiteSpectrum, Skipped, Spectrum
from sigmascope.survey.views.base import ProfileView


def weight_items(subject: Subject) -> Iterator[Item]:
    """Norms, ranks and condition of every weight."""
    view: q.View = "weights"
    for weight, s in zip(subject.weights, weight_spectra(subject.weights), strict=True):
        yield SiteSpectrum(weight.site, view, weight.form, s)
        quantities: tuple[tuple[str, Callable[[Spectrum], Estimate]], ...] = (
            (q.SPECTRAL_NORM, lambda s: schatten_norm(s, float("inf"))),
            (q.FROBENIUS_NORM, lambda s: schatten_norm(s, 2.0)),
            (q.STABLE_RANK, stable_rank),
            (q.EFFECTIVE_RANK, effective_rank),
            (q.CONDITION_NUMBER, condition_number),
        )
        if weight.form != "operator":
            yield from _mean_shift(weight)
        zero = not float(s.sigma[0]) > 0
        for quantity, of in quantities[:2] if zero else quantities:
            yield Reading(weight.site, quantity, of(s), view, weight.form)
        if zero:
            yield Skipped(weight.site, "ranks and condition number", "it is exactly zero")
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
