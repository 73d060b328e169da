"""Shapes of curves, on curves whose shape is known."""

import math

import pytest

from sigmascope.diagnosis.trainability.curves import shape_of
from sigmascope.gate import Refusal


def test_a_power_law_has_its_power_for_a_trend():
    shape = shape_of([3 * t**-0.4 for t in range(1, 101)], constant=2.0)
    assert shape.trend == pytest.approx(-0.4)
    assert shape.before == pytest.approx(-0.4)
    assert shape.noise == pytest.approx(0, abs=1e-9)
    assert shape.level == pytest.approx(math.log(1.5 * 95.5**-0.4), abs=1e-3)
    assert shape.steps == 100


def test_noise_is_the_spread_about_the_trend():
    shape = shape_of([math.exp(0.1 * (-1) ** t) for t in range(100)], constant=1.0)
    assert shape.noise == pytest.approx(0.1, rel=0.01)
    assert shape.trend == pytest.approx(0, abs=0.05)


def test_the_halves_are_told_apart():
    losses = [1.0] * 50 + [math.exp(-0.1 * t) for t in range(50)]
    shape = shape_of(losses, constant=1.0)
    assert shape.before == pytest.approx(0)
    assert shape.trend < -1


def test_steep_falls_wear_off():
    steep = shape_of([math.exp(-0.1 * t) for t in range(60)], constant=1.0)
    near, far = steep.drift(0.1), steep.drift(3.0)
    assert far[1] == pytest.approx(30 * near[1])
    assert abs(far[2]) < 12 * abs(near[2])
    assert all(
        later >= sooner for sooner, later in zip(steep.spread(0.1), steep.spread(3.0), strict=True)
    )


def test_too_few_are_refused():
    with pytest.raises(Refusal, match="at least 8 finite losses, got 6 of 8"):
        shape_of([1.0, math.nan, 1.0, 1.0, math.inf, 1.0, 1.0, 1.0], constant=1.0)
