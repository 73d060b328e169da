import math

from hypothesis import given, strategies as st

from sigmascope.core.records import Estimate
from sigmascope.report.console import compact, measured, risk, within


@given(st.floats(-1e308, 1e308))
def test_compact_numbers_are_short_and_near(number):
    said = compact(number)
    assert len(said) <= 11
    assert math.isclose(float(said), number, rel_tol=6e-4, abs_tol=1e-320)


def test_negligible_intervals_are_not_shown():
    assert measured(Estimate(12.3, 12.2999, 12.3001, "gram")) == "12.3"
    assert within(Estimate(12.3, 12.2999, 12.3001, "gram")) == "12.3"


def test_an_unknown_end_is_shown():
    assert measured(Estimate(12.3, 11.9, math.inf, "free")) == "12.3 [11.9, ∞]"
    assert within(Estimate(12.3, 11.9, math.inf, "free")) == "12.3 [11.9, ∞]"
    assert measured(Estimate(0.0, 0.0, 1e-9, "free")) == "0 [0, 1e-9]"


def test_a_half_width_never_claims_too_much():
    assert within(Estimate(100.0, 99.0, 101.01, "sampled")) == "100 ±2%"
    assert within(Estimate(100.0, 99.899, 100.0, "sampled")) == "100 ±0.11%"


def test_risk_is_said_in_words():
    assert risk(Estimate.exactly(1.0)) == ""
    assert risk(Estimate(1.0, 0.0, 2.0, "x", 1e-9)).endswith("at most 1e-9")
