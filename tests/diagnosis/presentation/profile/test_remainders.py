from dataclasses import replace

from sigmascope.diagnosis.presentation.profile import (
    checks_grid,
    inapplicable,
    skipped_grid,
    violations,
)
from sigmascope.records import Estimate, Profile, Skipped, Verdict
from sigmascope.report.screens import Screen


def test_without_checks_or_gaps_there_are_no_tables():
    assert checks_grid(Profile(())) is None
    assert skipped_grid(Profile(()), Screen()) is None
    assert violations(Profile(())) == ()
    assert inapplicable(Profile(())) == ""


def test_a_row_a_theorem_that_said_something(profile):
    table = checks_grid(profile)
    assert [str(cell) for cell in table.columns[0].cells] == ["rank-participation"]
    assert [*table.columns[1].cells] == ["33"]
    assert inapplicable(profile) == "1 more does not apply here: gradient-collinearity."


def test_where_none_speaks_there_is_a_line_and_no_table(profile):
    silent = tuple(replace(c, verdict=Verdict.INAPPLICABLE) for c in profile.checks)
    quiet = replace(profile, checks=silent)
    assert checks_grid(quiet) is None
    names = "rank-participation, gradient-collinearity"
    assert inapplicable(quiet) == f"Of 2 that were looked at none applies here: {names}."


def test_a_theorem_that_was_violated_once_is_not_left_out(profile):
    mixed = tuple(replace(c, verdict=Verdict.INAPPLICABLE) for c in profile.checks[:9])
    broken = replace(profile.checks[9], verdict=Verdict.VIOLATED)
    table = checks_grid(replace(profile, checks=(*mixed, broken)))
    assert [[*column.cells] for column in table.columns[1:6]] == [["·"], ["·"], ["·"], ["1"], ["9"]]


def test_sites_of_one_reason_share_a_row_unless_all_are_wanted():
    gaps = tuple(Skipped(site, "weights", "lazily initialised") for site in "abc")
    short, whole = (skipped_grid(Profile((), skipped=gaps), Screen(whole=w)) for w in (False, True))
    assert [str(cell) for cell in short.columns[0].cells] == ["a and 2 more"]
    assert [str(cell) for cell in whole.columns[0].cells] == ["a", "b", "c"]


def test_a_contradiction_has_both_its_sides(profile):
    check = replace(
        profile.checks[0], limit=Estimate.exactly(99.0), verdict=Verdict.VIOLATED, site="x\x1b"
    )
    (line,) = violations(replace(profile, checks=(check,)))
    assert "rank-participation is violated at x" in line
    assert "is not at least 99" in line
    assert "\x1b" not in line
