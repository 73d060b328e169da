import math
from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given, strategies as st
from mpmath import exp, log, mpf, workdps

from sigmascope.core.records import Estimate, entrywise, largest
from sigmascope.linalg.spectra import spectrum


@pytest.mark.parametrize("numbers", [(2, 3, 4), (4, 2, 3), (math.nan, 0, 1), (0, math.nan, 1)])
def test_the_value_lies_in_its_interval_and_nan_is_no_number(numbers):
    with pytest.raises(ValueError, match="An estimate needs low <= value <= high"):
        Estimate(*map(float, numbers), how="told")


def test_exactly_has_no_width():
    assert Estimate.exactly(2.5) == Estimate(2.5, 2.5, 2.5, "exact", 0.0)


def test_rounded_widens_by_its_own_size():
    e = Estimate.rounded(-8.0, ulps=2)
    assert (e.low, e.high) == (-8 - 2**-48, -8 + 2**-48)
    assert Estimate.rounded(0.0, ulps=9).high == 0


def test_an_error_either_way_and_an_infinite_number():
    assert Estimate.within(2.0, 0.5) == Estimate(2.0, 1.5, 2.5, "exact")
    assert Estimate.within(math.inf, 1.0).low == math.inf


def test_products_multiply_ends_and_add_risks_and_routes():
    a, b = Estimate(2, 1, 3, "a", 0.01), Estimate(5, 4, 6, "b", 0.02)
    found = a * b
    assert (found.value, found.how, found.risk) == (10, "a, b", 0.03)
    assert found.low == pytest.approx(4, abs=1e-14)
    assert found.high == pytest.approx(18, abs=1e-14)
    assert (a * a).how == (2 * a).how == (a - 1).how == "a"


OPERATIONS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: a / b,
    "square": lambda a, b: a**2,
    "root": lambda a, b: abs(a) ** 0.5,
    "power": lambda a, b: (a**2) ** 0.3 * (b**2) ** -1.7,
    "logarithm": lambda a, b: log(a**2) if isinstance(a, mpf) else (a**2).log(),
    "exponential": lambda a, b: exp(a / 100) if isinstance(a, mpf) else (a / 100).exp(),
    "cancellation": lambda a, b: (a + b) * (a + b) - a * a - b * b - 2 * a * b,
}
NUMBERS = st.floats(-1e9, 1e9).filter(lambda x: abs(x) > 1e-9)


@pytest.mark.parametrize("name", OPERATIONS)
@given(a=NUMBERS, b=NUMBERS, gaps=st.tuples(*[st.floats(0, 1e-3)] * 2), at=st.floats(-1, 1))
def test_the_true_result_lies_in_the_interval(name, a, b, gaps, at):
    """Sixty digits, from any pair of numbers within the two intervals."""
    x, y = (Estimate.within(v, abs(v) * g) for v, g in zip((a, b), gaps, strict=True))
    with workdps(60):
        true = OPERATIONS[name](mpf(a) + at * mpf(x.high - a), mpf(b) - at * mpf(b - y.low))
        found = OPERATIONS[name](x, y)
        assert mpf(found.low) <= true <= mpf(found.high), (found, true)


@given(st.floats(-300, 300), st.integers(-9, 9), st.integers(1, 9))
def test_a_fraction_is_taken_as_it_is(decades, over, under):
    """Two thirds of 1e77: the rounding of 2/3 would weigh more than that of the power."""
    power = Fraction(over, under)
    assume(abs(decades * power) < 300)
    x = 10.0**decades
    found = Estimate.exactly(x) ** power
    with workdps(60):
        true = mpf(x) ** (mpf(over) / under)
        assert mpf(found.low) <= true <= mpf(found.high)
        assert found.high - found.low <= 1e-12 * found.value


@given(a=NUMBERS, b=NUMBERS)
def test_exact_operands_leave_a_few_roundings(a, b):
    """An interval that is right because it is wide would prove nothing."""
    for name in ("sum", "product", "quotient", "square", "power"):
        found = OPERATIONS[name](Estimate.exactly(a), Estimate.exactly(b))
        size = abs(a) + abs(b) if name == "sum" else abs(found.value)
        assert found.high - found.low <= 64 * 2.0**-52 * size


def test_what_overflows_is_large_and_not_known_to_be_infinite():
    huge = Estimate.exactly(800.0).exp()
    assert huge.value == huge.high == math.inf
    assert huge.low == largest(huge, Estimate.exactly(1.0)).low == math.nextafter(math.inf, 0)
    apart = huge - huge
    assert (apart.low, apart.high) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (0.0, 1.0, (1.0, math.inf)),
        (-1.0, 0.0, (-math.inf, -1.0)),
        (-1.0, 1.0, (-math.inf, math.inf)),
    ],
)
def test_dividing_by_what_may_be_zero(low, high, ends):
    found = 1.0 / Estimate(high if high else low, low, high, "x")
    assert (found.low, found.high) == pytest.approx(ends)
    assert Estimate.exactly(0.0).log().high == -math.nextafter(math.inf, 0)


def test_cut_off_below_and_above():
    e = Estimate(0.5, -1.0, 2.0, "x")
    assert (e.at_least(0).low, e.at_most(1).high, e.at_least(0).value) == (0, 1, 0.5)
    assert [Estimate(v, v - 1, v + 1, "x").positive for v in (2.0, 0.0, -2.0)] == [
        True,
        None,
        False,
    ]
    assert Estimate(-3, -4, 2, "x") ** 2 == Estimate(9, 0, 16 + 4 * math.ulp(16), "x")
    assert abs(Estimate(-3, -4, 2, "x")) == Estimate(3, 0, 4, "x")
    assert abs(Estimate(-3, -4, -2, "x")) == Estimate(3, 2, 4, "x")


@given(seed=st.integers(0, 10**6), decades=st.floats(0, 12))
def test_sums_of_squares_hold_the_exact_sum(seed, decades):
    draw = torch.randn(300, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    A = draw * torch.logspace(0, decades, 300, dtype=torch.float64)
    found, true = Estimate.sum_of_squares(A), sum(Fraction(a) ** 2 for a in A.tolist())
    assert Fraction(found.low) <= true <= Fraction(found.high)
    assert Estimate.sum_of_squares(torch.full((2,), 1e-200).double()).high > 0


def test_one_estimate_for_each_singular_value():
    s = spectrum(torch.diag(torch.tensor([3.0, 1.0])))
    found = entrywise(s.sigma, s.low, s.high, how=s.how)
    assert [round(e.value, 9) for e in found] == [3, 1]
    assert all(e.low <= e.value <= e.high and e.how == s.how for e in found)


def test_powers_of_zero():
    zero = Estimate.exactly(0.0)
    assert [(zero**p).value for p in (2, 0, -1)] == [0.0, 1.0, math.inf]
