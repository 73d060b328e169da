"""Columns become readings, and looks hold them."""

import math

import pytest

from sigmascope.core.records import Estimate
from sigmascope.watching.sinks import Column, one_line


def test_values_become_readings_with_what_rounding_can_have_moved():
    found = list(Column("gradient norm", ["a", "b", "c"], [2.0, 4.0, math.inf], 0.5).readings())
    assert [(r.site, r.estimate.value) for r in found] == [("a", 2.0), ("b", 4.0), ("c", math.inf)]
    assert (found[1].estimate.low, found[1].estimate.high) == (2.0, 6.0)
    assert found[2].estimate.low == math.inf


def test_what_is_no_number_is_an_entry_that_is_not_finite():
    (found,) = Column("gradient norm", ["a"], [math.nan]).readings()
    assert (found.quantity, found.form) == ("non-finite entries", "gradient norm")
    assert found.estimate.high == math.inf


def test_estimates_keep_their_own_intervals():
    estimate = Estimate(2.0, 1.0, 3.0, "x")
    (found,) = Column.of("spectral norm", [("a", estimate)], "matrix").readings()
    assert found.estimate is estimate
    assert found.form == "matrix"


def test_what_went_wrong_is_one_line_that_ends():
    assert one_line(ValueError("a\n  b")) == "a b"
    assert len(one_line("x" * 999)) == 300


def test_what_is_no_number_is_at_least_one_entry():
    (found,) = Column("gradient norm", ["a"], [math.nan], form="kernel").readings()
    assert (found.estimate.value, found.estimate.low, found.site) == (1.0, 1.0, "a")


@pytest.mark.parametrize("length", [299, 300, 301])
def test_a_line_for_a_log_has_at_most_three_hundred_letters(length):
    assert len(one_line("x" * length)) == min(length, 300)
