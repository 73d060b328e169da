import pytest
import torch
from zoo import SYMMETRIC, fresh

from sigmascope.linalg.krylov import Operator, trace


def symmetric(n: int = 40) -> torch.Tensor:
    A = torch.randn(n, n, generator=fresh(9), dtype=torch.float64)
    return A + A.mT


@pytest.mark.parametrize("case", SYMMETRIC)
def test_matrix_and_operator_agree(case):
    M = SYMMETRIC[case]
    true = M.double().trace().item()
    summed, applied = trace(M), trace(Operator.of(M), samples=99)
    assert summed.low <= true <= summed.high
    assert applied.low <= true <= applied.high
    assert (summed.how, applied.how) == ("summed", "exact")
    assert summed.risk == applied.risk == 0


def test_a_matrix_is_summed_exactly():
    A = torch.diag(torch.tensor([1e16, 1.0, -1e16], dtype=torch.float64))
    assert trace(A).value == 1
    assert trace(torch.tensor([[2.0, 9.0], [9.0, 3.0]])).value == 5


@pytest.mark.parametrize("risk", [0.05, 0.3])
def test_an_operator_covers_at_the_stated_rate(risk):
    A = symmetric()
    true = A.trace().item()
    told = [
        trace(Operator.of(A), samples=16, risk=risk, generator=fresh(seed)) for seed in range(200)
    ]
    missed = sum(not e.low <= true <= e.high for e in told)
    assert missed <= 200 * risk  # fewer: the interval holds for any eigenvalues, not for these
    assert {e.risk for e in told} == {risk}
    assert told[0].how == "hutchinson(samples=16)"
    assert abs(sum(e.value for e in told) / 200 - true) < 4 * (4 * 40 * 39 / 16 / 200) ** 0.5


def test_fewer_samples_and_less_risk_claim_less():
    A = Operator.of(symmetric(300))
    widths = [
        (e := trace(A, samples=n, risk=r, generator=fresh())).high - e.low
        for n, r in ((4, 0.05), (128, 0.05), (128, 0.5))
    ]
    assert widths[0] > widths[1] > widths[2]


def test_samples_that_agree_are_not_certain():
    """Signs on this operator say -2 or 2; three in a row are equal every fourth time."""
    A = Operator.of(torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double().repeat(2, 2))
    told = [trace(A, samples=3, generator=fresh(seed)) for seed in range(100)]
    assert sum(not e.low <= 0 <= e.high for e in told) <= 5
    assert min(e.high - e.low for e in told) > 0.1


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_scaling(scale):
    A = symmetric()
    one = trace(Operator.of(A), samples=8, generator=fresh())
    other = trace(Operator.of(scale * A), samples=8, generator=fresh())
    assert other.value == pytest.approx(scale * one.value, rel=1e-12)
    assert other.high == pytest.approx(scale * one.high, rel=1e-12)
