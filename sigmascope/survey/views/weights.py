"""Readings of the weights: norms, ranks, condition, and how far their mean is from zero."""

from collections.abc import Iterator
from itertools import chain

from sigmascope.core import quantities as q
from sigmascope.core.records import Item, Reading, SiteSpectrum, Skipped
from sigmascope.linalg import measure
from sigmascope.models import Subject
from sigmascope.survey.views.base import ProfileView

QUANTITIES = (
    q.SPECTRAL_NORM, q.FROBENIUS_NORM, q.STABLE_RANK, q.EFFECTIVE_RANK, q.CONDITION_NUMBER,
)  # fmt: skip


def weight_items(subject: Subject) -> Iterator[Item]:
    """Norms, ranks and condition of every weight."""
    view: q.View = "weights"
    operators = ((w, w.spectrum()) for w in subject.weights if w.form == "operator")
    for weight, s in chain(subject.weight_spectra, operators):
        yield SiteSpectrum(weight.site, view, weight.form, s)
        if weight.form == "operator":
            found = measure(s, QUANTITIES)
        else:
            found = measure(weight.matrix, (q.MEAN_SHIFT, *QUANTITIES), s=s)
        for name, estimate in found.numbers.items():
            yield Reading(weight.site, name, estimate, view, weight.form)
        for why, names in found.reasons.items():
            yield Skipped(weight.site, names, why)
    convolutions = {w.site for w in subject.weights if w.form == "kernel"}
    for site in sorted(convolutions - {w.site for w in subject.weights if w.form == "operator"}):
        yield Skipped(site, "operator", "the whole convolution is too dear here, or never ran")


VIEW = ProfileView("weights", weight_items, differentiates=False)
