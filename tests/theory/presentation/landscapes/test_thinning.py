import math

import pytest

from sigmascope.theory.presentation import Scenery
from sigmascope.theory.presentation.landscapes import HEAD, POINTS, thinned


@pytest.mark.parametrize("count", [1, POINTS, POINTS + 1, 5000])
def test_thinned_values_keep_their_ends_and_the_first_ones(count):
    sigma = [float(count - i) for i in range(count)]
    found = thinned(sigma)
    assert found["count"] == count
    assert len(found["at"]) == min(count, POINTS)
    assert (found["at"][0], found["at"][-1]) == (1, count)
    assert found["at"][:HEAD] == [i + 1 for i in range(min(HEAD, count))]


def test_thinned_values_are_strict_json():
    assert thinned([math.inf, 0.0]) == {
        "count": 2,
        "zeros": 1,
        "at": [1, 2],
        "sigma": ["Infinity", 0.0],
    }


def test_an_empty_scenery_shows_nothing():
    assert Scenery() == Scenery(None, None, None)
