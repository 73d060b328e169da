"""A contradiction that is none says which hypotheses could not be decided."""

import pytest

from sigmascope.core.records import Assumption, Check, Estimate, Verdict

LARGE, SMALL = Estimate(3.0, 2.9, 3.1, "told"), Estimate(2.0, 1.9, 2.1, "told")
TOUCHING = Estimate(3.0, 2.1, 3.1, "told")
OPEN = (
    Assumption("it is known", True),
    Assumption("it is drawn", None),
    Assumption("it is even", None),
)


def check(measured, limit, sense="at most", verdict=Verdict.CONSISTENT):
    return Check("name", "source", "a ≤ b", "site", measured, limit, sense, OPEN, verdict)


@pytest.mark.parametrize(
    ("sense", "measured", "limit"), [("at most", LARGE, SMALL), ("at least", SMALL, LARGE)]
)
def test_what_cannot_be_told_is_listed_where_the_sides_contradict(sense, measured, limit):
    note = check(measured, limit, sense).note
    assert note == "contradicted, but it cannot be told whether it is drawn; it is even"
    assert check(limit, measured, sense).note == ""


def test_ends_that_touch_contradict_nothing():
    assert check(TOUCHING, SMALL).note == ""
    assert check(SMALL, TOUCHING, "at least").note == ""


def test_a_limit_that_says_nothing_has_a_note_of_it():
    assert check(LARGE, SMALL, verdict=Verdict.VACUOUS).note.startswith("the limit says nothing")


@pytest.mark.parametrize(
    "verdict", [v for v in Verdict if v not in (Verdict.CONSISTENT, Verdict.VACUOUS)]
)
def test_every_other_verdict_speaks_for_itself(verdict):
    assert check(LARGE, SMALL, verdict=verdict).note == ""
    assert check(None, None, verdict=Verdict.INAPPLICABLE).note == ""
