from dataclasses import replace

import pytest
import torch
from zoo import fresh

from sigmascope.linalg.spectra import spectrum
from sigmascope.quantities import quantity
from sigmascope.scanning.against import measure_product
from sigmascope.scanning.matrices import Cut
from sigmascope.scanning.planning import Product
from tests.scanning.made import EVERY, task
from tests.scanning.measuring.test_measuring import PAIRS, QUIET, dense


class Ready(Cut):
    """A cut that is read already."""

    def __init__(self, A):
        object.__setattr__(self, "A", A)

    def read(self):
        return self.A


def measured(B, A, scaling=1.0, **more):
    like = torch.zeros(B.shape[0], A.shape[1], dtype=B.dtype)
    return measure_product(task(like, **more), Product(Ready(B), Ready(A), scaling))


def factors(m, r, n, dtype=torch.float32, seed=0):
    g = fresh(seed)
    return torch.randn(m, r, generator=g).to(dtype), torch.randn(r, n, generator=g).to(dtype)


CASES = {
    "usual": factors(60, 8, 40),
    "half precision": factors(60, 4, 40, torch.bfloat16),
    "one direction": factors(50, 1, 40),
    "inner side larger": factors(6, 9, 5),
    "a row": factors(1, 3, 20),
    "graded": (factors(60, 8, 40)[0] * torch.logspace(0, -6, 8), factors(60, 8, 40)[1]),
    "dependent factors": (torch.ones(30, 4), factors(30, 4, 20)[1]),
    "tiny": tuple(1e-30 * M for M in factors(30, 4, 20)),
    "float64 at 1e200": tuple(1e200 * M.double() for M in factors(30, 4, 20)),
    "of two scales": tuple(
        size * M.double() for size, M in zip((1e200, 1e-250), factors(30, 4, 20), strict=True)
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scaling", [2.0, -0.25])
def test_every_number_holds_that_of_the_product(case, scaling):
    B, A = CASES[case]
    found = measured(B, A, scaling)
    seen = {r.quantity: r.estimate for r in found.readings}
    if case == "float64 at 1e200":  # the product is beyond float64
        assert seen["spectral norm"].value == float("inf")
        B, A = B / 1e200, A / 1e200
        seen = {k: v for k, v in seen.items() if not quantity(k).unit}
    P = scaling * (B.double() @ A.double())
    for name, value in dense(P).items():
        if name in seen and name != "participation ratio":
            slack = 1e-12 * abs(value)
            assert seen[name].low - slack <= value <= seen[name].high + slack, name
            q = quantity(name)
            assert q.least <= seen[name].low <= seen[name].high <= q.most
    if case != "float64 at 1e200":
        s, exact = found.spectrum.spectrum, spectrum(P, route="exact")
        assert s.complete
        assert (s.low <= exact.high).all()
        assert (exact.low <= s.high + exact.high[0] * 1e-15).all()


def test_values_behind_the_inner_side_are_exactly_zero():
    s = measured(*factors(60, 8, 40)).spectrum.spectrum
    assert (s.sigma[:8] > 0).all()
    assert s.high[8:].eq(0).all()
    assert s.sigma.shape == (40,)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_missing_without_a_word(case):
    found = measured(*CASES[case])
    said = {w for s in found.skipped for w in s.what.split(", ")}
    assert {r.quantity for r in found.readings} | (said - QUIET) == EVERY - PAIRS - QUIET


def test_a_product_that_is_zero_says_so():
    B, A = factors(20, 4, 10)
    for zero in (measured(0 * B, A), measured(B, 0 * A), measured(B, A, 0.0)):
        assert {r.quantity: r.estimate.value for r in zero.readings} == {
            "spectral norm": 0,
            "Frobenius norm": 0,
        }
        assert [s.why for s in zero.skipped] == ["it is exactly zero, as before training"]


def test_factors_that_are_not_finite_are_counted():
    B, A = factors(20, 4, 10)
    B[0, 0], A[1, 1], A[2, 2] = float("nan"), float("inf"), -float("inf")
    found = measured(B, A)
    (only,) = found.readings
    assert (only.quantity, only.estimate.value) == ("non-finite entries", 3)
    assert [s.why for s in found.skipped] == ["its factors are not finite"]
    assert found.spectrum is None


def test_what_is_not_asked_for_is_not_there():
    found = measured(*factors(20, 4, 10), wanted=frozenset({"stable rank"}), spectra=False)
    assert [r.quantity for r in found.readings] == ["stable rank"]
    assert found.spectrum is None
    assert found.sketch is None
    assert replace(found, skipped=()).skipped == ()
