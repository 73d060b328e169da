import math

import pytest
from hypothesis import given, strategies as st

from sigmascope.diagnosis.rules.trends import trend


@given(st.floats(-3, 3), st.floats(-20, 20), st.integers(3, 30))
def test_recovers_a_geometric_trend(log_factor, log_start, n):
    values = [math.exp(log_start + log_factor * d) for d in range(n)]
    fit = trend(range(n), values)
    assert fit.factor == pytest.approx(math.exp(log_factor), rel=1e-9)
    assert fit.low <= fit.factor * (1 + 1e-12)
    assert fit.high >= fit.factor * (1 - 1e-12)


def test_where_it_crosses_a_level():
    fit = trend([0, 1, 2], [1.0, 0.1, 0.01])
    assert fit.reaches(1e-6) == pytest.approx(6)
    assert fit.reaches(10.0) is None
    assert trend([0, 1], [1.0, 1.0]).reaches(0.5) is None


def test_needs_two_points_above_the_floor():
    assert trend([0, 1, 2], [1.0, 0.0, 0.0]) is None
    assert trend([0, 1, 2], [1.0, 0.1, 1e-20], floor=1e-12).layers == 2


def test_the_interval_of_a_trend_is_students():
    """Logarithms 0, 1, 3 at 0, 1, 2: slope 3/2, residuals 1/6, -1/3, 1/6, one degree left."""
    fit = trend([0, 1, 2], [1.0, math.e, math.exp(3)])
    reach = 12.706204736432095 * math.sqrt(1 / 6 / 1 / 2)  # t(0.975; 1), Σx² = 2
    assert fit.factor == pytest.approx(math.exp(1.5))
    assert fit.start == pytest.approx(math.exp(-1 / 6))
    assert math.log(fit.low) == pytest.approx(1.5 - reach)
    assert math.log(fit.high) == pytest.approx(1.5 + reach)
    assert fit.says() == f"4.48 (95 % interval {fit.low:.3g} to {fit.high:.3g})"


def test_two_points_make_a_trend_without_an_interval():
    fit = trend([0, 2], [1.0, 4.0])
    assert (fit.factor, fit.low, fit.layers) == (pytest.approx(2), 0.0, 2)
    assert fit.high > 1e300
    assert fit.says() == "2"
    assert trend([1, 1], [1.0, 4.0]) is None
    assert trend([0, 1], [2.0, 1.0], floor=1.0) is None  # above the floor, not on it
    assert fit.reaches(1.0) == pytest.approx(0)
