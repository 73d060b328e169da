import math

import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.linalg.krylov import Operator
from sigmascope.linalg.spectra import spectrum


@pytest.mark.parametrize("case", MATRICES)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_an_unfinished_run_is_still_right(case, steps):
    A = MATRICES[case]
    exact = spectrum(A, route="exact")
    for seed in range(3):
        for B in (A, Operator.of(A.double())):
            s = spectrum(B, route="free", steps=steps, generator=fresh(seed))
            k = len(s.sigma)
            assert k == min(steps, *A.shape)
            assert (s.low <= exact.high[:k]).all()
            assert (exact.low[:k] <= s.high).all()


def test_an_unfinished_run_claims_less():
    A = MATRICES["square"]
    few, more, all_ = (spectrum(A, route="free", steps=k, generator=fresh(1)) for k in (2, 12, 30))
    widths = [(s.high[0] - s.low[0]).item() for s in (few, more, all_)]
    assert widths[0] > widths[1] > widths[2]
    assert not few.complete
    assert all_.complete
    assert all_.risk == 0


def test_an_operator_has_no_upper_end_before_the_random_start_bound_speaks():
    A = Operator.of(torch.randn(400, 300, generator=fresh(), dtype=torch.float64))
    few = spectrum(A, route="free", steps=4, generator=fresh(1))
    assert few.high.isinf().all()
    assert few.risk == 0
    some = spectrum(A, route="free", steps=40, generator=fresh(1))
    missed = (math.log(1.648 * math.sqrt(300) / 1e-6) / 79) ** 2
    assert some.high[0].item() == pytest.approx(
        some.sigma[0].item() / math.sqrt(1 - missed), rel=1e-9
    )
    assert (some.high == some.high[0]).all()  # no value exceeds the largest
    assert some.risk == 1e-6


def test_the_energy_bounds_the_rest_of_a_tensor():
    A = torch.diag(torch.tensor([3.0, 2.0, 1e-3, 1e-3, 1e-3, 1e-3], dtype=torch.float64))
    s = spectrum(A, route="free", steps=4, generator=fresh())
    assert s.high[0] < 3.7
    assert s.high[2] < 2.1e-3
    assert (s.high.diff() <= 0).all()


def test_repeated_values_are_found_after_a_restart():
    A = torch.diag(torch.tensor([5.0, 5.0, 5.0, 1.0, 0.0], dtype=torch.float64))
    s = spectrum(Operator.of(A), route="free", generator=fresh())
    torch.testing.assert_close(
        s.sigma, torch.tensor([5.0, 5, 5, 1, 0]).double(), atol=1e-14, rtol=0
    )
    assert s.high[-1] < 1e-12


def test_low_precision_operators_claim_less():
    A = torch.randn(60, 40, generator=fresh())
    true = spectrum(A, route="exact")
    single = spectrum(Operator.of(A), route="free", generator=fresh())
    double = spectrum(Operator.of(A.double()), route="free", generator=fresh())
    assert 1e-6 < (single.high - single.low)[0] / true.sigma[0] < 1e-3
    assert (double.high - double.low)[0] / true.sigma[0] < 1e-12
    assert (single.low <= true.high).all()
    assert (true.low <= single.high).all()


@pytest.mark.parametrize("shape", [(3, 50), (50, 3), (7, 7)])
def test_counts_products_on_both_sides(shape):
    A = torch.randn(shape, generator=fresh(), dtype=torch.float64)
    calls = []
    spy = Operator(
        shape,
        lambda x: calls.append("apply") or A @ x,
        lambda y: calls.append("adjoint") or A.mT @ y,
        A,
    )
    spectrum(spy, route="free", steps=2, generator=fresh())
    assert len(calls) == 3  # two one way, one back


def test_large_tensors_are_taken_in_panels(monkeypatch):
    monkeypatch.setattr("sigmascope.linalg.krylov.singular_values.PANEL", 64)
    A = MATRICES["tall"]
    s = spectrum(A, route="free", generator=fresh())
    torch.testing.assert_close(s.sigma, spectrum(A).sigma, rtol=1e-12, atol=0)
