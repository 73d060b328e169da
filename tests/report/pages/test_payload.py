from dataclasses import replace

import pytest
import torch

from sigmascope.records import Estimate, Profile, SiteSpectrum, Spectrum
from sigmascope.report.pages.payload import payload


def test_a_bound_is_placed_on_the_curve_it_bounds(profile, findings):
    (bound,) = payload(profile, findings)["bounds"]
    assert bound["curve"] == ("representations", "samples", "matrix rank")
    assert bound["limit"] == [
        c.limit.value for c in profile.checks if c.theorem == bound["theorem"]
    ]


def test_the_bound_of_a_theorem_of_tomorrow_is_found_by_its_numbers(profile):
    checks = tuple(replace(c, theorem="new") for c in profile.checks[:-1])
    (bound,) = payload(replace(profile, checks=checks), ())["bounds"]
    assert bound["curve"] == ("representations", "samples", "matrix rank")


def test_the_rank_of_a_check_may_differ_from_the_reading(profile):
    checks = tuple(replace(c, measured=Estimate.exactly(99.0)) for c in profile.checks)
    (bound,) = payload(replace(profile, checks=checks), ())["bounds"]
    assert bound["curve"] == ("representations", "samples", "matrix rank")


def test_a_bound_on_what_is_no_reading_is_not_drawn(profile):
    other = tuple(
        replace(c, theorem="new", measured=Estimate.exactly(77.7)) for c in profile.checks
    )
    assert payload(replace(profile, checks=other), ())["bounds"] == []


@pytest.mark.parametrize("count", [0, 1, 64, 200, 201, 4096])
def test_long_spectra_are_thinned_and_keep_their_ends(count):
    sigma = torch.linspace(count, 1, count, dtype=torch.float64)
    site = SiteSpectrum("fc", "weights", "matrix", Spectrum(sigma, (count, count), "gram"))
    (drawn,) = payload(Profile(readings=(), spectra=(site,)), ())["spectra"]
    assert len(drawn["at"]) == len(drawn["sigma"]) == min(count, 200)
    assert drawn["at"] == sorted(set(drawn["at"]))
    if count:
        assert (drawn["at"][0], drawn["at"][-1]) == (1, count)
