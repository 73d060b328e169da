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
