"""The inner dimension from spectra of Jacobians."""

import math

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.theory.bottleneck import inner_dimension


def spectra(top, *, rest=1e-3, count=20, width=8, seed=0):
    """Given leading values, noisy from sample to sample, and small others."""
    g = torch.Generator().manual_seed(seed)
    s = torch.full((count, width), rest, dtype=torch.float64)
    s[:, : len(top)] = torch.tensor(top, dtype=torch.float64)
    return (s * torch.empty_like(s).log_normal_(0, 0.2, generator=g)).sort(1, descending=True)[0]


@given(rank=st.integers(1, 6), scale=st.floats(-3, 3), seed=st.integers(0, 1000))
def test_a_gap_is_found_at_any_scale(rank, scale, seed):
    top = [0.7**i for i in range(rank)]
    found = inner_dimension(10**scale * spectra(top, seed=seed))
    assert (found.low, found.value, found.high) == (rank, rank, rank)
    assert found.risk == 0.05


def test_full_rank_is_a_rank():
    found = inner_dimension(spectra([1, 0.9, 0.8], width=3))
    assert found.value == 3


def test_as_many_as_there_are_mixtures_may_be_more():
    found = inner_dimension(spectra([1, 0.9, 0.8], width=3), mixtures=3)
    assert (found.low, found.high) == (3, math.inf)
    assert inner_dimension(spectra([1, 0.9]), mixtures=8).high == 2


def test_two_gaps_widen_the_interval():
    found = inner_dimension(spectra([1.0, 0.2], rest=0.03))
    assert (found.low, found.high) == (1, 2)


def test_no_gap_claims_little():
    s = torch.tensor([[0.8**i for i in range(20)]], dtype=torch.float64).expand(5, 20)
    found = inner_dimension(s)
    assert "no clear gap" in found.how
    assert found.low <= 4
    assert found.high >= 17


def test_samples_with_another_rank_do_not_decide():
    s = spectra([1.0, 0.8], count=21)
    s[:8, 1] = 1e-6
    assert inner_dimension(s).value == 2


@pytest.mark.parametrize("width", [0, 3])
def test_no_dependence_is_dimension_zero(width):
    found = inner_dimension(torch.zeros(4, width, dtype=torch.float64))
    assert (found.low, found.high) == (0, 0)
    assert math.isfinite(found.value)
