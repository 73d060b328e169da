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


def indents(text):
    return [len(line) - len(line.lstrip()) for line in text.splitlines() if line]


def test_what_follows_is_indented_under_its_cause_and_causes_are_apart():
    many = (finding("a"), finding("b", "a"), finding("c", "a"), finding("d", severity="note"))
    said = report.text(many)
    blocks = said.split("\n\n")
    assert len(blocks) == 3  # the headline, and each cause with what follows from it
    assert blocks[0].startswith(headline(many).rstrip("."))
    assert "explain a" in blocks[0]
    assert indents(blocks[1])[0] == indents(blocks[2])[0] == 0
    lines = blocks[1].splitlines()
    places = [i for i, line in enumerate(lines) if line.lstrip().startswith("└")]
    assert len(places) == 2
    for i in places:
        cause, sentence = lines[i], lines[i + 1]
        assert indents(cause) == [2]
        assert indents(sentence) == [4]
        assert "follows from a" in cause
        assert sentence.strip() == "It is."


def test_rows_of_a_finding_are_indented_under_its_name():
    said = report.text(replace(finding("a"), remedies=("Do this.", "Or that.")))
    assert indents(said)[0] == 0
    assert {*indents(said)[1:]} <= {2, *range(4, 20)}
    assert 2 in indents(said)
    (row,) = [line for line in said.splitlines() if "Do this." in line]
    assert row.split() == ["do", "Do", "this."]


@pytest.mark.parametrize(
    ("view", "form", "told"),
    [
        ("setup", "cut", ", cut:"),
        ("training", "a", ", a:"),
        ("weights", "kernel", ""),
        ("setup", "", ""),
    ],
)
def test_what_one_quantity_is_read_of_is_told_where_views_read_several(view, form, told):
    reading = Reading("fc", "stable rank", Estimate.exactly(3.0), view, form)
    said = report.text(replace(finding("a"), evidence=(reading,)))
    assert f"fc: stable rank{told} 3" in said


def test_the_largest_risk_of_what_is_shown_is_said():
    risky = [
        Reading("fc", "stable rank", Estimate(3.0, 2.0, 4.0, "sampled", risk), "weights")
        for risk in (0.0, 0.02, 0.01, 0.0, 0.5)
    ]
    said = report.text(replace(finding("a"), evidence=tuple(risky)))
    assert "chance at most 0.02" in said
    assert "chance" not in report.text(replace(finding("a"), evidence=(risky[0],)))
