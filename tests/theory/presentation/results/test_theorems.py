from dataclasses import replace

from sigmascope import report, theory
from sigmascope.core.records import Verdict


def test_every_theorem_of_the_catalogue_is_listed_with_its_source():
    said = theory.presentation.theorems_text(theory.THEOREMS)
    for theorem in theory.THEOREMS:
        assert theorem.name in said
    assert max(map(len, said.splitlines())) <= 100


def test_checks_are_grouped_by_theorem_with_their_counts(profile):
    said = report.text(theory.presentation.Checks(profile.checks))
    assert "rank-participation: 33 holds" in said
    assert "gradient-collinearity: 1 inapplicable" in said
    assert "not met: no bias" in said


def test_places_where_one_is_inapplicable_for_the_same_reason_are_one_line(profile):
    (one,) = [c for c in profile.checks if c.theorem == "gradient-collinearity"]
    several = tuple(replace(one, site=f"layer {i}") for i in range(5))
    shown = lambda some: report.text(theory.presentation.Checks(some)).splitlines()[-1].strip()
    assert shown(several).startswith("layer 0 and 4 more  inapplicable")
    assert shown(several[:2]).startswith("layer 0, layer 1  inapplicable")
    other = replace(one, site="layer 9", assumptions=())
    assert shown((*several, other)).startswith("layer 9")


def test_one_check_is_shown_as_in_the_list(profile):
    one = profile.checks[0]
    assert report.text(one) == report.text(theory.presentation.Checks((one,)))
    violated = report.text(replace(one, verdict=Verdict.VIOLATED))
    assert "violated" in violated


def test_where_no_theorem_speaks_it_is_said():
    assert "No theorem of the catalogue speaks" in report.text(theory.presentation.Checks(()))
    assert report.json_form(theory.presentation.Checks(())) == {
        "schema": "sigmascope/checks/1",
        "checks": [],
    }
