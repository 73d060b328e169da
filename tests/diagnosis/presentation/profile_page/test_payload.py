import base64
from dataclasses import replace

import torch

from sigmascope.diagnosis.presentation.profile_page import POINTS, payload
from sigmascope.records import Estimate, Profile, SiteSpectrum, Skipped, Spectrum
from sigmascope.references import references


def test_a_bound_is_placed_on_the_curve_it_bounds(profile, findings):
    (bound,) = payload(profile, findings)["bounds"]
    assert bound["curve"] == ("representations", "samples", "matrix rank")
    assert bound["theorem"] == "rank-participation"


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


def test_long_spectra_are_thinned_and_keep_what_is_said_of_them():
    sigma = torch.linspace(4096, 1, 4096, dtype=torch.float64)
    sigma[-3:] = 0
    site = SiteSpectrum("fc", "weights", "matrix", Spectrum(sigma, (4096, 4096), "gram"))
    data = payload(Profile(readings=(), spectra=(site,)), ())
    ((place, *words, shape, count, zeros, text),) = data["spectra"]
    assert (data["sites"][place], *words) == ("fc", "weights", "matrix")
    assert (shape, count, zeros) == ((4096, 4096), 4096, 3)
    assert len(base64.b64decode(text)) == 16 + 2 * POINTS


def test_each_reason_stands_once_with_its_sites(profile):
    skipped = tuple(Skipped(site, "rank", "all rows are equal") for site in ("a", "b"))
    data = payload(replace(profile, skipped=skipped), ())
    ((what, why, places),) = data["skipped"]
    assert (what, why) == ("rank", "all rows are equal")
    assert [data["sites"][place] for place in places] == ["a", "b"]


def test_causes_training_and_probabilities_are_given(trained, findings):
    under = replace(findings[1], follows=findings[0].name)
    given = payload(trained, (findings[0], under, findings[2]))
    assert given["cards"] == [{"cause": 0, "follow": (1,)}, {"cause": 2, "follow": ()}]
    assert given["headline"].startswith("2 causes")
    assert [c["name"] for c in given["chances"]] == [
        "probability of fitting",
        "probability at your settings",
    ]
    assert [run["form"] for run in given["training"]["runs"]] == [
        "as planned",
        "rate x 10",
        "rate x 100",
    ]
    assert set(given["meanings"]) == {r.quantity for f in findings for r in f.evidence}


def test_without_findings_or_training_these_are_empty():
    given = payload(Profile(readings=()), ())
    assert (given["cards"], given["headline"], given["chances"]) == ([], "", [])
    assert given["training"]["runs"] == given["training"]["facts"] == []


def test_usual_ranges_are_of_the_curves_that_are_drawn(profile):
    found = payload(profile, ())["usual"]
    drawn = {(r.view, r.form, r.quantity) for r in profile.readings}
    assert {tuple(u["curve"]) for u in found} == {r.curve for r in references()} & drawn
    one = next(r for r in references() if r.curve in drawn)
    ends = {"low": one.p05, "high": one.p95, "networks": one.networks}
    assert {"curve": one.curve, "stage": one.stage, **ends} in found
