import pytest
import torch
from zoo import SYMMETRIC, fresh

from sigmascope.linalg.krylov import (
    Krylov,
    Operator,
    extreme_eigenvalues,
    krylov_space,
)


def spread(n: int = 200, seed: int = 3) -> torch.Tensor:
    """Symmetric, with outliers on both sides of a bulk."""
    Q = torch.linalg.qr(torch.randn(n, n, generator=fresh(seed), dtype=torch.float64))[0]
    values = torch.linspace(-1, 1, n, dtype=torch.float64)
    values[0], values[-1], values[-2] = -3.0, 5.0, 4.0
    return Q @ torch.diag(values) @ Q.mT


@pytest.mark.parametrize("case", SYMMETRIC)
def test_routes_agree_on_hostile_matrices(case):
    M = SYMMETRIC[case].double()
    true = torch.linalg.eigvalsh(M)
    slack = 1e-13 * true.abs().max().item()
    for A in (SYMMETRIC[case], Operator.of(M)):
        ends = extreme_eigenvalues(A, tolerance=0, generator=fresh())
        assert ends.top[0].low - slack <= true[-1] <= ends.top[0].high + slack
        assert ends.bottom[0].low - slack <= true[0] <= ends.bottom[0].high + slack
        assert ends.top[0].value == pytest.approx(true[-1].item(), rel=1e-9, abs=1e2 * slack)
        v = ends.above[:, 0].to(M)
        assert float((M @ v - true[-1] * v).abs().max()) <= 1e3 * slack + 1e-300


def test_few_steps_find_the_outliers_and_say_how_well():
    A = spread()
    ends = extreme_eigenvalues(Operator.of(A), count=2, steps=60, generator=fresh())
    assert [e.value for e in ends.top] == pytest.approx([5.0, 4.0], rel=1e-9)
    assert ends.bottom[0].value == pytest.approx(-3.0, rel=1e-9)
    assert ends.top[0].how.startswith("lanczos(steps=")
    assert ends.top[0].risk == 1e-3
    assert torch.allclose(A @ ends.above[:, 1], 4.0 * ends.above[:, 1], atol=1e-4)
    assert torch.allclose(A @ ends.below[:, 0], -3.0 * ends.below[:, 0], atol=1e-4)
    assert ends.top[1].high >= ends.top[0].value  # nothing bounds the second one by itself


@pytest.mark.parametrize("risk", [0.001, 0.3])
@pytest.mark.slow
def test_the_ends_hold_over_random_starts(risk):
    M = torch.randn(300, 300, generator=fresh(5), dtype=torch.float64)
    A = M + M.mT
    true = torch.linalg.eigvalsh(A)
    missed = 0
    for seed in range(200):
        ends = extreme_eigenvalues(Operator.of(A), steps=14, risk=risk, generator=fresh(seed))
        assert ends.top[0].low <= true[-1] + 1e-12
        assert ends.bottom[0].high >= true[0] - 1e-12
        missed += not true[-1] <= ends.top[0].high
        missed += not true[0] >= ends.bottom[0].low
    assert missed <= 400 * risk + 1


def test_too_few_steps_claim_less():
    A = Operator.of(spread())
    widths = [
        (e := extreme_eigenvalues(A, steps=k, tolerance=0, generator=fresh()).top[0]).high - e.low
        for k in (3, 6, 9, 12, 200)
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 1e-10


def test_float32_operators_say_so_in_their_interval():
    A = spread()
    B = A.float()
    e = extreme_eigenvalues(Operator.of(B), steps=200, generator=fresh()).top[0]
    assert e.low <= 5.0 <= e.high
    assert 1e-6 < e.high - e.low < 1e-2


@pytest.mark.parametrize("risk", [0.001, 0.3])
def test_a_hint_where_to_start_helps_and_does_no_harm(risk):
    A = spread()
    lam, Q = torch.linalg.eigh(A)
    good = Q[:, -1] + 0.5 * Q[:, 30]
    bad = Q[:, 90] - 0.02 * Q[:, -1]  # without the random part, it would hide the largest
    plain, hinted = (
        extreme_eigenvalues(Operator.of(A), steps=5, towards=h, generator=fresh()).top[0].value
        for h in (None, good)
    )
    assert abs(hinted - 5) < abs(plain - 5)
    missed = 0
    for seed in range(200):
        e = extreme_eigenvalues(
            Operator.of(A), steps=6, towards=bad, risk=risk, generator=fresh(seed)
        ).top[0]
        missed += not e.low - 1e-12 <= lam[-1] <= e.high
    assert missed <= 200 * risk + 1
    zero = torch.zeros(len(A), dtype=torch.float64)
    assert krylov_space(Operator.of(A), steps=3, towards=zero, generator=fresh()).random == 1


@pytest.mark.parametrize("power", [-60, 60])
def test_intervals_of_eigenvalues_follow_the_scale(power):
    basis = torch.eye(5, 2, dtype=torch.float64)
    matrix = torch.tensor([[1.0, 0.5], [0.5, -1.0]], dtype=torch.float64)
    plain, scaled = (
        extreme_eigenvalues(Krylov(basis, scale * matrix, scale * 0.3, 2.0**-52))
        for scale in (1.0, 2.0**power)
    )
    for one, other in zip(plain.top + plain.bottom, scaled.top + scaled.bottom, strict=True):
        for name in ("low", "value", "high"):
            assert getattr(other, name) == pytest.approx(2.0**power * getattr(one, name), rel=1e-9)
        assert one.high - one.low > 1  # much is left open


@pytest.mark.parametrize(("random", "reach"), [(1.0, 6.0), (0.5, 12.0)])
def test_what_one_step_leaves_open_of_the_largest_eigenvalue(random, reach):
    """`c |λ - θ| ≤ β`; in three dimensions the component c of a random direction is uniform.

    With a chance of one half it is below 1/2, so that λ is up to `3 / (1/2)` away.
    """
    basis = torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64)
    space = Krylov(basis, torch.tensor([[2.0]], dtype=torch.float64), 3.0, 2.0**-52, random)
    found = extreme_eigenvalues(space, risk=0.5)
    assert found.top[0].value == found.bottom[0].value == 2
    assert found.top[0].high == pytest.approx(2 + reach)
    assert found.bottom[0].low == pytest.approx(2 - reach)
    assert found.top[0].low == pytest.approx(2)
    assert found.top[0].risk == 0.5
