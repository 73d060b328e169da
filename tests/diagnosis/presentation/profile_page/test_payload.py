import base64
import re
from dataclasses import replace
from html import escape

import torch

from sigmascope.diagnosis.presentation.profile_page import POINTS, payload, pieces
from sigmascope.quantities import quantities
from sigmascope.records import Estimate, Profile, SiteSpectrum, Skipped, Spectrum, Verdict
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
    skipped = tuple(Skipped(site, "rank", "all rows are equal") for site in ("a", "<b>"))
    given = pieces(replace(profile, skipped=skipped), ())["skipped"]
    assert given.count("<details>") == 1
    assert "<strong>2</strong><span>rank</span>" in given
    assert ">a\n&lt;b&gt;</pre>" in given
    many = tuple(Skipped(str(i), "rank", "all rows are equal") for i in range(1003))
    given = pieces(replace(profile, skipped=many), ())["skipped"]
    assert given.endswith("999\nand 3 more, which the JSON form has</pre></details>")


def test_a_bound_has_a_gap_where_its_theorem_does_not_apply(profile):
    silent = replace(profile.checks[7], verdict=Verdict.INAPPLICABLE)
    checks = (*profile.checks[:7], silent, *profile.checks[8:])
    (bound,) = payload(replace(profile, checks=checks), ())["bounds"]
    assert bound["points"] == [*range(7), None, *range(8, 33), None]


def test_causes_training_and_probabilities_are_given(trained, findings):
    under = replace(findings[1], follows=findings[0].name)
    found = (findings[0], under, findings[2])
    given = pieces(trained, found)
    assert [given["cards"].count(f'class="{kind}') for kind in ("card ", "consequence ")] == [2, 1]
    assert given["headline"].startswith("2 causes")
    titles = re.findall("<dt>(probability[^<]*)<", given["chances"])
    assert titles == ["probability of fitting", "probability at your settings"]
    rows = re.findall('<th scope="row">([^<]*)</th>', given["runs"])
    assert rows == ["as planned", "rate x 10", "rate x 100"]
    meanings = [quantities()[r.quantity].says for f in findings for r in f.evidence]
    assert meanings
    assert all(escape(says) in given["cards"] for says in meanings)


def test_without_findings_or_training_these_are_empty():
    given = pieces(Profile(readings=()), ())
    assert (given["headline"], given["chances"]) == ("", "")
    assert "card " not in given["cards"]
    assert "runs" not in given
    assert given["trained"] == "hidden"


def test_quantities_of_one_unit_share_a_panel_and_each_form_has_its_own(profile):
    """What is no matrix goes with every form."""
    other = [
        replace(r, form="channels")
        for r in profile.readings
        if r.quantity == "matrix rank" and r.site == profile.layers[3].site
    ]
    given = payload(replace(profile, readings=(*other, *profile.readings)), ())
    (seen,) = (v["forms"] for v in given["views"] if v["view"] == "representations")
    assert [form["form"] for form in seen] == ["samples", "channels"]
    titles = [[panel["title"] for panel in form["panels"]] for form in seen]
    assert "Dead units" in titles[0]
    assert titles[1] == ["Matrix rank", "Dead units"]
    assert {"matrix rank", "soft rank"} <= {*seen[0]["panels"][0]["quantities"]}


def test_a_finding_leads_to_its_layer_and_its_curve(profile, findings):
    given = payload(profile, findings)
    first = given["findings"][0]
    assert first["shows"] == ("representations", "samples", "participation ratio")
    assert (first["depth"], first["at"], given["start"]) == (9, 9, 9)


def test_usual_ranges_are_of_the_curves_that_are_drawn(profile):
    found = payload(profile, ())["usual"]
    drawn = {(r.view, r.form, r.quantity) for r in profile.readings}
    assert {tuple(u["curve"]) for u in found} == {r.curve for r in references()} & drawn
    one = next(r for r in references() if r.curve in drawn)
    (given,) = [u for u in found if u["curve"] == one.curve and u["low"] == one.p05]
    assert given["high"] == one.p95
    assert f"({one.networks} networks)" in given["says"]
