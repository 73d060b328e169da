"""Work is counted where somebody asks, and by the shapes of what is solved."""

import pytest
import torch

from sigmascope.linalg.spectra import counted, spectra, spectrum

GRAM, EXACT = 40 * 10**2 + 4 / 3 * 10**3, 4 * 40 * 10**2 - 4 / 3 * 10**3


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("route", "each"), [("gram", GRAM), ("exact", EXACT)])
def test_one_and_many_count_the_same(route, each, turned):
    A = torch.randn(3, 40, 10)
    A = A.mT if turned else A
    with counted() as work:
        spectrum(A[0], route=route)
        assert work.operations == pytest.approx(each)
        spectra(A, route=route)
    assert work.operations == pytest.approx(4 * each)


def test_blocks_nest_and_nobody_is_charged_outside():
    A = torch.randn(40, 10)
    with counted() as outer:
        spectrum(A, route="gram")
        with counted() as inner:
            spectrum(A, route="gram")
        assert inner.operations == pytest.approx(GRAM)
    spectrum(A)
    assert outer.operations == pytest.approx(2 * GRAM)


def test_an_error_inside_is_counted_up_to_there_and_ends_the_block():
    def fail():
        with counted():
            spectrum(torch.randn(40, 10), route="gram")
            spectrum(torch.full((3, 3), float("nan")))

    with counted() as outer:
        with pytest.raises(ValueError, match="finite"):
            fail()
        spectrum(torch.randn(40, 10), route="gram")
    assert outer.operations == pytest.approx(2 * GRAM)
