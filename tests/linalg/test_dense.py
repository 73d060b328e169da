import math
import statistics
from fractions import Fraction

import pytest
import torch
from hypothesis import given, strategies as st
from zoo import MATRICES, fresh

from sigmascope.linalg import dense
from sigmascope.linalg.dense import (
    exact_values,
    gram_values,
    lower_gram,
    power_of_two,
    tamed,
    times,
)


@pytest.mark.parametrize("shape", [(3, 700, 5), (2, 5, 300), (1, 1200, 130), (2, 9000, 3)])
def test_lower_gram_is_the_gram_matrix_across_panels_and_blocks(shape):
    X = torch.randn(shape, generator=fresh(), dtype=torch.float64)
    scale = torch.full((shape[0],), 4.0, dtype=torch.float64)
    torch.testing.assert_close(lower_gram(X, scale).tril(), (X.mT @ X / 16).tril())


@pytest.mark.parametrize("n", [4, 16, 64, 256])
@pytest.mark.parametrize("values", [exact_values, gram_values])
def test_ends_enclose_values_known_in_closed_form(n, values):
    H = torch.ones(1, 1, dtype=torch.float64)
    while len(H) < n:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    d = torch.arange(n, 0, -1, dtype=torch.float64)  # integers: the product is exact
    _, low, high = values((H * d)[None])
    true = n**0.5 * d
    assert (low[0] <= true).all()
    assert (true <= high[0]).all()


@pytest.mark.parametrize("k", [10, 3000])
def test_ends_enclose_where_all_roundings_go_one_way(k):
    A = torch.full((1, k, 12), 0.1, dtype=torch.float64)
    true = (12 * k) ** 0.5 * 0.1
    _, low, high = gram_values(A)
    assert low[0, 0] <= true <= high[0, 0]
    assert low[0, 1] == 0
    assert high[0, 1] < 1e-6 * true


def test_each_matrix_of_a_stack_has_its_own_scale():
    A = torch.randn(4, 6, 3, generator=fresh(), dtype=torch.float64)
    scales = torch.tensor([1e-200, 1.0, 0.0, 1e200], dtype=torch.float64)
    for values in (exact_values, gram_values):
        sigma, low, high = values(A * scales[:, None, None])
        for i in range(4):
            torch.testing.assert_close(sigma[i], scales[i] * values(A[i : i + 1])[0][0])
        assert (sigma[2] == 0).all()
        assert (high[2] == 0).all()
        assert (low <= sigma).all()


def test_what_is_large_and_negative_is_scaled_as_well():
    X = torch.full((3, 2), 1e200, dtype=torch.float64)
    both = [values[0].tolist() for values in (gram_values(X[None])[0], gram_values(-X[None])[0])]
    assert both[0] == both[1] == [pytest.approx(6**0.5 * 1e200), pytest.approx(0, abs=1e193)]


@pytest.mark.parametrize(("x", "power"), [(1.0, 1.0), (3.9, 2.0), (0.3, 0.25), (5e-324, 5e-324)])
def test_power_of_two_is_at_or_below(x, power):
    assert power_of_two(x) == power


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_sums_by_pieces_are_those_of_a_copy_in_float64(dtype):
    t = torch.randn(300, 701, generator=torch.Generator().manual_seed(0)).to(dtype)
    wide = torch.view_as_real(t).double() if dtype.is_complex else t.double()
    assert dense.square_sum(t.mT) == pytest.approx(float(wide.square().sum()), rel=1e-13)
    assert dense.norm(t) == pytest.approx(float(wide.norm()), rel=1e-13)


def test_the_spread_is_taken_about_the_mean():
    t = torch.randn(300, 701, generator=torch.Generator().manual_seed(0)) + 1e3
    mean, spread = dense.mean_and_spread(t)
    assert mean.value == pytest.approx(float(t.double().mean()), rel=1e-13)
    assert spread.value == pytest.approx(float(t.double().std(correction=0)), rel=1e-10)


@pytest.mark.parametrize("shift", [0.0, 1.0, 1e4, 1e9])
def test_mean_and_spread_lie_within_what_fractions_say(shift):
    t = torch.randn(40, 50, generator=torch.Generator().manual_seed(1)).double() + shift
    exact = [Fraction(x) for x in t.flatten().tolist()]
    middle = sum(exact) / len(exact)
    variance = sum((x - middle) ** 2 for x in exact) / len(exact)
    mean, spread = dense.mean_and_spread(t)
    assert Fraction(mean.low) <= middle <= Fraction(mean.high)
    assert Fraction(spread.low) ** 2 <= variance <= Fraction(spread.high) ** 2
    assert 0 < spread.low < spread.high < 1.1


def test_equal_entries_have_no_spread_that_is_sure():
    assert dense.mean_and_spread(torch.full((50, 40), 0.1).double())[1].low == 0


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_one_entry_that_is_not_finite_is_found(bad):
    t = torch.zeros(5, 7)
    assert dense.is_finite(t)
    assert dense.is_finite(t[:0])
    assert dense.is_finite(t.to(torch.complex64))
    t[3, 2] = bad
    assert not dense.is_finite(t)
    assert not dense.is_finite(t.to(torch.complex64))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64, torch.complex64])
def test_the_largest_entry_is_that_of_all_signs_and_parts(kind):
    t = torch.tensor([[1.0, -3.0], [0.5, 2.0]]).to(kind)
    wide = t * 1j if t.is_complex() else t
    assert dense.largest(wide) == dense.largest(-wide) == 3.0
    assert dense.largest(wide[:0]) == 0.0
    wide[1, 1] = math.nan
    assert math.isnan(dense.largest(wide))
    assert dense.largest(wide[0]) == 3.0


def test_what_leaves_float64_is_infinite_as_in_a_sum():
    assert dense.square_sum(torch.full((3,), 1e200, dtype=torch.float64)) == math.inf


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_the_median_lies_between_the_two_in_the_middle(values, dtype):
    t = torch.tensor(values, dtype=dtype)
    assert dense.median(t) == pytest.approx(statistics.median(t.tolist()), rel=1e-15)


def test_no_copy_of_a_large_tensor_is_larger_than_a_cache():
    pieces = [p.numel() * p.itemsize for p in dense._pieces(torch.zeros(3, 10**6))]
    assert max(pieces) <= 2**20
    assert max(pieces) >= 2**18  # a call for each would take longer than the sum
    assert sum(pieces) == 8 * 3 * 10**6


@pytest.mark.parametrize("rows", [1, dense.PANEL - 1, dense.PANEL, 3 * dense.PANEL + 7])
@pytest.mark.parametrize("together", [1, 2**25])
def test_products_of_many_panels_are_those_of_one_after_the_other(rows, together, monkeypatch):
    """What an accelerator is given in one product."""
    monkeypatch.setattr(dense, "TOGETHER", together)
    g = torch.Generator().manual_seed(rows)
    stack = torch.randn(3, rows, 17, generator=g, dtype=torch.float64)
    scale = torch.tensor([1.0, 0.5, 2.0**-600], dtype=torch.float64)
    stack[2] *= 2.0**-600
    expected, found = (
        lower_gram(stack, scale),
        dense._gram_of_panels(stack, scale, entries=dense.PIECE),
    )
    assert torch.allclose(found.tril(), expected.tril(), rtol=1e-12, atol=1e-12 * rows)


@pytest.mark.parametrize("case", MATRICES)
def test_taming_rounds_nothing_and_keeps_squares_in_their_format(case):
    A = MATRICES[case].double()
    X, power = tamed(A)
    kept = X.abs() > 2.0**-900  # smaller ones are far below a rounding of the largest
    assert torch.equal(times(X, power)[kept], A[kept])
    if A.any():
        assert 2.0**-33 < X.abs().max() < 2.0**33


def test_what_lies_near_one_is_left_as_it_is():
    A = torch.randn(5, 4, generator=fresh())
    assert tamed(A)[0] is A
    assert tamed(torch.full((2, 2), math.inf))[1] == 0
    assert tamed(torch.full((2, 2), math.nan))[1] == 0


@pytest.mark.parametrize("power", [-1073, -149, -1, 0, 1, 127, 1023])
def test_powers_of_two_are_reached_in_either_direction(power):
    one = torch.ones(1, dtype=torch.float64)
    assert times(one, power).item() == math.ldexp(1.0, power)
    assert times(times(one, power), -power).item() == 1.0


@pytest.mark.parametrize(("size", "left"), [(31, True), (33, False)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_what_is_far_from_one_is_scaled(size, left, sign):
    assert (tamed(torch.full((2, 2), 2.0 ** (sign * size)))[1] == 0) == left
