import numpy as np
import pytest

from sigmascope.probes.piecewise_affine.polygons import Polygon

SQUARE = np.array([[0.0, 0], [2, 0], [2, 2], [0, 2]])


def over(*functions):
    return Polygon(SQUARE, np.stack([f(*SQUARE.T) for f in functions], axis=1))


def test_a_line_splits_a_square_and_carries_the_other_functions_along():
    square = over(lambda x, y: x + y - 1, lambda x, y: 3 * x - y)
    low, high = square.split(0)
    assert (low.area, high.area) == (0.5, 3.5)
    for part in (low, high):
        x, y = part.corners.T
        assert part.values[:, 1] == pytest.approx(3 * x - y)
    assert sorted(map(tuple, high.edge_on(0))) == [(0, 1), (1, 0)]


def test_a_line_through_corners_cuts_no_slivers():
    square = over(lambda x, y: x - y)
    low, high = square.split(0)
    assert (low.area, high.area) == (2, 2)
    assert len(low.corners) == len(high.corners) == 3


def test_a_line_outside_or_along_an_edge_splits_nothing():
    for f in (lambda x, y: x + 1, lambda x, y: x, lambda x, y: 0 * x):
        assert over(f).split(0)[0] is None
    assert over(lambda x, y: x - 2).split(0)[1] is None
    assert over(lambda x, y: x).crossed().tolist() == []


def test_the_largest_of_several_functions_wins_and_ties_go_to_the_first():
    square = over(
        lambda x, y: x,
        lambda x, y: 2 - x,
        lambda x, y: x,
        lambda x, y: 0 * x,
        lambda x, y: 1 + 0 * x,
    )
    parts = list(square.won_by(np.arange(5)))
    assert [p.area for p in parts] == [2, 2]  # the third ties the first, the others never lead
    assert sum(p.area for p in square.won_by(np.array([3, 4, 0]))) == 4
