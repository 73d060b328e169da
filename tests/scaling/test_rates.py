"""Which rate is best, and by how much it moves."""

import math

import pytest
from scipy import stats

from sigmascope.scaling import moved
from sigmascope.scaling.rates import FACTORS, best_rate


def bowl(best, *, noise=0.0, breaks=math.inf):
    """A loss that is lowest at a factor, a parabola in its logarithm; it breaks above another."""

    def loss_at(factor, seed):
        if factor > breaks:
            return math.inf
        shift = noise * (seed - 1)
        return 1 + (math.log2(factor / best) - shift) ** 2

    return loss_at


@pytest.mark.parametrize("best", [0.2, 0.5, 1.0, 3.0, 7.5])
def test_the_lowest_point_is_found_between_the_rates_that_are_tried(best):
    found = best_rate(64, bowl(best), 3)
    assert found.factor.value == pytest.approx(best, rel=1e-6)
    assert found.factor.low < best < found.factor.high
    assert found.factor.high / found.factor.low < 1.5
    assert len(found.curve) == len(FACTORS)
    assert found.loss == min(found.curve.values())


def test_seeds_that_disagree_widen_the_interval_and_one_seed_tells_little():
    reach = lambda b: b.factor.high / b.factor.low
    sure, unsure = best_rate(64, bowl(1.0), 3), best_rate(64, bowl(1.0, noise=0.5), 3)
    assert reach(unsure) > 2 * reach(sure)
    assert reach(best_rate(64, bowl(1.0), 1)) > reach(sure)


def test_beyond_the_rates_that_are_tried_nothing_is_told():
    assert best_rate(64, bowl(1e-3), 2).factor.low == 0
    assert best_rate(64, bowl(1e3), 2).factor.high == math.inf


def test_where_training_breaks_above_the_best_rate_it_is_still_found():
    found = best_rate(64, bowl(2.0, breaks=2.0), 2)
    assert found.factor.value == 2.0
    assert math.isinf(found.curve[FACTORS[-1]])
    nowhere = best_rate(64, lambda *_: math.inf, 2)
    assert math.isinf(nowhere.loss)
    assert nowhere.factor.low == 0


def test_how_far_a_best_rate_moves():
    small, large = best_rate(64, bowl(4.0), 3), best_rate(512, bowl(0.5), 3)
    by = moved(small, large)
    assert by.value == pytest.approx(8)
    assert 4 < by.low < 8 < by.high < 16
    same = moved(small, best_rate(512, bowl(4.0), 3))
    assert same.low < 1 < same.high
    assert moved(small, best_rate(512, bowl(1e-3), 3)).high == math.inf


def test_intervals_are_those_of_a_test_of_means():
    """Of one sample, and of two that stray alike (Student 1908)."""
    places = {32: [-1.0, 0.5, 1.5], 256: [0.0, -2.0, 1.0, 2.0]}
    bowl_of = lambda many: lambda factor, seed: 1 + (math.log2(factor) - many[seed]) ** 2
    small, large = (best_rate(n, bowl_of(many), len(many)) for n, many in places.items())
    for found, many in ((small, places[32]), (large, places[256])):
        ends = stats.ttest_1samp(many, 0.0).confidence_interval(0.95)
        assert math.log2(found.factor.value) == pytest.approx(sum(many) / len(many))
        assert math.log2(found.factor.low) == pytest.approx(ends.low)
        assert math.log2(found.factor.high) == pytest.approx(ends.high)
    by = moved(small, large)
    ends = stats.ttest_ind(places[32], places[256]).confidence_interval(0.95)
    assert math.log2(by.value) == pytest.approx(1 / 3 - 1 / 4)
    assert math.log2(by.low) == pytest.approx(ends.low)
    assert math.log2(by.high) == pytest.approx(ends.high)
