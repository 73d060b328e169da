from dataclasses import replace

import pytest

from sigmascope import report
from sigmascope.core.records import Estimate, Finding, Reading, Skipped
from sigmascope.report.findings import folded, headline, reasons


def finding(name, follows="", severity="error"):
    return Finding(name, "fc", severity, (), "It is.", "", (), follows)


def test_what_follows_is_under_its_cause_in_order():
    many = (finding("a"), finding("b", "a"), finding("c"), finding("d", "a"), finding("e", "c"))
    assert list(folded(many).items()) == [(0, (1, 3)), (2, (4,))]


def test_it_goes_to_the_cause_of_causes():
    many = (finding("c", "b"), finding("b", "a"), finding("a"))
    assert dict(folded(many)) == {2: (0, 1)}


def test_of_several_places_of_a_cause_the_first_has_what_follows():
    many = (finding("a"), replace(finding("a"), site="out"), finding("b", "a"))
    assert dict(folded(many)) == {0: (2,), 1: ()}


@pytest.mark.parametrize(
    "many",
    [
        (finding("a", "gone"),),
        (finding("a", "a"),),
        (finding("a", "b"), finding("b", "a")),
    ],
)
def test_without_a_cause_that_is_shown_it_stands_alone(many):
    assert dict(folded(many)) == dict.fromkeys(range(len(many)), ())


def test_every_finding_has_one_place():
    many = (finding("x", "b"), finding("a", "b"), finding("b", "c"), finding("c", "b"))
    groups = folded(many)
    assert sorted([*groups, *(p for rest in groups.values() for p in rest)]) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("many", "says"),
    [
        ((finding("a"),), "1 cause: 1 error."),
        ((finding("a"), finding("b", "a")), "1 cause: 1 error; 1 finding follows from it."),
        (
            (finding("a"), finding("b", "a"), finding("c", "a"), finding("d", severity="note")),
            "2 causes: 1 error, 1 note; 2 findings follow from them.",
        ),
        (
            (finding("a", severity="warning"), finding("b", severity="warning")),
            "2 causes: 2 warnings.",
        ),
    ],
)
def test_the_headline_counts_causes(many, says):
    assert headline(many) == says


def test_reasons_come_with_their_sites_the_commonest_first():
    one, two, three = (
        Skipped(s, "tensor", w) for s, w in (("a", "rare"), ("b", "of"), ("c", "of"))
    )
    assert [*reasons((one, two, three)).items()] == [
        (("tensor", "of"), ["b", "c"]),
        (("tensor", "rare"), ["a"]),
    ]


def test_reasons_that_differ_in_numbers_are_one_with_their_ranges():
    whys = ("2 of 64 stick out of h.0.fc1: p = 0.5", "10 of 64 stick out of h.0.fc1: p = 1e-07")
    found = reasons([Skipped(s, "exponent", w) for s, w in zip("ab", whys, strict=True)])
    assert found == {
        ("exponent", "2 to 10 of 64 stick out of h.0.fc1: p = 1e-07 to 0.5"): ["a", "b"]
    }
    apart = [Skipped("a", "x", "tied to h.0.fc1"), Skipped("b", "x", "tied to h.1.fc1")]
    assert len(reasons(apart)) == 2  # a number within a name is no number


@pytest.mark.parametrize(("count", "more"), [(4, ""), (5, "and 1 more"), (9, "and 5 more")])
def test_four_readings_are_shown_and_the_rest_is_counted(count, more):
    reading = Reading("fc", "stable rank", Estimate.exactly(3.0), "weights", "matrix")
    said = report.text(replace(finding("a"), evidence=(reading,) * count))
    assert said.count("fc: stable rank") == min(count, 4)
    assert said.count(" more") == bool(more)
    assert more in said
