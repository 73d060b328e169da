"""Condition numbers from the ends of a spectrum, with what rounding may have done to them."""

import math

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.core.records import Spectrum
from sigmascope.theory.riedi2022.intervals import EPS, blur, exact, ratio, symmetric_ends


@given(st.floats(1e-3, 1e3), st.floats(0, 1), st.floats(0, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_the_interval_holds_the_ratio_of_any_ends_within_the_gap(first, share, gap, up, down):
    last, gap = first * share, first * gap
    found = ratio(first, last, gap)
    true = max(first + up * gap, last + down * gap), min(first + up * gap, last + down * gap)
    if true[1] > 0:
        assert found.low * (1 - 1e-12) <= true[0] / true[1] <= found.high * (1 + 1e-12)
    assert found.low <= found.value <= found.high
    assert found.low >= 1


def test_where_the_last_may_be_zero_the_ratio_may_be_infinite():
    assert ratio(2.0, 0.5, 0.5).high == math.inf
    assert ratio(2.0, 0.5, 0.5).low == 1.5
    assert ratio(2.0, 0.0, 0.0).value == ratio(2.0, 0.0, 0.25).value == math.inf
    assert (ratio(2.0, 0.0, 0.25).low, ratio(0.0, 0.0, 0.0).low) == (7.0, 1.0)
    sure = ratio(6.0, 2.0, 0.0)
    assert (sure.value, sure.low, sure.high) == (3.0, 3.0, 3.0)


def test_small_values_are_not_lost_in_a_square():
    """Läuchli 1961: the Gram matrix of these columns is singular in float64."""
    small = 2.0**-30
    A = torch.tensor([[1.0, 1.0], [small, 0.0], [0.0, small]], dtype=torch.float64)
    found = exact(A)
    assert found.sigma.tolist() == pytest.approx([math.sqrt(2 + small**2), small], rel=1e-6)
    assert torch.linalg.eigvalsh(A.mT @ A)[0] <= 0.5 * small**2


def test_what_rounding_did_is_the_worst_of_all_spectra():
    g = torch.Generator().manual_seed(0)
    for scale in (1e-3, 1.0, 1e5):
        A = scale * torch.randn(12, 7, generator=g, dtype=torch.float64)
        Q = torch.linalg.qr(torch.randn(12, 12, generator=g, dtype=torch.float64))[0]
        one, turned = exact(A), exact(Q @ A)
        gap = blur(one, turned)
        assert float((one.sigma - turned.sigma).abs().max()) <= gap
        assert gap == max(blur(one), blur(turned)) >= 8 * EPS * float(one.sigma[0])


def test_what_rounding_did_is_as_far_as_the_widest_interval_reaches():
    sigma = torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64)
    off = torch.tensor([2.0**-20, 2.0**-10, 2.0**-30], dtype=torch.float64)
    s = Spectrum(sigma, (3, 3), "told", sigma - off, sigma + off)
    assert blur(s) == pytest.approx(2 * 2.0**-10, rel=1e-9)


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        ([[3.0, -4.0], [4.0, 3.0]], (6, 6)),  # a rotation and 3 Id: what turns is not symmetric
        ([[0.0, 2.0], [0.0, 0.0]], (-2, 2)),
        ([[1.0, 5.0], [-5.0, -7.0]], (-14, 2)),
    ],
)
def test_ends_are_those_of_the_symmetric_part(rows, ends):
    assert symmetric_ends(torch.tensor(rows, dtype=torch.float64)) == pytest.approx(ends)
