import pytest
import torch
from zoo import SYMMETRIC, fresh

from sigmascope.linalg import Operator, krylov_space, symmetric_moments, trace


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
    assert abs(missed - 200 * risk) <= 3.5 * (200 * risk * (1 - risk)) ** 0.5
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


def test_a_diagonal_operator_has_no_spread():
    d = torch.arange(100.0, dtype=torch.float64)
    A = Operator((100, 100), lambda x: d[:, None] * x, lambda y: d[:, None] * y, d)
    e = trace(A, samples=3, generator=fresh())
    assert e.value == pytest.approx(d.sum().item(), rel=1e-14)
    assert e.high - e.low < 1e-8


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_scaling(scale):
    A = symmetric()
    one = trace(Operator.of(A), samples=8, generator=fresh())
    other = trace(Operator.of(scale * A), samples=8, generator=fresh())
    assert other.value == pytest.approx(scale * one.value, rel=1e-12)
    assert other.high == pytest.approx(scale * one.high, rel=1e-12)


def test_touches_no_global_state():
    state = torch.random.get_rng_state()
    one, two = (trace(Operator.of(symmetric()), samples=4, generator=fresh(3)) for _ in range(2))
    assert one == two
    assert (torch.random.get_rng_state() == state).all()


def test_refusals(as_users_see_it):
    with pytest.raises(ValueError, match=r"`A` must be square, got shape \(2, 3\)"):
        trace(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"`A` must be square, got shape \(2, 3\)"):
        trace(Operator.of(torch.ones(2, 3)))
    with pytest.raises(ValueError, match="`samples` must be at least 2, got 1"):
        trace(Operator.of(torch.eye(3)), samples=1)
    for risk in (0.0, 1.0):
        with pytest.raises(ValueError, match="`risk` must be"):
            trace(Operator.of(torch.eye(3)), risk=risk)


def outlying(n: int = 150) -> torch.Tensor:
    """A few large eigenvalues of both signs along sparse and dense directions, many near zero."""
    A = 0.01 * symmetric(n)
    flat = torch.ones(n, dtype=torch.float64) / n**0.5
    A = A + 9.0 * torch.outer(flat, flat)
    A[3, 3] -= 5.0
    return A


@pytest.mark.parametrize("steps", [4, 16])
def test_moments_of_symmetric_operators_are_covered_at_the_stated_rate(steps):
    A = outlying()
    true = A.trace().item(), A.norm().item()
    missed = [0, 0]
    for seed in range(200):
        g = fresh(seed)
        space = krylov_space(Operator.of(A), steps=steps, generator=g)
        found = symmetric_moments(Operator.of(A), within=space, samples=12, generator=g)
        for i in range(2):
            missed[i] += not found[i].low <= true[i] <= found[i].high
    assert max(missed) <= 10, missed


def test_what_the_space_holds_is_not_sampled():
    A = outlying()
    few, many = (
        symmetric_moments(
            Operator.of(A),
            within=krylov_space(Operator.of(A), steps=k, generator=fresh()),
            samples=20,
            generator=fresh(),
        )
        for k in (1, 12)
    )
    for a, b in zip(few, many, strict=True):
        assert b.high - b.low < 0.5 * (a.high - a.low)
    whole = krylov_space(Operator.of(A), steps=150, generator=fresh())
    trace_, norm = symmetric_moments(Operator.of(A), within=whole, samples=2)
    assert trace_.how == norm.how == "exact"
    assert trace_.value == pytest.approx(A.trace().item(), rel=1e-12)
    assert norm.value == pytest.approx(A.norm().item(), rel=1e-12)
