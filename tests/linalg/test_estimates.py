import math

import pytest

from sigmascope.linalg import Estimate


@pytest.mark.parametrize("numbers", [(2, 3, 4), (4, 2, 3), (math.nan, 0, 1), (0, math.nan, 1)])
def test_the_value_lies_in_its_interval_and_nan_is_no_number(numbers):
    with pytest.raises(ValueError, match="An estimate needs low <= value <= high"):
        Estimate(*map(float, numbers), how="told")


def test_exactly_has_no_width():
    assert Estimate.exactly(2.5) == Estimate(2.5, 2.5, 2.5, "exact", 0.0)


def test_rounded_widens_by_its_own_size():
    e = Estimate.rounded(-8.0, ulps=2)
    assert (e.low, e.high) == (-8 - 2**-48, -8 + 2**-48)
    assert Estimate.rounded(0.0, ulps=9).high == 0


def test_products_multiply_ends_and_add_risks():
    a, b = Estimate(2, 1, 3, "a", 0.01), Estimate(5, 4, 6, "b", 0.02)
    assert a * b == Estimate(10, 4, 18, "a * b", 0.03)
    assert (a * a).how == "a"
