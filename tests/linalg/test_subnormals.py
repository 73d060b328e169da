"""What numbers of any size are worth: below 1e-308 a format has few digits, and intervals say so.

Every route to a singular value, and every number that is made of them, is asked of matrices of the
same shape at every scale; the truth is that of the matrix over a power of two, where it has all its
digits.
"""

import math

import pytest
import torch
from hypothesis import given, strategies as st
from zoo import fresh

from sigmascope import linalg
from sigmascope.core.records import Estimate
from sigmascope.linalg.krylov import Operator

N = 6


def within(e, true, power):
    """Whether an interval holds `true 2^power`, next to rounding of the truth itself."""
    low, high = math.ldexp(e.low, -power), math.ldexp(e.high, -power)
    return low <= true * (1 + 1e-12) and high >= true * (1 - 1e-12)


def entry(s, i):
    return Estimate(s.sigma[i].item(), s.low[i].item(), s.high[i].item(), s.how, s.risk)


NORMS = {
    "spectral norm": (lambda A: linalg.spectral_norm(A), lambda s: s[0]),
    "free": (
        lambda A: linalg.spectral_norm(A, route="free", steps=3, generator=fresh(0)),
        lambda s: s[0],
    ),
    "leading": (
        lambda A: entry(linalg.krylov.leading(A, block=2, steps=2, generator=fresh(0)).spectrum, 1),
        lambda s: s[1],
    ),
    "free operator": (
        lambda A: linalg.spectral_norm(Operator.of(A), route="free", steps=3, generator=fresh(0)),
        lambda s: s[0],
    ),
    "leading of an operator": (
        lambda A: entry(
            linalg.krylov.leading(Operator.of(A), block=2, steps=2, generator=fresh(0)).spectrum, 1
        ),
        lambda s: s[1],
    ),
    "all of an operator": (
        lambda A: entry(
            linalg.krylov.leading(Operator.of(A), block=N, steps=1, generator=fresh(0)).spectrum, 0
        ),
        lambda s: s[0],
    ),
    "Frobenius": (lambda A: linalg.frobenius_norm(A), lambda s: s.norm()),
    "Frobenius, sampled": (
        lambda A: linalg.frobenius_norm(Operator.of(A), samples=3, generator=fresh(0)),
        lambda s: s.norm(),
    ),
    "Frobenius, summed": (
        lambda A: linalg.frobenius_norm(Operator.of(A), samples=N),
        lambda s: s.norm(),
    ),
    "Frobenius, of values": (
        lambda A: linalg.frobenius_norm(linalg.spectra.spectrum(A)),
        lambda s: s.norm(),
    ),
    "nuclear": (
        lambda A: linalg.schatten_norm(linalg.spectra.spectrum(A), 1),
        lambda s: s.sum(),
    ),
    "Schatten 4": (
        lambda A: linalg.schatten_norm(linalg.spectra.spectrum(A, route="gram"), 4),
        lambda s: s.pow(4).sum().pow(0.25),
    ),
}
RATIOS = {
    "condition number": (lambda s: linalg.condition_number(s, rtol=0), lambda s: s[0] / s[-1]),
    "stable rank": (lambda s: linalg.stable_rank(s), lambda s: s.square().sum() / s[0] ** 2),
    "participation ratio": (
        lambda s: linalg.participation_ratio(s),
        lambda s: s.square().sum() ** 2 / s.pow(4).sum(),
    ),
    "effective rank": (
        lambda s: linalg.effective_rank(s),
        lambda s: torch.special.entr(s / s.sum()).sum().exp(),
    ),
    "matrix rank": (lambda s: linalg.matrix_rank(s, rtol=0), lambda s: torch.tensor(float(len(s)))),
}
SCALES = st.one_of(
    st.tuples(st.just(torch.float64), st.integers(-1072, -990)),
    st.tuples(st.just(torch.float64), st.sampled_from([-700, -511, 0, 511, 1000])),
    st.tuples(st.just(torch.float32), st.integers(-148, -100)),
    st.tuples(st.just(torch.bfloat16), st.integers(-132, -100)),
    st.tuples(st.just(torch.float16), st.integers(-23, -8)),
)
SHAPES = st.sampled_from([(6, 6), (6, 9), (9, 6)])


def drawn(kind, power, shape, seed):
    """A matrix near `2^power`, and itself over that in double precision, with all its digits."""
    A = torch.randn(*shape, generator=fresh(seed), dtype=torch.float64)
    half = power // 2
    stored = (A.mul(2.0**half).mul(2.0 ** (power - half))).to(kind)
    wide = stored.double().mul(2.0**-half).mul(2.0 ** (half - power))
    return stored, wide


@given(SCALES, SHAPES, st.integers(0, 20), st.sampled_from(["auto", "exact", "gram", "free"]))
def test_every_value_lies_in_its_interval_at_every_scale(scale, shape, seed, route):
    kind, power = scale
    A, wide = drawn(kind, power, shape, seed)
    true = torch.linalg.svdvals(wide)
    found = linalg.spectra.spectrum(A, route=route, generator=fresh(seed))
    assert all(within(entry(found, i), true[i].item(), power) for i in range(N))
    (other,) = linalg.spectra.spectra([A], route=route)
    assert all(within(entry(other, i), true[i].item(), power) for i in range(N))


@pytest.mark.parametrize("name", NORMS)
@given(SCALES, SHAPES, st.integers(0, 20))
def test_every_norm_lies_in_its_interval_at_every_scale(name, scale, shape, seed):
    kind, power = scale
    if "operator" in name or "sampled" in name or "summed" in name:
        kind = torch.float64 if kind == torch.float64 else torch.float32
    of, truth = NORMS[name]
    A, wide = drawn(kind, power, shape, seed)
    s = torch.linalg.svdvals(wide)
    if float(s[0]):
        assert within(of(A), float(truth(s)), power)


@pytest.mark.parametrize("name", RATIOS)
@given(SCALES, SHAPES, st.integers(0, 20), st.sampled_from(["auto", "exact", "gram"]))
def test_what_has_no_unit_is_told_at_every_scale(name, scale, shape, seed, route):
    kind, power = scale
    of, truth = RATIOS[name]
    A, wide = drawn(kind, power, shape, seed)
    s = torch.linalg.svdvals(wide)
    if float(s[-1]) > 1e-9 * float(s[0]):
        assert within(of(linalg.spectra.spectrum(A, route=route)), float(truth(s)), 0)


@given(SCALES, st.integers(0, 20))
def test_sums_along_the_diagonal_and_eigenvalues(scale, seed):
    kind, power = scale
    A, wide = drawn(kind, power, (N, N), seed)
    A, wide = (A + A.mT) / 2, (wide + wide.mT) / 2
    wide = A.double().mul(2.0 ** -(power // 2)).mul(2.0 ** (power // 2 - power))
    true = torch.linalg.eigvalsh(wide)
    signed = lambda e, t: (
        math.ldexp(e.low, -power) <= t + 1e-12 and math.ldexp(e.high, -power) >= t - 1e-12
    )
    assert signed(linalg.krylov.trace(A), wide.diagonal().sum().item())
    ends = linalg.krylov.extreme_eigenvalues(A, count=2)
    assert signed(ends.top[0], true[-1].item())
    assert signed(ends.bottom[0], true[0].item())
    free = linalg.krylov.extreme_eigenvalues(Operator.of(A), steps=3, generator=fresh(seed))
    assert signed(free.top[0], true[-1].item())
    drawn_trace = linalg.krylov.trace(Operator.of(A), samples=4, generator=fresh(seed))
    assert signed(drawn_trace, wide.diagonal().sum().item())


@given(st.integers(-1072, 0), st.integers(1, 30), st.integers(0, 50))
def test_a_number_known_up_to_roundings_is_no_surer_where_it_is_subnormal(power, ulps, seed):
    true = 1 + torch.rand((), generator=fresh(seed), dtype=torch.float64).item()
    e = Estimate.rounded(math.ldexp(true, power), ulps=ulps)
    assert math.ldexp(e.low, -power) <= true <= math.ldexp(e.high, -power)
    assert e.low >= 0
