"""What step-to-step variation explains, on noise of which it is known."""

import math

import numpy as np
import pytest

from sigmascope.watching.comparing import WINDOW, gaps, limit, standard_errors


def three(values):
    return np.stack([np.asarray(values, float)] * 3)


def noise(rng, n, rho):
    found = rng.standard_normal(n)
    for i in range(1, n):
        found[i] += rho * found[i - 1]
    return found


def share_that_parts(rho, runs=300, n=150, offset=0.0):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(runs):
        trend = np.linspace(0, 20, n)
        a, b = (three(trend + noise(rng, n, rho)) for _ in range(2))
        times, limits, _ = standard_errors(a, b + offset, n - 1)
        hits += bool((times > limits).any())
    return hits / runs


@pytest.mark.parametrize(("rho", "most"), [(0.0, 0.01), (0.5, 0.01), (0.8, 0.06)])
def test_noise_around_a_common_trend_seldom_parts(rho, most):
    assert share_that_parts(rho) <= most


def test_a_difference_of_five_deviations_parts():
    assert share_that_parts(0.0, runs=50, offset=8.0) == 1.0


def test_a_lag_of_one_reading_between_curves_without_noise_does_not_count():
    t = np.arange(200) / 20
    times, limits, _ = standard_errors(three(np.sin(t)), three(np.sin(t + 0.05)), 199)
    assert not (times > limits).any()


def test_what_does_not_vary_is_infinitely_far_from_the_second_reading_on():
    times, limits, _ = standard_errors(three([1, 1, 1]), three([2, 2, 2]), 2)
    assert times.tolist() == [0, math.inf, math.inf]
    assert (times > limits).tolist() == [False, True, True]


def test_gaps_are_between_intervals():
    a = np.array([[2.0, 2.0, 2.0], [1.0, 1.9, 2.0], [3.0, 2.1, 2.0]])
    b = np.array([[4.0, 4.0, math.inf], [2.5, 3.9, math.inf], [5.0, 4.1, math.inf]])
    assert gaps(a, b).tolist() == pytest.approx([0.0, -1.8, -math.inf])
    assert gaps(b, a).tolist() == pytest.approx([0.0, 1.8, math.inf])


def test_the_limit_grows_with_the_number_of_tests_and_falls_with_readings():
    assert limit(1, 10) == math.inf
    assert limit(WINDOW, 10) < limit(WINDOW, 1000) < limit(WINDOW // 2, 1000)
