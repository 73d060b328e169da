import math

import pytest
import torch
from zoo import SYMMETRIC, fresh

from sigmascope.linalg.krylov import Operator, krylov_space, spectral_density

THRESHOLDS = (-2.0, -0.9, -0.3, 0.0, 0.4, 0.95, 3.0, 4.5)


def with_values(values: torch.Tensor, seed: int = 2) -> torch.Tensor:
    n = len(values)
    Q = torch.linalg.qr(torch.randn(n, n, generator=fresh(seed), dtype=torch.float64))[0]
    A = Q @ torch.diag(values.double()) @ Q.mT
    return (A + A.mT) / 2


def bulk_and_outliers(n: int = 150) -> torch.Tensor:
    values = torch.linspace(-1, 1, n)
    values[0], values[-1], values[-2] = -3.0, 5.0, 4.0
    return values


def mostly_zero(n: int = 150) -> torch.Tensor:
    values = torch.zeros(n)
    values[:10] = torch.linspace(0.5, 6, 10)
    return values


@pytest.mark.parametrize("case", SYMMETRIC)
def test_all_steps_give_every_eigenvalue(case):
    M = SYMMETRIC[case].double()
    true = torch.linalg.eigvalsh(M)
    size = true.abs().max().item() or 1.0
    found = spectral_density(Operator.of(M), steps=len(M), samples=3, generator=fresh())
    assert found.how == "exact"
    assert found.risk == 0
    for t in (true.median().item() + 1e-7 * size, 0.3 * size, -0.4 * size):
        share = (true <= t).double().mean().item()
        e = found.below(t)
        assert e.low <= share <= e.high


@pytest.mark.parametrize(
    ("values", "steps", "starts"),
    [
        pytest.param(bulk_and_outliers(), 6, 60, id="bulk"),
        pytest.param(mostly_zero(), 20, 60, id="zeros"),
        *(
            pytest.param(values, steps, 200, marks=pytest.mark.slow)
            for values in (bulk_and_outliers(), mostly_zero())
            for steps in (6, 20)
        ),
    ],
)
def test_shares_are_covered_at_the_stated_rate(values, steps, starts):
    A = Operator.of(with_values(values))
    missed = dict.fromkeys(THRESHOLDS, 0)
    for seed in range(starts):
        found = spectral_density(A, samples=5, steps=steps, generator=fresh(seed))
        for t in THRESHOLDS:
            e = found.below(t)
            missed[t] += not e.low <= (values <= t).double().mean().item() <= e.high
    assert max(missed.values()) <= starts / 20, missed


def test_the_enclosure_holds_for_every_sample_at_every_point():
    values = bulk_and_outliers()
    A = with_values(values)
    lam, Q = torch.linalg.eigh(A)
    for seed in range(20):
        g = fresh(seed)
        found = spectral_density(Operator.of(A), samples=2, steps=9, generator=fresh(seed))
        start = torch.randn(len(A), 1, generator=g, dtype=torch.float64)
        masses = (Q.mT @ (start / start.norm()))[:, 0].square()  # the first sample's own measure
        for t in torch.linspace(-3.5, 5.5, 91).tolist():
            low, high = found._enclosed(t)
            share = masses[lam <= t].sum().item()
            assert low[0] - 1e-12 <= share <= high[0] + 1e-12


def test_more_steps_and_samples_say_more():
    A = Operator.of(with_values(bulk_and_outliers()))
    widths = [
        (e := spectral_density(A, samples=s, steps=k, generator=fresh()).below(0.2)).high - e.low
        for s, k in ((3, 4), (3, 30), (40, 30), (3, 150))
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == 0


def test_the_distribution_function_rises_from_0_to_1():
    found = spectral_density(
        Operator.of(with_values(bulk_and_outliers())), samples=4, steps=12, generator=fresh()
    )
    shares = [found.below(t).value for t in torch.linspace(-4, 6, 50).tolist()]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, pytest.approx(1.0))
    assert math.isclose(found.below(6.0).high, 1.0)


def test_scaling():
    A = with_values(bulk_and_outliers())
    one = spectral_density(Operator.of(A), samples=3, steps=9, generator=fresh())
    other = spectral_density(Operator.of(1e200 * A), samples=3, steps=9, generator=fresh())
    assert one.below(0.2).value == pytest.approx(other.below(0.2e200).value, rel=1e-9)


def test_spaces_at_hand_are_used_if_they_began_at_random():
    A = Operator.of(with_values(bulk_and_outliers()))
    g = fresh()
    spaces = [krylov_space(A, steps=9, generator=g) for _ in range(3)]
    found = spectral_density(spaces)
    again = spectral_density(A, samples=3, steps=9, generator=fresh())
    assert torch.equal(found.nodes, again.nodes)
    hint = torch.ones(150, dtype=torch.float64)
    with pytest.raises(ValueError, match="equally many steps from random starts"):
        spectral_density([*spaces, krylov_space(A, steps=9, towards=hint)])
    with pytest.raises(ValueError, match="equally many steps from random starts"):
        spectral_density([*spaces, krylov_space(A, steps=8)])
    with pytest.raises(ValueError, match="`samples` must be at least 2"):
        spectral_density(spaces[:1])
