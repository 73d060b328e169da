"""Numbers measured over a power of two come back in the unit of the weights."""

import torch

from sigmascope.records import Estimate, Reading, SiteSpectrum, Skipped, Spectrum
from sigmascope.scanning.measuring import in_unit


def reading(name):
    return Reading("a", name, Estimate(2.0, 1.0, 3.0, "x"), "scan")


def test_what_has_the_unit_of_weights_is_scaled_and_nothing_else():
    for power in (-600, -3, 0, 5, 600):
        back = in_unit(reading("spectral norm"), power).estimate
        assert (back.value, back.how) == (2.0 * 2.0**power, "x")
        assert back.low <= 2.0**power <= 1.01 * back.high
        assert in_unit(reading("stable rank"), power) == reading("stable rank")
        assert in_unit(Skipped("a", "b", "c"), power) == Skipped("a", "b", "c")


def test_spectra_are_scaled_with_their_ends():
    s = Spectrum(torch.tensor([2.0, 1.0], dtype=torch.float64), (2, 3), "x")
    back = in_unit(SiteSpectrum("a", "scan", "matrix", s), -2).spectrum
    assert back.sigma.tolist() == back.low.tolist() == back.high.tolist() == [0.5, 0.25]
    assert (back.shape, back.how) == ((2, 3), "x")
