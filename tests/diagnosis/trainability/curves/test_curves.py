"""What curves say, on numbers worked out by hand."""

import math

import pytest

from sigmascope.diagnosis.trainability.curves import Curve, EarlyTraining, log_odds, windows


def curve(losses, rate=0.1, told=0.5, right=None):
    n = len(losses)
    return Curve(rate, tuple(losses), (told,) * n, (1.0,) * n, True, right)


def test_progress_needs_both_scale_and_telling():
    of = lambda told, aligned: Curve(0.1, (1.0,) * 5, (told,) * 5, (aligned,) * 5, True)
    assert of(0.9, 1.0).progress > of(0.9, 1e-3).progress > of(0.3, 1e-3).progress
    assert of(0.9, 50.0).progress == of(0.9, 1.0).progress
    assert Curve(0.1, (), (), (), False).progress < -10


def test_how_far_it_came_is_the_loss_that_is_gone():
    assert curve([4.0, 2.0, 1.0, 6.0]).reached(4.0) == (0.0, 0.5, 0.75, 0.0)


def test_of_classes_the_right_answers_count():
    assert curve([4.0, 1.0], right=(0.1, 0.2)).reached(4.0) == (0.1, 0.2)


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf])
def test_without_a_loss_to_compare_with_it_is_what_is_told(constant):
    assert curve([4.0, 1.0], told=0.3).reached(constant) == (0.3, 0.3)


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
