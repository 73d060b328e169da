import math

import mpmath
import pytest
import torch
from zoo import MATRICES

from sigmascope.core.records import Spectrum
from sigmascope.linalg import condition_number, log_pseudo_determinant
from sigmascope.linalg.spectra import spectrum

NONZERO = [case for case in MATRICES if not case.startswith("zero")]
FUNCTIONALS = [condition_number, log_pseudo_determinant]


def told(*sigma: float, gap: float = 0.0, risk: float = 0.0) -> Spectrum:
    values = torch.tensor(sigma, dtype=torch.float64)
    n = len(sigma)
    return Spectrum(values, (n, n), "told", (values - gap).clamp_min(0), values + gap, risk)


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize("case", NONZERO)
def test_routes_meet_on_the_zoo(case, functional):
    gram = functional(spectrum(MATRICES[case], route="gram"))
    exact = functional(spectrum(MATRICES[case], route="exact"))
    assert max(gram.low, exact.low) <= min(gram.high, exact.high)


def test_by_hand_and_what_was_dropped():
    s = told(8.0, 2.0, 0.5, 1e-9)
    assert condition_number(s).value == 16
    assert condition_number(s).how == "told, 1 of 4 dropped"
    assert condition_number(s, rtol=0.1).value == 4
    assert condition_number(s, rtol=0.1).how == "told, 2 of 4 dropped"
    assert condition_number(s, rtol=0).value == pytest.approx(8e9)
    assert condition_number(s, rtol=0).how == "told"
    assert log_pseudo_determinant(s).value == pytest.approx(math.log(8))
    assert log_pseudo_determinant(s, rtol=0).value == pytest.approx(math.log(8e-9))
    assert condition_number(told(3.0)).value == 1


def test_log_determinant_of_a_regular_matrix():
    A = MATRICES["square"]
    e = log_pseudo_determinant(spectrum(A))
    true = torch.linalg.slogdet(A.double()).logabsdet.item()
    assert e.low <= true <= e.high
    assert e.high - e.low < 1e-9


@pytest.mark.parametrize("c", [1e-200, 1e200])
def test_scaling(c):
    s, scaled = told(3.0, 2.0, 0.1), told(3.0 * c, 2.0 * c, 0.1 * c)
    assert condition_number(scaled).value == pytest.approx(condition_number(s).value)
    gain = log_pseudo_determinant(scaled).value - log_pseudo_determinant(s).value
    assert gain == pytest.approx(3 * math.log(c))


def test_ends_are_those_of_the_values():
    e = condition_number(told(4.0, 2.0, gap=0.5))
    assert (e.low, e.value, e.high) == pytest.approx((3.5 / 2.5, 2, 4.5 / 1.5))
    e = log_pseudo_determinant(told(4.0, 2.0, gap=0.5))
    assert (e.low, e.high) == pytest.approx((math.log(3.5 * 1.5), math.log(4.5 * 2.5)))


def test_covers_both_cases_where_the_rank_is_undecided():
    s = told(4.0, 2.0, 0.5, gap=0.25)
    e = condition_number(s, rtol=0.12)  # is 0.5 above 0.48?
    assert e.value == 8
    assert e.low == pytest.approx(3.75 / 2.25)
    assert e.high == pytest.approx(4.25 / 0.25)
    e = log_pseudo_determinant(s, rtol=0.12)
    assert e.value == pytest.approx(math.log(4))
    assert e.low == pytest.approx(math.log(3.75 * 1.75 * 0.25))
    assert e.high == pytest.approx(math.log(4.25 * 2.25))


def test_claims_no_upper_end_where_the_last_may_be_zero():
    e = condition_number(told(4.0, 0.2, gap=0.25), rtol=0)
    assert e.high == math.inf
    assert log_pseudo_determinant(told(4.0, 0.2, gap=0.25), rtol=0).low == -math.inf


@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_refusals(functional):
    part = Spectrum(torch.ones(2, dtype=torch.float64), (9, 9), "golub-kahan(steps=2)")
    with pytest.raises(ValueError, match="needs all 9 singular values"):
        functional(part)
    with pytest.raises(ValueError, match="needs a non-zero matrix"):
        functional(told(0.0, 0.0))
    with pytest.raises(ValueError, match=r"`rtol` must be in \[0, 1\), got 2"):
        functional(told(1.0), rtol=2.0)
    assert functional(told(1.0, risk=0.5)).risk == 0.5


def test_covers_a_value_that_seems_below_the_threshold_and_may_be_above():
    s = told(4.0, 0.45, gap=0.25)  # 0.7 may exceed 0.12 * 3.75
    e = condition_number(s, rtol=0.12)
    assert e.value == 1
    assert e.high == pytest.approx(4.25 / 0.2)
    e = log_pseudo_determinant(s, rtol=0.12)
    assert e.value == pytest.approx(math.log(4))
    assert e.low == pytest.approx(math.log(3.75 * 0.2))


@pytest.mark.parametrize("exponent", [280, -280])
def test_a_sum_of_large_logarithms_is_within_its_interval(exponent):
    """A thousand of them round by far more than one does."""
    sigma = torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 1
    sigma = sigma.sort(descending=True).values * 10.0**exponent
    found = log_pseudo_determinant(Spectrum(sigma, (1000, 1000), "given"))
    with mpmath.workdps(60):
        true = mpmath.fsum(mpmath.log(mpmath.mpf(v)) for v in sigma.tolist())
        assert found.low <= true <= found.high
        assert abs(mpmath.mpf(found.value) - true) > 1e-12
    assert found.high - found.low < 1e-5
