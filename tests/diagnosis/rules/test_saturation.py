"""Units speak from their thresholds on and not before them, as docs/findings.md has it."""

import pytest
from torch import nn

from sigmascope.diagnosis.rules.saturation import (
    equal_units,
    hidden_collapse,
    sigmoid_stack,
    silent_samples,
)
from sigmascope.linalg.spectra import spectrum
from sigmascope.records import SiteSpectrum
from tests.diagnosis.readings import ABOVE, BELOW, ones, reading, said, series
from tests.diagnosis.rules.networks import found, mlp


@pytest.mark.parametrize(
    ("sigmoids", "count", "speaks"), [(4, 8, True), (4, 9, False), (3, 3, False), (5, 10, True)]
)
def test_how_many_sigmoids_are_a_stack(sigmoids, count, speaks):
    found = series("saturated share", *[0.1] * sigmoids, form="sigmoid")
    assert (said(sigmoid_stack, *found, count=count) != {}) is speaks
    tanh = series("saturated share", *[0.1] * sigmoids, form="tanh")
    assert said(sigmoid_stack, *tanh, count=count) == {}


@pytest.mark.parametrize(("share", "severity"), [(0.15, "error"), (0.16, "warning")])
def test_units_that_are_all_the_same_are_an_error(share, severity):
    """Of ten units, 1.5 and 1.6 that are distinct."""
    spectra = (
        SiteSpectrum("layer 0", "representations", "samples", spectrum(ones(4, 10))),
        SiteSpectrum("layer 1", "representations", "samples", spectrum(ones(4, 2))),
    )
    found = said(equal_units, reading("distinct units", share, form="samples"), spectra=spectra)
    assert found == {"equal-units": severity}


@pytest.mark.parametrize(
    ("variation", "ratio", "speaks"),
    [
        (1e-3 * BELOW, 2 * ABOVE, True),
        (1e-3, 2 * ABOVE, False),
        (1e-3 * BELOW, 2.0, False),
    ],
)
def test_what_normalisation_may_blow_up(variation, ratio, speaks):
    """The ratio is that of the layer after the one that writes."""
    ratios = series("participation ratio", 9.0, 1.5, ratio, 1.5, form="samples")
    written = reading("written variation", variation, "layer 1")
    assert (said(hidden_collapse, *ratios, written) != {}) is speaks
    for site in ("layer 0", "layer 3", "elsewhere"):  # followed by 1.5, or by nothing
        moved = reading("written variation", variation, site)
        assert said(hidden_collapse, *ratios, moved) == {}


def test_normalisation_that_hides_a_collapse(digits):
    """A deep default network collapses; a normaliser at its end blows the rest up."""
    deep = mlp(12)
    deep.hidden[-1].add_module("norm", nn.BatchNorm1d(64))
    one = found(deep, digits)["hidden-collapse"]
    assert one.site == "hidden.11.linear"
    assert "hidden-collapse" not in found(mlp(12, norm="batch"), digits)


def test_what_is_the_same_for_all_by_design_hides_nothing():
    """As a table of positions: no difference is there that could be blown up."""
    after = reading("participation ratio", 3.0, "layer 1", form="samples")
    for variation, speaks in ((1e-5, True), (0.0, False)):
        rows = reading("written variation", variation, "layer 0"), after
        assert bool(said(hidden_collapse, *rows, count=2)) == speaks


@pytest.mark.parametrize(
    ("shares", "speaks"),
    [
        ((0.0, 0.25), True),
        ((0.0, 0.25 * BELOW), False),
        ((0.9, 0.0), False),  # the inputs are what they are
        ((0.0, 0.1, 0.3), True),
        ((), False),
    ],
)
def test_samples_that_arrive_as_zeros(shares, speaks):
    found = said(silent_samples, *series("silent samples", *shares))
    assert (found == {"silent-samples": "warning"}) is speaks


@pytest.mark.parametrize(("form", "speaks"), [("samples", False), ("matrix", True)])
def test_units_of_samples_that_arrive_as_one_are_not_judged_by_their_values(form, speaks):
    lost = (
        reading("distinct samples", 9, "(inputs)", "setup"),
        *series("relative variation", 0.0, 0.0, form="samples"),
    )
    found = said(equal_units, *lost, reading("distinct units", 0.1, form=form))
    assert (found != {}) is speaks
