"""A finding is what it says and nothing else: equal ones are one."""

from dataclasses import FrozenInstanceError, replace

import pytest

from sigmascope.core.records import Estimate, Finding, Reading


def made(**changes):
    shown = Reading("fc", "stable rank", Estimate.exactly(3.0), "weights", "matrix")
    facts = {"name": "rank-collapse", "site": "fc", "severity": "error", "evidence": (shown,)}
    return Finding(**{**facts, "says": "It is so.", "source": "Somebody 2000", **changes})


def test_equal_findings_are_one_and_any_change_makes_another():
    changes = [
        {"site": "other"},
        {"severity": "note"},
        {"evidence": ()},
        {"remedies": ("Do it.",)},
        {"follows": "weight-scale"},
    ]
    assert len({made(), made(), *(made(**change) for change in changes)}) == 1 + len(changes)


def test_it_is_a_cause_with_no_remedy_unless_it_is_told_otherwise():
    found = made()
    assert (found.follows, found.remedies) == ("", ())
    assert replace(found, follows="weight-scale").name == "rank-collapse"
    with pytest.raises(FrozenInstanceError):
        found.severity = "note"


def test_a_finding_without_evidence_is_shown_by_its_words_and_its_source():
    shown = repr(made(evidence=()))
    assert all(part in shown for part in ("rank-collapse", "It is so.", "Somebody 2000"))
