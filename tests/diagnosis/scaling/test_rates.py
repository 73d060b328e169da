"""Which rate is best, and by how much it moves."""

import math

import pytest
from scipy import stats

from sigmascope.diagnosis.scaling import moved
from sigmascope.diagnosis.scaling.rates import FACTORS, best_rate


def among(places):
    """Losses of seeds that are lowest at powers of two of their own."""
    return lambda factor, seed: 1 + (math.log2(factor) - places[seed]) ** 2


def bowl(best, *, noise=0.0, breaks=math.inf):
    """A loss that is lowest at a factor, a parabola in its logarithm; it breaks above another."""

    def loss_at(factor, seed):
        if factor > breaks:
            return math.inf
        shift = noise * (seed - 1)
        return 1 + (math.log2(factor / best) - shift) ** 2

    return loss_at


@pytest.mark.parametrize("best", [0.13, 0.2, 0.5, 1.0, 3.0, 7.5, 11.0])
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
    alone = best_rate(64, bowl(1.0), 1)
    assert reach(alone) > reach(sure)
    assert alone.factor.value / alone.factor.low == alone.factor.high / alone.factor.value
    assert reach(alone) == pytest.approx(4)  # a factor two either way, also of what moves
    assert moved(alone, alone).high / moved(alone, alone).low == pytest.approx(4)


def test_beyond_the_rates_that_are_tried_nothing_is_told():
    below, above = best_rate(64, bowl(1e-3), 2).factor, best_rate(64, bowl(1e3), 2).factor
    assert (below.low, below.value) == (0, FACTORS[0])
    assert (above.value, above.high) == (FACTORS[-1], math.inf)
    for place, end in ((-9.0, "low"), (9.0, "high")):  # of one seed in three
        found = best_rate(64, among([place, 0.0, 1.0]), 3).factor
        assert [getattr(found, end) in (0, math.inf) for end in ("low", "high")] == [
            end == "low",
            end == "high",
        ]


def test_the_curve_is_the_mean_over_seeds():
    found = best_rate(64, among([-1.0, 0.0, 1.0]), 3)
    for factor, loss in found.curve.items():
        assert loss == pytest.approx(1 + math.log2(factor) ** 2 + 2 / 3)
    assert found.loss == pytest.approx(1 + 2 / 3)


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


@pytest.mark.parametrize(
    ("one", "other"),
    [([-1.0, 0.5, 1.5], [0.0, -2.0, 1.0, 2.0]), ([0.0, 1.0], [0.5, 2.0]), ([0.5], [-1.0, 1.0])],
)
def test_intervals_are_those_of_a_test_of_means(one, other):
    """Of one sample, and of two that stray alike (Student 1908)."""
    small, large = (best_rate(n, among(many), len(many)) for n, many in ((32, one), (256, other)))
    by = moved(small, large)
    told = [(by, stats.ttest_ind(one, other), sum(one) / len(one) - sum(other) / len(other))]
    for found, many in ((small, one), (large, other)):
        if len(many) > 1:
            told.append((found.factor, stats.ttest_1samp(many, 0.0), sum(many) / len(many)))
    for found, test, value in told:
        ends = test.confidence_interval(0.95)
        assert math.log2(found.value) == pytest.approx(value)
        assert found.risk == pytest.approx(0.05)
        for end, expected in ((found.low, ends.low), (found.high, ends.high)):
            if 0 < end < math.inf:
                assert math.log2(end) == pytest.approx(expected)


def test_where_either_is_beyond_what_was_tried_one_side_is_open():
    low, usual, high = (best_rate(64, bowl(best), 2) for best in (1e-3, 1.0, 1e3))
    open_ = {
        name: (by.low == 0, by.high == math.inf)
        for name, by in {
            "down to low": moved(usual, low),
            "up to high": moved(usual, high),
            "from high": moved(high, usual),
            "from low": moved(low, usual),
        }.items()
    }
    down, up = (False, True), (True, False)
    assert open_ == {"down to low": down, "up to high": up, "from high": down, "from low": up}
