import math
from itertools import pairwise

import mpmath
import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.core.records import Spectrum
from sigmascope.linalg import frobenius_norm, schatten_norm, spectral_norm
from sigmascope.linalg.krylov import Operator
from sigmascope.linalg.spectra import spectrum


@pytest.mark.parametrize("case", MATRICES)
def test_spectral_norm_is_the_largest_value_on_every_route(case):
    A = MATRICES[case]
    exact = spectral_norm(A, route="exact")
    for other in (
        spectral_norm(A),
        spectral_norm(spectrum(A)),
        spectral_norm(A, route="free", steps=8, generator=fresh()),
    ):
        assert max(exact.low, other.low) <= min(exact.high, other.high)
    assert spectral_norm(A).value == pytest.approx(exact.value, rel=1e-12)


def test_spectral_norm_spends_no_second_factorisation_on_small_values():
    assert spectral_norm(MATRICES["rank one"]).how == "gram"


@pytest.mark.parametrize("case", MATRICES)
def test_frobenius_norm_of_entries_values_and_products_agree(case):
    A = MATRICES[case]
    summed, of_values = frobenius_norm(A), frobenius_norm(spectrum(A))
    assert max(summed.low, of_values.low) <= min(summed.high, of_values.high)
    assert summed.value == pytest.approx(of_values.value, rel=1e-12)
    products = frobenius_norm(Operator.of(A), samples=99)
    assert products.how == "exact"
    assert products.risk == 0
    assert max(summed.low, products.low) <= min(summed.high, products.high)


def test_frobenius_norm_by_hand():
    assert frobenius_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]])).value == 5
    assert frobenius_norm(torch.zeros(2, 2)).high == 0


@pytest.mark.parametrize("entry", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [100, 1000, 3000])
def test_frobenius_norm_encloses_where_roundings_go_one_way(entry, dtype, size):
    """As those of entries that are all alike do, but for one that is larger."""
    A = torch.full((size, size), entry, dtype=dtype)
    A[0, 0] = 1
    with mpmath.workdps(60):
        true = mpmath.sqrt((size**2 - 1) * mpmath.mpf(float(A[0, 1])) ** 2 + 1)
        found = frobenius_norm(A)
        assert found.low <= true <= found.high
    assert found.high - found.low < 1e-9 * found.value


@pytest.mark.parametrize("power", [-1070, -700, 0, 700, 1017])
def test_frobenius_norm_goes_with_every_scale(power):
    A = torch.tensor([[1.0, 2.0], [4.0, 10.0]], dtype=torch.float64)  # of norm 11
    found = frobenius_norm(A * 2.0**power)
    assert found.low <= 11 * 2.0**power <= found.high
    assert found.high <= 12 * 2.0**power


def test_frobenius_norm_of_an_operator_covers_at_the_stated_rate():
    A = torch.randn(40, 60, generator=fresh(), dtype=torch.float64)
    true = frobenius_norm(A).value
    told = [
        frobenius_norm(Operator.of(A), samples=20, risk=0.1, generator=fresh(seed))
        for seed in range(200)
    ]
    missed = sum(not e.low <= true <= e.high for e in told)
    assert missed <= 20  # fewer: the interval holds for any singular values, not for these
    assert max(e.high / e.low for e in told) < 2
    assert told[0].risk == 0.1
    assert told[0].how == "hutchinson(samples=20)"


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_sampled_frobenius_norm_neither_overflows_nor_underflows(scale):
    A = torch.randn(30, 50, generator=fresh(), dtype=torch.float64)
    one, other = (
        frobenius_norm(Operator.of(c * A), samples=9, generator=fresh(1)) for c in (1.0, scale)
    )
    assert other.value == pytest.approx(scale * one.value, rel=1e-12)
    assert other.high == pytest.approx(scale * one.high, rel=1e-12)


@pytest.mark.parametrize("case", MATRICES)
def test_schatten_norms_decrease_in_p(case):
    s = spectrum(MATRICES[case])
    norms = [schatten_norm(s, p) for p in (1, 1.5, 2, 7, 100, math.inf)]
    values = [e.value for e in norms]
    assert all(a >= b * (1 - 1e-14) for a, b in pairwise(values))
    assert norms[-1] == spectral_norm(s)


def test_schatten_norms_by_hand_and_between_their_ends():
    sigma = torch.tensor([4.0, 3.0], dtype=torch.float64)
    s = Spectrum(sigma, (2, 2), "told", sigma - 0.5, sigma + 0.5, risk=0.01)
    for p, norm in ((1, 7), (2, 5), (3, 91 ** (1 / 3))):
        assert schatten_norm(s, p).value == pytest.approx(norm)
        low = sum(x**p for x in (3.5, 2.5)) ** (1 / p)
        high = sum(x**p for x in (4.5, 3.5)) ** (1 / p)
        assert schatten_norm(s, p).low == pytest.approx(low)
        assert schatten_norm(s, p).high == pytest.approx(high)
        assert schatten_norm(s, p).risk == 0.01
    e = schatten_norm(Spectrum(sigma, (2, 2), "told"), 3)
    assert e.low < e.value < e.high  # the sum rounds, even where the values are known


@pytest.mark.parametrize("p", [1, 1.5, 2, 7])
def test_schatten_norms_of_the_smallest_numbers_lie_between_their_ends(p):
    """Around the smallest that can be told from zero, rounding is as large as the numbers."""
    tiny = math.ulp(0.0)
    for count in ([1], [1, 1], [3, 2, 1], [2**20, 5, 1]):
        sigma = tiny * torch.tensor(count, dtype=torch.float64)
        found = schatten_norm(Spectrum(sigma, (len(count), len(count)), "told"), p)
        exact = sum(mpmath.mpf(n) ** p for n in count) ** (1 / mpmath.mpf(p)) * mpmath.mpf(tiny)
        assert found.low <= exact <= found.high


def test_refuses_what_is_no_norm_and_what_is_not_all_there():
    part = Spectrum(torch.ones(2, dtype=torch.float64), (9, 9), "golub-kahan(steps=2)")
    with pytest.raises(ValueError, match=r"`p` must be at least 1, got 0\.5"):
        schatten_norm(part, 0.5)
    with pytest.raises(ValueError, match="`schatten_norm` needs all 9 singular values, got the le"):
        schatten_norm(part, 2)
    assert schatten_norm(part, math.inf).value == 1
