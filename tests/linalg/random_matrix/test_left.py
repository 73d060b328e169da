import mpmath
import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.linalg.krylov import leading
from sigmascope.linalg.random_matrix import Left
from sigmascope.linalg.spectra import spectrum


@pytest.mark.parametrize("name", MATRICES)
def test_of_all_values_nothing_cancels(name):
    s = spectrum(MATRICES[name], route="exact")
    left = Left(s, 0, 1e300)  # not asked
    for k in range(len(s.sigma) + 1):
        exact = float(mpmath.fsum(mpmath.mpf(float(x)) ** 2 for x in s.sigma[k:]))
        assert left.without(k) == pytest.approx(exact, rel=1e-13)
        assert left.sharp(k)


def test_of_leading_values_it_is_at_most_so_much():
    A = torch.randn(80, 60, generator=fresh(), dtype=torch.float64)
    energy = float(A.square().sum())
    s = leading(A, energy=energy, steps=2, vectors=0, generator=fresh()).spectrum
    assert not s.complete
    exact = torch.linalg.svdvals(A).square()
    left = Left(s, 0, energy)
    for k in range(len(s.sigma)):
        assert left.without(k) >= float(exact[k:].sum()) * (1 - 1e-12)
    assert Left(s, 3, float(exact[3:].sum())).without(3) == pytest.approx(float(exact[3:].sum()))


def test_it_is_not_sharp_where_rounding_of_large_values_hides_it():
    A = torch.randn(80, 60, generator=fresh(), dtype=torch.float64)
    energy = float(A.square().sum())
    s = leading(A, energy=energy, steps=1, vectors=0, generator=fresh()).spectrum
    wide = float((s.sigma - s.low).max())
    assert wide > 0
    assert Left(s, 0, energy).sharp(0)
    assert not Left(s, 0, float(s.low.square().sum())).sharp(len(s.sigma))
