import numpy as np
import pytest

from sigmascope.theory.piecewise_affine.regions import Polygon

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


def test_a_function_that_is_largest_on_an_edge_only_wins_no_part():
    """`x` and `-x` on the triangle `x ≥ 0`: they tie on one edge."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    triangle = Polygon(corners, np.column_stack([corners[:, 0], -corners[:, 0]]))
    (part,) = triangle.won_by(np.array([0, 1]))
    assert part.area == pytest.approx(0.5)
    # x and 1/2 - x share it along x = 1/4: (3/4)² / 2 is left to the right
    values = np.column_stack([corners[:, 0], 0.5 - corners[:, 0]])
    areas = [p.area for p in Polygon(corners, values).won_by(np.array([0, 1]))]
    assert areas == pytest.approx([9 / 32, 7 / 32])
