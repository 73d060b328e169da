"""What curves say, on numbers worked out by hand."""

import math

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.trainability.curves import (
    Curve,
    EarlyTraining,
    Shape,
    log_odds,
    shape_of,
    windows,
)


def curve(losses, rate=0.1, told=0.5, right=None):
    n = len(losses)
    return Curve(rate, tuple(losses), (told,) * n, (1.0,) * n, True, right)


def test_progress_needs_both_scale_and_telling():
    of = lambda told, aligned: Curve(0.1, (1.0,) * 5, (told,) * 5, (aligned,) * 5, True)
    assert of(0.9, 1.0).progress > of(0.9, 1e-3).progress > of(0.3, 1e-3).progress
    assert of(0.9, 50.0).progress == of(0.9, 1.0).progress
    assert Curve(0.1, (), (), (), False).progress < -10


@pytest.mark.parametrize(
    ("losses", "right", "constant", "reached"),
    [
        ([4.0, 2.0, 1.0, 6.0], None, 4.0, (0.0, 0.5, 0.75, 0.0)),  # the loss that is gone
        ([4.0, 1.0], (0.1, 0.2), 4.0, (0.1, 0.2)),  # of classes the right answers count
        *(([4.0, 1.0], None, c, (0.5, 0.5)) for c in (0.0, -1.0, math.inf)),  # what is told
    ],
)
def test_how_far_it_came(losses, right, constant, reached):
    assert curve(losses, right=right).reached(constant) == reached


def test_features_are_those_of_the_best_curve():
    bad = curve([1.0, 1.0, 1.0, 1.0], rate=0.1, told=0.1)
    good = curve([0.8, 0.4, 0.2, 0.6], rate=0.2, told=0.9)
    found = EarlyTraining((good, bad), 1.0)
    features = found.features()
    assert features["progress"] == pytest.approx(math.log(0.91 / 0.11))
    assert features["reached"] == pytest.approx(log_odds(0.7, 0.02))  # (0.6 + 0.8) / 2
    assert features["underway"] == 1.0
    assert EarlyTraining((bad,), 1.0).features()["underway"] == 0.0
    assert found.left == pytest.approx(0.3)
    assert EarlyTraining((Curve(0.1, (), (), (), False),), 1.0).features()["reached"] == log_odds(
        0, 0.02
    )


def test_curves_that_went_on_take_the_place_of_those_before():
    one, two = curve([1.0], rate=0.1, told=0.2), curve([1.0], rate=0.2, told=0.3)
    longer = curve([1.0, 0.5, 0.4], rate=0.1, told=0.9)
    found = EarlyTraining((two, one), 1.0).with_curves([longer])
    assert found.curves == (longer, two)


def test_windows_and_odds():
    assert [*windows([1.0, 3.0, 5.0])] == [2.0, 4.0]
    assert [*windows([1.0])] == []
    assert log_odds(0.5) == 0
    assert log_odds(1.0, 0.02) == pytest.approx(math.log(51))


def test_the_largest_rate_that_has_not_forgotten_the_targets_goes_on():
    def at(rate, told, right=0.0, aligned=1e-3):
        n = 5
        return Curve(rate, (2.3,) * n, (told,) * n, (aligned,) * n, True, (right,) * n)

    # on a plateau: 1 has moved the outputs far, and they tell nothing any more
    plateau = [at(1e-3, 0.2), at(1e-2, 0.17), at(0.1, 0.15), at(1.0, 0.02, aligned=0.2)]
    assert max(plateau, key=lambda c: c.promise).rate == 0.1
    assert max(plateau, key=lambda c: c.progress).rate == 1.0
    # where one learns already, it goes on
    learning = [at(1e-3, 0.2, 0.0), at(1e-2, 0.5, 0.4), at(0.1, 0.1, 0.0)]
    assert max(learning, key=lambda c: c.promise).rate == 1e-2
    # what it came to counts, also where it fell back
    rose = Curve(0.1, (2.3,) * 5, (0.2,) * 5, (1.0,) * 5, True, (0.0, 0.6, 0.6, 0.0, 0.0))
    told = log_odds(0.2, 0.005) + log_odds(0.6, 0.02) + 0.45 * math.log10(0.1)
    assert rose.promise == pytest.approx(told)
    values = Curve(0.1, (1.0,) * 3, (0.3,) * 3, (1.0,) * 3, True)
    assert values.promise == pytest.approx(
        log_odds(0.3, 0.005) + log_odds(0.3, 0.02) + 0.45 * math.log10(0.1)
    )
    assert Curve(0.1, (), (), (), False).promise < values.promise


def test_a_power_law_has_its_power_for_a_trend():
    shape = shape_of([3 * t**-0.4 for t in range(1, 101)], constant=2.0)
    assert shape.trend == pytest.approx(-0.4)
    assert shape.before == pytest.approx(-0.4)
    assert shape.noise == pytest.approx(0, abs=1e-9)
    assert shape.level == pytest.approx(math.log(1.5 * 95.5**-0.4), abs=1e-3)
    assert shape.steps == 100


def test_noise_is_the_spread_about_the_trend_and_halves_are_told_apart():
    shape = shape_of([math.exp(0.1 * (-1) ** t) for t in range(100)], constant=1.0)
    assert shape.noise == pytest.approx(0.1, rel=0.01)
    assert shape.trend == pytest.approx(0, abs=0.05)
    shape = shape_of([1.0] * 50 + [math.exp(-0.1 * t) for t in range(50)], constant=1.0)
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


@pytest.mark.parametrize(
    ("constant", "left"), [(2.0, 0.15), (1.0, 0.3), (0.5, 0.6), (0.0, math.inf), (-1.0, math.inf)]
)
def test_what_is_left_is_a_share_of_the_constants_loss(constant, left):
    found = EarlyTraining((curve([0.8, 0.4, 0.2, 0.6]), curve([1.0, 1.0])), constant)
    assert found.left == pytest.approx(left)
    assert EarlyTraining((curve([1.0]),), constant).left == math.inf


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_windows_are_means_of_consecutive_values(size):
    values = [1.0, 2.0, 6.0, 3.0]
    means = [sum(values[i : i + size]) / size for i in range(len(values) - size + 1)]
    assert list(windows(values, size)) == pytest.approx(means)


def test_odds_are_of_both_sides_and_kept_from_the_ends():
    for share in (0.0, 0.2, 0.5, 1.0):
        assert log_odds(share) == pytest.approx(-log_odds(1 - share))
        assert log_odds(share, 0.1) == pytest.approx(math.log((share + 0.1) / (1.1 - share)))


@pytest.mark.parametrize("count", [7, 8])
def test_eight_losses_are_the_fewest_that_tell_a_shape(count):
    losses = [1.0 / k for k in range(1, count + 1)] + [math.nan, math.inf]
    if count < 8:
        with pytest.raises(Refusal, match=f"at least 8 .* got 7 of {count + 2}"):
            shape_of(losses, constant=1.0)
    else:
        assert shape_of(losses, constant=1.0).steps == count + 2


@pytest.mark.parametrize("power", [-1.0, -0.3, 0.5])
def test_a_power_of_the_steps_has_its_exponent_for_trend_and_no_noise(power):
    found = shape_of([2.0 * k**power + 0.5 for k in range(1, 61)], constant=2.5, floor=0.5)
    assert found.trend == pytest.approx(power)
    assert found.before == pytest.approx(power)
    assert found.noise == pytest.approx(0.0, abs=1e-9)
    last = sum(k**power for k in range(55, 61)) / 6
    assert found.level == pytest.approx(math.log(last))


def test_what_a_forecast_is_made_of_wears_off_but_for_a_slope():
    falls = Shape(level=4.0, trend=-2.0, before=-0.5, noise=0.1, steps=40)
    worn = 1 - math.exp(-1.5)
    assert falls.drift(1.5) == pytest.approx(
        (1.5, -1.5, -2 * worn, 0.0, 3 * worn, 0.0, -0.5 * worn)
    )
    assert falls.spread(1.5) == pytest.approx((1.0, 0.05, 1.5, 3.0, 0.15))
    rises = Shape(level=-1.0, trend=0.5, before=0.5, noise=0.1, steps=5)
    assert rises.drift(1.5) == pytest.approx((1.5, 0.0, 0.0, 0.5 * worn, 0.0, -worn, 0.0))
    assert rises.spread(1.5) == pytest.approx((1.0, 0.1, 1.5, 0.0, 0.15))
