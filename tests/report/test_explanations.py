"""Every name that a report uses is explained, in every sense that it has."""

import json
import re
from pathlib import Path

import pytest

from sigmascope import report, theory, watching
from sigmascope.core import quantities
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis import checkpoints, cures, remedies, rules
from sigmascope.report import explanations
from sigmascope.report.explanations import WORDS, _every

DOCS = Path(__file__).parents[2] / "docs"
NAMES = {name for names in report.every_name().values() for name in names}


def test_everything_that_declares_itself_is_explained():
    kinds = (*rules.KINDS, *checkpoints.KINDS, *watching.alarms.KINDS)
    for each in (*kinds, *remedies.REMEDIES, *cures.CHANGES, *theory.THEOREMS):
        assert each.name in NAMES
    assert quantities.quantities().keys() <= NAMES


def test_each_says_something_and_is_shown(monkeypatch):
    every = (*_every(),)  # which are the same for each name, and slow to read
    monkeypatch.setattr(explanations, "_every", lambda: every)
    for name in sorted(NAMES):
        found = report.explain(name)
        text = report.text(found)
        assert text.startswith(f"{name}: ")
        assert all(len(sense.rows) >= 2 for sense in found.senses), name
        form = json.loads(json.dumps(report.json_form(found)))
        named = [sense["name"] == name for sense in form["senses"]]
        assert named == sorted(named, reverse=True)  # what is called so, and then what is about it
        assert any(named)
        assert all(name in s.words for s in found.senses if s.name != name)
        assert len(report.table(found)["name"]) == len(found.senses)


def test_a_name_with_two_senses_has_both():
    senses = report.explain("rank-collapse").senses
    assert [sense.kind for sense in senses] == [
        "finding of a model or a program",
        "alarm of a watch",
    ]


def test_a_finding_tells_what_follows_from_what_and_what_cures_it():
    rows = dict(report.explain("weight-scale").senses[0].rows)
    assert "exploding-signal" in rows["may bring"]
    assert "stale-statistics" in rows["may follow from"]
    assert "unit-scale" in rows["cured by"]
    assert rows["source"] == "He et al. 2015, Sec. 2.2"


def test_what_is_unknown_is_refused_with_what_is_near():
    with pytest.raises(Refusal, match=r"got `rank-colapse`\. Did you mean `rank-collapse`"):
        report.explain("rank-colapse")


@pytest.mark.parametrize("page", ["findings.md", "scan.md", "watching.md"])
def test_the_tables_of_the_documentation_name_what_is_explained(page):
    table = (DOCS / page).read_text().partition("<!-- kinds: ")[2].partition("<!-- end -->")[0]
    named = re.findall(r"^\| `([a-z-]+)` \|", table, flags=re.MULTILINE)
    assert len(named) >= 15
    assert set(named) <= NAMES


def test_a_word_of_the_field_leads_to_the_names_here():
    from sigmascope.cli import COMMANDS

    commands = {command.__name__ for command in COMMANDS}
    for word, (names, command) in WORDS.items():
        assert set(names) <= NAMES
        assert command in commands
        found = report.explain(word).senses
        assert {*names} <= {e.name for e in found}
        assert report.explain(word.lower()).senses == found
    with pytest.raises(Refusal, match="balancedness"):
        report.explain("balancednes of")


def test_what_a_finding_reads_is_a_view_by_its_name_or_what_it_is_in_words():
    every = {e.name: dict(e.rows) for e in _every() if e.kind.startswith("finding of a model")}
    read = {name: rows["reads"].split(", ") for name, rows in every.items() if "reads" in rows}
    views = {word[len("the view `") : -1] for words in read.values() for word in words
             if word.startswith("the view `")}  # fmt: skip
    assert views
    assert views <= {*quantities.EVERY}
    assert not {word for words in read.values() for word in words} & {*quantities.EVERY}


def test_a_finding_reads_what_its_rules_read_and_nothing_else():
    reads = {}
    for rule in rules.RULES:
        for kind in rule.kinds:
            reads.setdefault(kind.name, set()).add(rule.reads)
    every = {e.name: dict(e.rows) for e in _every() if e.kind.startswith("finding of a model")}
    for name, of_rules in reads.items():
        told = [part for part in every[name]["reads"].split(", ") if part.startswith("the view")]
        views = {f"the view `{view}`" for view in of_rules & {*quantities.EVERY}}
        assert (len(told), {*told}) == (len(views), views), name


def test_a_theorem_is_told_in_words_without_the_list_of_what_it_holds():
    for e in _every():
        if e.kind == "theorem":
            words = dict(e.rows)["in words"]
            assert len(words) > 20
            assert "Attributes:" not in words


def test_values_have_their_unit_and_what_is_usual_its_networks():
    rows = {e.name: dict(e.rows) for e in _every() if e.kind == "quantity"}
    for q in quantities.quantities().values():
        assert rows[q.name]["values"].startswith(q.range)
        assert rows[q.name]["values"].endswith(q.unit)
    usual = [r["usual"] for r in rows.values() if "usual" in r]
    assert usual
    assert all(
        re.search(r"(before|after) training .* to .*, median .*, in \d+ networks", u) for u in usual
    )


def test_a_far_name_has_no_hint():
    with pytest.raises(Refusal) as refusal:
        report.explain("zzzzzzzzzz")
    assert "Did you mean" not in str(refusal.value)


def test_a_statement_is_found_by_its_number_in_any_spelling_and_by_what_it_is_about():
    found = [report.explain(said).senses for said in ("le2022 Lemma 11", "LE2022  lemma 11")]
    assert found[0] == found[1]
    (sense,) = found[0]
    rows = dict(sense.rows)
    assert "2 in the place of 8" in rows["but"]
    assert "rank-one" in rows["theorem"]
    papers = {sense.name.split()[0] for sense in report.explain("Lemma 1").senses}
    assert papers >= {"daneshmand2020", "le2022"}
    assert "le2022 Lemma 11" in [s.name for s in report.explain("turning a residual block").senses]
