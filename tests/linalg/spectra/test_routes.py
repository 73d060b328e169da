import sys

import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.core.records import Spectrum
from sigmascope.linalg.krylov import Operator
from sigmascope.linalg.spectra import spectrum

ROUTES = ("auto", "gram", "free")


def meet(a: Spectrum, b: Spectrum) -> bool:
    return bool(((a.low <= b.high) & (b.low <= a.high)).all())


@pytest.mark.parametrize("case", MATRICES)
@pytest.mark.parametrize("route", ROUTES)
def test_routes_agree(case, route):
    A = MATRICES[case]
    exact = spectrum(A, route="exact")
    other = spectrum(A, route=route, steps=min(A.shape), generator=fresh())
    assert meet(exact, other), (exact, other)
    assert other.complete
    assert other.sigma[0].item() == pytest.approx(exact.sigma[0].item(), rel=1e-12)


@pytest.mark.parametrize("case", MATRICES)
@pytest.mark.parametrize("route", ["exact", *ROUTES])
def test_values_lie_in_their_intervals_and_descend(case, route):
    s = spectrum(MATRICES[case], route=route, steps=99, generator=fresh())
    assert s.shape == tuple(MATRICES[case].shape)
    assert (s.low >= 0).all()
    assert (s.low <= s.sigma).all()
    assert (s.sigma <= s.high).all()
    assert s.sigma.tolist() == sorted(s.sigma.tolist(), reverse=True)
    assert s.risk == 0


@pytest.mark.parametrize("case", MATRICES)
def test_auto_is_good_to_1e_9_of_the_largest_value(case):
    A = MATRICES[case]
    auto, exact = spectrum(A), spectrum(A, route="exact")
    assert ((auto.high - auto.low) <= 2.1e-9 * auto.sigma[0]).all()
    assert ((auto.sigma - exact.sigma).abs() <= 1e-9 * exact.sigma[0]).all()


@pytest.mark.parametrize("case", MATRICES)
def test_operators_say_what_matrices_say(case):
    A = MATRICES[case]
    if A.dtype in (torch.float16, torch.bfloat16):
        A = A.float()
    for route in ("auto", "free"):
        told = spectrum(Operator.of(A), route=route, steps=99, generator=fresh(2))
        assert meet(told, spectrum(A, route="exact"))


@pytest.mark.parametrize("route", ["exact", "gram", "free"])
@pytest.mark.parametrize("scale", [2.0**-900, 2.0**-70, 2.0**900])
def test_a_power_of_two_scales_every_value_exactly(route, scale):
    A = MATRICES["square"].double()
    one = spectrum(A, route=route, steps=9, generator=fresh())
    other = spectrum(scale * A, route=route, steps=9, generator=fresh())
    torch.testing.assert_close(other.sigma, scale * one.sigma, rtol=1e-13, atol=0)
    torch.testing.assert_close(other.high, scale * one.high, rtol=1e-13, atol=0)


@pytest.mark.parametrize("route", ["exact", "gram", "free"])
def test_rotations_and_transposition_change_nothing(route):
    A, Q = MATRICES["wide"].double(), MATRICES["orthogonal"]
    A = A[:, :24]
    for B in (A @ Q, A.mT, -A, A.flip(0), torch.cat([A, torch.zeros(5, 24).double()])):
        s = spectrum(B, route=route, generator=fresh())
        torch.testing.assert_close(s.sigma[:3], spectrum(A).sigma, rtol=1e-12, atol=0)
        assert (s.low[3:] == 0).all()


def test_known_values():
    A = torch.diag(torch.tensor([3.0, -4.0, 0.0]))[:, [2, 0, 1]]
    for route in ("exact", "gram", "auto"):
        torch.testing.assert_close(
            spectrum(A, route=route).sigma, torch.tensor([4.0, 3, 0]).double()
        )


def test_auto_names_what_it_did():
    assert spectrum(MATRICES["tall"]).how == "gram"
    assert spectrum(MATRICES["rank one"]).how == "exact, the Gram matrix being too coarse"
    assert spectrum(MATRICES["tall"], route="free", generator=fresh()).how == "golub-kahan(steps=3)"
    assert spectrum(MATRICES["zero"]).how == "gram"


def test_auto_leaves_the_dense_routes_by_size_alone(monkeypatch):
    A = MATRICES["square"]
    door = sys.modules["sigmascope.linalg.spectra"]
    monkeypatch.setattr(door, "GRAM_LIMIT", 30**3)
    assert spectrum(A).how == "gram"
    monkeypatch.setattr(door, "GRAM_LIMIT", 30**3 - 1)
    assert spectrum(A, generator=fresh()).how == "golub-kahan(steps=30)"
    assert spectrum(A, route="gram").how == "gram"
    monkeypatch.setattr(door, "DENSE_LIMIT", 30**2)
    assert spectrum(Operator.of(A)).how == "gram"
    monkeypatch.setattr(door, "DENSE_LIMIT", 30**2 - 1)
    assert spectrum(Operator.of(A), generator=fresh()).how == "golub-kahan(steps=30)"


def test_gram_admits_that_it_cannot_see_small_values():
    s = spectrum(MATRICES["nearly singular"], route="gram")
    assert s.low[-1] == 0
    assert s.high[-1] > 1e-8
    exact = spectrum(MATRICES["nearly singular"], route="exact")
    assert exact.low[-1] > 0.9e-12
    assert exact.high[-1] < 1.1e-12


def test_a_spectrum_without_ends_is_taken_at_its_word():
    s = Spectrum(torch.ones(2, dtype=torch.float64), (2, 3), "told")
    assert s.low is s.sigma
    assert s.high is s.sigma
    assert s.complete
    assert not Spectrum(s.sigma, (3, 3), "told").complete


def test_leaves_its_argument_and_gradients_alone():
    A = torch.ones(3, 2, requires_grad=True)
    s = spectrum(A)
    assert not s.sigma.requires_grad
    assert A.grad is None
    assert (A == 1).all()
