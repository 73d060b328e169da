from dataclasses import replace

import pytest

from sigmascope.core.records import Estimate, Finding, Reading
from sigmascope.report import pages
from sigmascope.report.pages import card, cards, element, joined, prose, severities

READ = Reading("fc", "stable rank", Estimate(12.3, 11.9, 12.8, "sampled", 0.05), "weights")
FOUND = Finding("thin", "fc", "error", (READ,), "It is `thin`.", "Nobody 2020", ("Widen it.",))
NONE = {"meant": lambda quantity: "", "way": None}


def test_text_is_escaped_once_and_html_stays():
    inner = element("b", "1 < 2 & 3")
    assert (
        element("p", inner, " > ", class_="a") == '<p class="a"><b>1 &lt; 2 &amp; 3</b> &gt; </p>'
    )
    assert prose("run `a <b>` now") == "run <code>a &lt;b&gt;</code> now"
    assert joined(["a", None, inner]) == f"a{inner}"


@pytest.mark.parametrize("hostile", ['"><script>', "' onload='x", "\x1b[31m\u202e"])
def test_nothing_in_a_name_or_an_attribute_acts(hostile):
    made = element("p", hostile, title=hostile, data_name=hostile)
    assert made.count("<") == made.count(">") == 2
    assert made.count('"') == 4
    assert not {"\x1b", "\u202e"} & {*made}


def test_what_is_not_known_leaves_no_trace():
    assert element("p", None, class_=None, hidden="") == '<p hidden=""></p>'
    assert element("input", type="checkbox") == '<input type="checkbox">'


def test_numbers_have_a_true_minus_and_their_interval_where_it_matters():
    assert pages.compact(-5.1e-11) == "−5.1e−11"
    assert pages.measured(READ.estimate) == "12.3 [11.9, 12.8]"
    assert pages.chance(0.0) == ""
    assert pages.chance(0.0374).endswith(" 0.037")  # of a chance two digits
    assert pages.number(READ.estimate).startswith(
        '<td class="n" title="sampled; the interval misses with chance at most 0.05">'
    )


def test_a_card_has_what_to_do_before_the_evidence_and_what_follows_has_none():
    whole = card(FOUND, **NONE)
    order = [whole.index(title) for title in ("What to do", "Evidence", "Source")]
    assert order == sorted(order)
    assert "misses with chance at most 0.05" in whole
    follows = card(FOUND, follows=True, **NONE)
    assert "What to do" not in follows
    assert 'class="consequence error"' in follows


def test_causes_are_counted_and_what_follows_folds_under_them():
    other = replace(FOUND, name="lame", severity="warning", follows="thin")
    (whole,) = cards((FOUND, other), "none", meant=lambda q: "", way=lambda place: f"way {place}")
    assert whole.index("way 0") < whole.index("1 finding follows from this") < whole.index("way 1")
    assert [tile[:17] for tile in severities((FOUND, other))] == [
        '<div class="error',
        '<div class="good"',
        '<div class=""><dt',
    ]
    (empty,) = cards((), "No findings.", meant=lambda q: "", way=lambda place: None)
    assert empty == '<p class="empty">No findings.</p>'


def test_tables_name_their_rows_and_columns():
    made = pages.table(["layer", "kind", "rank"], [["fc", element("td", "Linear"), "3"]], words=2)
    assert made.count('scope="col"') == 3
    assert '<th scope="row">fc</th><td>Linear</td><td class="n">3</td>' in made
    assert made.count('class="n"') == 2


def test_only_a_finding_that_is_a_card_of_its_own_says_what_it_follows_from():
    caused = replace(FOUND, follows="lame")
    assert "Follows from" in card(caused, **NONE)
    assert "Follows from" not in card(caused, follows=True, **NONE)
    assert "Follows from" not in card(FOUND, **NONE)
    assert "What to do" not in card(replace(FOUND, remedies=()), **NONE)


@pytest.mark.parametrize(
    ("view", "form", "told"), [("setup", "cut", True), ("weights", "cut", False)]
)
def test_a_card_tells_what_is_read_of_several_things_apart(view, form, told):
    found = replace(FOUND, evidence=(replace(READ, view=view, form=form),))
    assert (", cut:" in card(found, **NONE)) is told


def test_an_alarm_that_ended_looks_so():
    assert 'class="card error over"' in card(FOUND, over=True, **NONE)
    assert 'class="card error"' in card(FOUND, **NONE)


@pytest.mark.parametrize(
    ("count", "more"), [(1000, ""), (1001, "and 1 more"), (1003, "and 3 more")]
)
def test_a_thousand_names_stand_under_a_reason_and_the_rest_is_counted(count, more):
    made = pages.reasons({("rank", "too dear"): [f"fc{i}" for i in range(count)]}, "Nothing.")
    assert f"<strong>{count}</strong>" in made
    assert made.count("fc") == 1000
    assert made.count(" more") == bool(more)
    assert more in made
    assert pages.reasons({}, "Nothing.") == '<p class="empty">Nothing.</p>'


@pytest.mark.parametrize(("count", "said"), [(0, "rows"), (1, "row"), (2, "rows")])
def test_one_is_singular(count, said):
    assert pages.plural(count, "row") == said
    assert pages.plural(count, "finding follows", "findings follow").startswith(
        "finding " if count == 1 else "findings "
    )
