"""Intervals over time: right for independent stretches, wide enough for correlated ones."""

import math

import pytest
import torch
from scipy import stats

from sigmascope.linalg import ratio_average, time_average


def test_the_mean_of_independent_stretches_has_students_interval():
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 3
    x = x.flatten()[torch.argsort(x.flatten())].reshape(4, 8)  # any order: the mean is the same
    alternating = torch.stack([x.flatten()[::2], x.flatten().flip(0)[::2]], 1).reshape(4, 8)
    e = time_average(alternating)
    found = stats.ttest_1samp(alternating.flatten().numpy(), 0).confidence_interval(0.95)
    assert e.value == pytest.approx(float(x.mean()))
    assert (e.low, e.high) == pytest.approx((found.low, found.high), rel=1e-9)
    assert e.risk == 0.05


def test_correlated_stretches_widen_it():
    g = torch.Generator().manual_seed(1)
    steps = torch.randn(1, 4000, generator=g, dtype=torch.float64)
    slow = torch.zeros_like(steps)
    for i in range(1, 4000):
        slow[:, i] = 0.9 * slow[:, i - 1] + steps[:, i]
    fine, coarse = time_average(slow), time_average(slow.reshape(1, 40, 100).mean(2))
    naive = 1.96 * float(slow.std()) / 4000**0.5
    for e in (fine, coarse):
        assert e.high - e.value > 3 * naive
    assert (fine.high - fine.low) == pytest.approx(coarse.high - coarse.low, rel=0.5)


def test_the_jackknife_of_a_ratio_agrees_with_its_linearisation():
    g = torch.Generator().manual_seed(2)
    over = torch.rand(1, 400, generator=g, dtype=torch.float64) + 1
    under = torch.rand(1, 400, generator=g, dtype=torch.float64) + 4
    e = ratio_average(over, under)
    value = float(over.mean() / under.mean())
    influence = (over - value * under) / under.mean()
    error = float(influence.std()) / 20
    assert e.value == pytest.approx(value)
    assert e.high - e.value == pytest.approx(1.966 * error, rel=0.1)


def test_one_stretch_says_nothing_of_its_error():
    e = time_average(torch.ones(1, 1, dtype=torch.float64))
    assert (e.value, e.low, e.high) == (1, -math.inf, math.inf)


def test_intervals_of_slow_processes_cover():
    """Of 200 processes with memory 10, intervals from 32 stretches of 40 miss about 5 %."""
    g = torch.Generator().manual_seed(3)
    steps = torch.randn(200, 1280, generator=g, dtype=torch.float64)
    slow = torch.zeros_like(steps)
    for i in range(1, 1280):
        slow[:, i] = 0.8 * slow[:, i - 1] + steps[:, i]
    means = slow.reshape(200, 32, 40).mean(2)
    missed = sum(not e.low <= 0 <= e.high for e in (time_average(m[None]) for m in means))
    assert missed <= 22  # twice the nominal rate and more would be wrong
