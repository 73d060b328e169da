import math

import pytest
import torch

from sigmascope.linalg import collapse_depth, lyapunov_exponents, zero_exponents
from sigmascope.records import Estimate


def frames(d, k, chains=1, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(chains, d, k, generator=g, dtype=torch.float64)


def test_powers_of_one_matrix_have_the_logs_of_its_eigenvalues():
    A = torch.diag(torch.tensor([3.0, 1.0, 0.5, 1e-9], dtype=torch.float64))
    found = lyapunov_exponents(lambda Q: A @ Q, frames(4, 4), layers=200)
    for e, value in zip(found, (3.0, 1.0, 0.5, 1e-9), strict=True):
        assert e.value == pytest.approx(math.log(value), abs=1e-10)


def test_the_sum_is_the_mean_log_determinant():
    g = torch.Generator().manual_seed(1)
    logs = []

    def step(Q):
        W = torch.randn(2, 5, 5, generator=g, dtype=torch.float64)
        logs.append(torch.linalg.slogdet(W)[1])
        return W @ Q

    found = lyapunov_exponents(step, frames(5, 5, chains=2), layers=300, burn_in=0)
    assert sum(e.value for e in found) == pytest.approx(float(torch.stack(logs).mean()))


def test_rotations_have_none():
    g = torch.Generator().manual_seed(2)

    def step(Q):
        return torch.linalg.qr(torch.randn(1, 6, 6, generator=g, dtype=torch.float64))[0] @ Q

    found = lyapunov_exponents(step, frames(6, 6), layers=64)
    assert all(abs(e.value) < 1e-14 for e in found)


def test_too_few_layers_and_lost_directions_are_refused():
    with pytest.raises(ValueError, match="`layers` must be 32 or more"):
        lyapunov_exponents(lambda Q: Q, frames(3, 3), layers=5)
    P = torch.diag(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    with pytest.raises(ValueError, match="must be invertible"):
        lyapunov_exponents(lambda Q: P @ Q, frames(3, 3), layers=40)


def test_zero_exponents_are_counted_with_doubt():
    def of(*ends):
        return tuple(Estimate((a + b) / 2, a, b, "test", 0.05) for a, b in ends)

    found = zero_exponents(of((-0.01, 0.01), (-0.015, 0.01), (-0.6, -0.5)))
    assert (found.value, found.low, found.high) == (2, 2, 2)
    found = zero_exponents(of((-0.01, 0.01), (-0.03, 0.01), (-0.6, -0.5)))
    assert (found.value, found.low, found.high) == (2, 1, 2)  # the second may be -0.02
    found = zero_exponents(of((-0.01, 0.01), (-0.9, 0.1), (-0.5, -0.4)))
    assert (found.value, found.low) == (2, 1)  # the second is too coarse to be sure of
    found = zero_exponents(of((-0.01, 0.01), (-0.05, -0.02)))  # 4.7 standard errors
    assert (found.value, found.high) == (1, 2)
    found = zero_exponents(of((-1e-16, -1e-16), (-0.5, -0.4)))
    assert (found.value, found.low, found.high) == (1, 1, 1)


def test_collapse_depth_is_the_log_over_the_gap():
    e = collapse_depth(Estimate(0.5, 0.4, 0.6, "test", 0.05), tolerance=1e-6)
    assert e.value == pytest.approx(math.log(1e6) / 0.5)
    assert (e.low, e.high) == pytest.approx((math.log(1e6) / 0.6, math.log(1e6) / 0.4))
    assert collapse_depth(Estimate(0.1, -0.1, 0.2, "test"), tolerance=1e-6).high == math.inf
    with pytest.raises(ValueError, match="between 0 and 1"):
        collapse_depth(Estimate.exactly(1.0), tolerance=2.0)
