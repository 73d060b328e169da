import math
import statistics
from fractions import Fraction

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.linalg import sums


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_sums_by_pieces_are_those_of_a_copy_in_float64(dtype):
    t = torch.randn(300, 701, generator=torch.Generator().manual_seed(0)).to(dtype)
    wide = torch.view_as_real(t).double() if dtype.is_complex else t.double()
    assert sums.square_sum(t.mT) == pytest.approx(float(wide.square().sum()), rel=1e-13)
    assert sums.norm(t) == pytest.approx(float(wide.norm()), rel=1e-13)


def test_the_spread_is_taken_about_the_mean():
    t = torch.randn(300, 701, generator=torch.Generator().manual_seed(0)) + 1e3
    mean, spread = sums.mean_and_spread(t)
    assert mean.value == pytest.approx(float(t.double().mean()), rel=1e-13)
    assert spread.value == pytest.approx(float(t.double().std(correction=0)), rel=1e-10)


@pytest.mark.parametrize("shift", [0.0, 1.0, 1e4, 1e9])
def test_mean_and_spread_lie_within_what_fractions_say(shift):
    t = torch.randn(40, 50, generator=torch.Generator().manual_seed(1)).double() + shift
    exact = [Fraction(x) for x in t.flatten().tolist()]
    middle = sum(exact) / len(exact)
    variance = sum((x - middle) ** 2 for x in exact) / len(exact)
    mean, spread = sums.mean_and_spread(t)
    assert Fraction(mean.low) <= middle <= Fraction(mean.high)
    assert Fraction(spread.low) ** 2 <= variance <= Fraction(spread.high) ** 2
    assert 0 < spread.low < spread.high < 1.1


def test_equal_entries_have_no_spread_that_is_sure():
    assert sums.mean_and_spread(torch.full((50, 40), 0.1).double())[1].low == 0


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_one_entry_that_is_not_finite_is_found(bad):
    t = torch.zeros(5, 7)
    assert sums.is_finite(t)
    assert sums.is_finite(t[:0])
    assert sums.is_finite(t.to(torch.complex64))
    t[3, 2] = bad
    assert not sums.is_finite(t)
    assert not sums.is_finite(t.to(torch.complex64))


def test_what_leaves_float64_is_infinite_as_in_a_sum():
    assert sums.square_sum(torch.full((3,), 1e200, dtype=torch.float64)) == math.inf


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_the_median_lies_between_the_two_in_the_middle(values, dtype):
    t = torch.tensor(values, dtype=dtype)
    assert sums.median(t) == pytest.approx(statistics.median(t.tolist()), rel=1e-15)
