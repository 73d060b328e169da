"""Every name that a report uses is explained, in every sense that it has."""

import json
import re
from pathlib import Path

import pytest

from sigmascope import report, theory, watching
from sigmascope.core import quantities
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis import checkpoints, cures, remedies, rules
from sigmascope.report.explanations import WORDS

DOCS = Path(__file__).parents[2] / "docs"
NAMES = {name for names in report.every_name().values() for name in names}


def test_everything_that_declares_itself_is_explained():
    kinds = (*rules.KINDS, *checkpoints.KINDS, *watching.alarms.KINDS)
    for each in (*kinds, *remedies.REMEDIES, *cures.CHANGES, *theory.THEOREMS):
        assert each.name in NAMES
    assert quantities.quantities().keys() <= NAMES


def test_each_says_something_and_is_shown():
    for name in sorted(NAMES):
        found = report.explain(name)
        text = report.text(found)
        assert text.startswith(f"{name}: ")
        assert all(len(sense.rows) >= 2 for sense in found.senses), name
        form = json.loads(json.dumps(report.json_form(found)))
        assert [sense["name"] for sense in form["senses"]] == [name] * len(found.senses)
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
