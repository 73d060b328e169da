import pytest
import torch
from hypothesis import given, strategies as st
from zoo import MATRICES, fresh

from sigmascope.core.records import Spectrum
from sigmascope.linalg.spectra import Moments, spectrum

PIECES = st.lists(st.integers(1, 20), min_size=1, max_size=6)


def meet(a: Spectrum, b: Spectrum) -> bool:
    return bool(((a.low <= b.high) & (b.low <= a.high)).all())


@given(seed=st.integers(0, 999), sizes=PIECES, shift=st.floats(-1e5, 1e5))
def test_pieces_add_up_to_the_whole(seed, sizes, shift):
    rows = torch.randn(sum(sizes), 4, generator=fresh(seed), dtype=torch.float64) + shift
    first, *rest = (Moments.of(piece) for piece in rows.split(sizes))
    total, whole = sum(rest, start=first), Moments.of(rows)
    assert total.count == whole.count == len(rows)
    assert total.pieces == len(sizes)
    torch.testing.assert_close(total.mean, whole.mean)
    torch.testing.assert_close(total.scatter, whole.scatter, rtol=1e-6, atol=1e-6)
    for centred in (True, False):
        assert meet(total.spectrum(centred=centred), whole.spectrum(centred=centred))


@given(seed=st.integers(0, 999), sizes=PIECES, shift=st.sampled_from([0.0, 1.0, 1e4, 1e8]))
def test_the_spectrum_is_that_of_the_rows(seed, sizes, shift):
    rows = torch.randn(sum(sizes), 5, generator=fresh(seed), dtype=torch.float64) + shift
    first, *rest = (Moments.of(piece) for piece in rows.split(sizes))
    total = sum(rest, start=first)
    assert meet(total.spectrum(centred=False), spectrum(rows, route="exact"))
    exact = rows - rows.mean(0)
    assert meet(total.spectrum(centred=True), spectrum(exact, route="exact"))
    assert total.spectrum(centred=True).shape == (len(rows), 5)
    assert len(total.spectrum(centred=True).sigma) == min(len(rows), 5)


@pytest.mark.parametrize("case", MATRICES)
def test_the_spectrum_of_the_zoo(case):
    A = MATRICES[case]
    moments = Moments.of(A)
    assert meet(moments.spectrum(centred=False), spectrum(A, route="exact"))
    halves = [Moments.of(half) for half in A.chunk(2)]
    total = sum(halves[1:], start=halves[0])
    assert meet(total.spectrum(centred=False), spectrum(A, route="exact"))
    centred = A.double() - A.double().mean(0)
    assert meet(moments.spectrum(centred=True), spectrum(centred, route="exact"))


def test_by_hand():
    m = Moments.of(torch.tensor([[1.0, 0.0], [3.0, 0.0]]))
    assert m.mean.tolist() == [2, 0]
    assert m.scatter.tolist() == [[2, 0], [0, 0]]
    assert m.spectrum(centred=False).sigma[0].item() == pytest.approx(10**0.5)
    assert m.spectrum(centred=True).sigma[0].item() == pytest.approx(2**0.5)
    assert m.spectrum(centred=True).how == "moments(centred=True)"
    assert m.scale == 1


def test_a_large_mean_costs_nothing():
    rows = torch.randn(500, 3, generator=fresh(), dtype=torch.float64)
    parts = [Moments.of(part + 1e6) for part in rows.split(50)]
    s = sum(parts[1:], start=parts[0]).spectrum(centred=True)
    true = spectrum(rows - rows.mean(0), route="exact")
    torch.testing.assert_close(s.sigma, true.sigma, rtol=1e-9, atol=0)
    assert meet(s, true)
    assert ((s.high - s.low) / s.sigma < 1e-4).all()


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_extreme_rows_keep_their_spectrum(scale):
    rows = scale * torch.randn(40, 4, generator=fresh(), dtype=torch.float64)
    total = Moments.of(rows[:10]) + Moments.of(rows[10:])
    assert meet(total.spectrum(centred=False), spectrum(rows, route="exact"))
    assert total.scatter.isfinite().all()
    mixed = Moments.of(rows[:10]) + Moments.of(torch.ones(3, 4)) + Moments.of(rows[10:])
    stacked = torch.cat([rows, torch.ones(3, 4).double()])
    assert meet(mixed.spectrum(centred=False), spectrum(stacked, route="exact"))


def test_order_does_not_matter():
    a, b, c = (Moments.of(torch.randn(n, 3, generator=fresh(n))) for n in (4, 9, 1))
    one, other = (a + b) + c, c + (b + a)
    torch.testing.assert_close(one.scatter, other.scatter)
    torch.testing.assert_close(one.mean, other.mean)


def test_wider_with_more_pieces():
    rows = torch.ones(2000, 2, dtype=torch.float64)
    whole = Moments.of(rows).spectrum(centred=False)
    parts = [Moments.of(piece) for piece in rows.split(4)]
    total = sum(parts[1:], start=parts[0]).spectrum(centred=False)
    assert total.high[-1] > 1.2 * whole.high[-1] > 0
    assert meet(whole, total)
