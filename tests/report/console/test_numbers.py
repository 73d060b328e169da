import math

import pytest
from hypothesis import given, strategies as st

from sigmascope.core.records import Estimate
from sigmascope.report.console import (
    amount,
    compact,
    lasting,
    matters,
    measured,
    risk,
    sized,
    within,
)


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


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (2.0**-8, "1 ±0.4%"),
        (2.0**-6, "1 ±2%"),
        (0.5, "1 ±50%"),
        (9.5, "1 ±950%"),
        (10.0, "1 [-9, 11]"),
    ],
)
def test_a_half_width_is_in_per_cent_where_the_size_is_known(gap, said):
    assert within(Estimate(1.0, 1.0 - gap, 1.0 + gap, "sampled")) == said


@pytest.mark.parametrize(
    ("width", "wide"), [(0.0, False), (0.99e-3, False), (1.005e-3, True), (math.inf, True)]
)
def test_an_interval_matters_from_a_thousandth(width, wide):
    assert matters(Estimate(1.0, 1.0, 1.0 + width, "sampled")) is wide


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (99999.0, "99999"),
        (1e5, "1e5"),
        (12345.6, "12346"),
        (999.96, "1000"),
        (9999.4, "9999"),
        (1e-3, "0.001"),
        (9.99e-4, "9.99e-4"),
        (-3.0, "-3"),
        (-math.inf, "-∞"),
        (math.nan, "nan"),
    ],
)
def test_numbers_change_their_form_where_they_grow_long(number, said):
    assert compact(number) == said


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [(59.9, "seconds"), (60, "minutes"), (7199, "minutes"), (7200, "hours")],
)
def test_a_time_has_the_unit_that_fits(seconds, unit):
    assert lasting(seconds).endswith(f" {unit}")
    factor = {"seconds": 1, "minutes": 60, "hours": 3600}[unit]
    assert float(lasting(seconds).split()[0]) == pytest.approx(seconds / factor, rel=0.05)


@pytest.mark.parametrize("power", range(13))
def test_counts_and_bytes_have_the_prefix_that_fits(power):
    for said, letters in ((amount, "kMGT"), (sized, "kMGT")):
        text = said(10**power).removesuffix("bytes").removesuffix("B").strip()
        prefix = letters[power // 3 - 1] if power >= 3 else ""
        assert text.removesuffix(prefix).strip() == str(10 ** (power % 3))
