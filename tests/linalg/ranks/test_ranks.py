import math

import pytest
import torch
from hypothesis import given, strategies as st
from zoo import MATRICES, fresh

from sigmascope.core.records import Spectrum
from sigmascope.linalg import (
    effective_rank,
    energy_rank,
    matrix_rank,
    participation_ratio,
    soft_rank,
    spectral_entropy,
    stable_rank,
)
from sigmascope.linalg.krylov import Operator
from sigmascope.linalg.spectra import spectrum

RATIOS = [participation_ratio, stable_rank, effective_rank]
NONZERO = [case for case in MATRICES if not case.startswith("zero")]
RANKS = {
    "rank one": 1,
    "constant": 1,
    "identity": 16,
    "nilpotent": 11,
    "duplicated rows": 6,
    "duplicated columns": 3,
    "dead columns": 8,
    "zero": 0,
    "zero one by one": 0,
    "integers": 2,
    "float64 over 400 decades": 1,
    "rank one in float32": 1,
    "subnormal": 1,
    "tiny": 8,
}


def told(*sigma: float, shape: tuple[int, int] | None = None, gap: float = 0.0) -> Spectrum:
    values = torch.tensor(sigma, dtype=torch.float64)
    n = len(sigma)
    return Spectrum(values, shape or (n, n), "told", (values - gap).clamp_min(0), values + gap)


@pytest.mark.parametrize("functional", RATIOS)
@pytest.mark.parametrize("case", NONZERO)
def test_ratios_of_both_routes_meet_and_lie_between_one_and_the_rank(case, functional):
    A = MATRICES[case]
    gram, exact = functional(spectrum(A, route="gram")), functional(spectrum(A, route="exact"))
    assert max(gram.low, exact.low) <= min(gram.high, exact.high)
    assert 1 <= exact.low <= exact.value <= exact.high <= min(A.shape)
    if functional is not effective_rank:
        # values at rounding level carry no energy, but erank counts them (bounded below)
        assert exact.value <= matrix_rank(spectrum(A)).value * (1 + 1e-9) + 1e-6
    assert exact.high - exact.low < 1e-6


@pytest.mark.parametrize("functional", RATIOS)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_ratios_count_equal_values(functional, k):
    s = told(*[3.0] * k, *[0.0] * 3, shape=(k + 3, 20))
    assert functional(s).value == pytest.approx(k, rel=1e-14)


def test_ratios_by_hand():
    s = told(2.0, 1.0, 1.0)
    assert participation_ratio(s).value == pytest.approx(36 / 18)
    assert stable_rank(s).value == pytest.approx(6 / 4)
    assert effective_rank(s).value == pytest.approx(2**1.5)
    assert participation_ratio(told(1.0, 0.5)).value == pytest.approx(1.25**2 / 1.0625)


@pytest.mark.parametrize("functional", [*RATIOS, matrix_rank])
@pytest.mark.parametrize("c", [1e-300, 1e-20, 7.0, 1e20, 1e300])
def test_scale_invariance(functional, c):
    values = torch.tensor([3.0, 2.0, 0.1, 1e-9], dtype=torch.float64)
    one, other = (functional(Spectrum(x * values, (4, 4), "told")) for x in (1.0, c))
    assert other.value == pytest.approx(one.value, rel=1e-12)
    assert other.low == pytest.approx(one.low, rel=1e-12)


@pytest.mark.parametrize("functional", RATIOS)
@given(
    values=st.lists(st.floats(1e-3, 10), min_size=1, max_size=8),
    gap=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_intervals_hold_whatever_lies_in_the_box(functional, values, gap, seed):
    s = told(*sorted(values, reverse=True), gap=gap)
    estimate = functional(s)
    u = torch.rand(50, len(values), generator=fresh(seed), dtype=torch.float64)
    for truth in s.low + u.round() * (s.high - s.low):
        ordered = truth.sort(descending=True).values
        if ordered[0] > 0:
            inside = functional(Spectrum(ordered, s.shape, "told")).value
            assert estimate.low <= inside * (1 + 1e-12)
            assert inside <= estimate.high * (1 + 1e-12)


@pytest.mark.parametrize("functional", [*RATIOS, soft_rank, matrix_rank])
def test_a_wider_spectrum_claims_less(functional):
    widths = [functional(told(3.0, 1.3, 1.2, 0.3, gap=gap)) for gap in (0.0, 0.01, 1.4)]
    assert widths[0].high - widths[0].low <= widths[1].high - widths[1].low
    assert widths[1].high - widths[1].low < widths[2].high - widths[2].low


@pytest.mark.parametrize("case", RANKS)
@pytest.mark.parametrize("route", ["auto", "exact", "gram"])
def test_matrix_rank_of_the_zoo(case, route):
    e = matrix_rank(spectrum(MATRICES[case], route=route))
    assert e.low <= RANKS[case] <= e.high
    if route != "gram":
        assert e.low == e.value == e.high == RANKS[case]


def test_matrix_rank_has_the_threshold_of_the_paper():
    s = told(1.0, 5.1e-7, 4.9e-7, shape=(3, 5))
    assert matrix_rank(s).value == 2
    assert matrix_rank(s, rtol=1e-8).value == 3
    assert matrix_rank(s, rtol=0.9).value == 1
    assert matrix_rank(told(4.0, 2.0, 2.0), rtol=0.5).value == 1  # strictly above
    assert matrix_rank(told(1.0, 1e-300, 0.0), rtol=0).value == 2
    assert matrix_rank(told(1.0, shape=(1, 2 * 10**7))).value == 1


@pytest.mark.parametrize(
    ("values", "rtol", "ends"),
    [
        ((1.0, 0.5, 0.3), 0.5, (1, 1, 2)),
        ((1.0, 0.49), 0.53, (1, 1, 2)),  # 0.54 may exceed 0.53 * 0.95
        ((1.0, 0.58), 0.53, (1, 2, 2)),  # 0.53 may not exceed 0.53 * 1.05
    ],
)
def test_matrix_rank_says_when_it_cannot_tell(values, rtol, ends):
    e = matrix_rank(told(*values, gap=0.05), rtol=rtol)
    assert (e.low, e.value, e.high) == ends


def test_soft_rank_counts_squares_over_rows():
    s = told(4.0, 2.0, 1.0, shape=(4, 3))  # squares over 4 rows: 4, 1, 1/4
    assert [soft_rank(s, tau).value for tau in (5, 4, 1.1, 1, 0.5, 0.25, 0.2)] == [
        0,
        1,
        1,
        2,
        2,
        3,
        3,
    ]
    assert soft_rank(s).value == 2
    assert soft_rank(told(1e-170, 1e-180), 1e-300).value == 0
    assert soft_rank(told(1e170, 1e160), 1e300).value == 2


def test_soft_rank_of_whitened_rows_is_full_at_one():
    H = 32**0.5 * torch.linalg.qr(torch.randn(32, 9, generator=fresh(), dtype=torch.float64))[0]
    for route in ("exact", "gram"):
        e = soft_rank(spectrum(H, route=route), 1.0)
        assert e.value == e.high == 9
        assert e.low < 9


@given(seed=st.integers(0, 200), tau=st.floats(0.01, 1))
def test_lemma_1_of_daneshmand2020(seed, tau):
    H = torch.randn(12, 6, generator=fresh(seed), dtype=torch.float64)
    H = H / H.square().mean(0).sqrt()
    s = spectrum(H)
    r = participation_ratio(s)
    assert matrix_rank(s).value >= r.low
    assert soft_rank(s, tau).high >= (1 - tau) ** 2 * r.low


@pytest.mark.parametrize("case", NONZERO)
def test_stable_rank_of_a_matrix_and_of_its_spectrum_agree(case):
    A = MATRICES[case]
    direct, factorised = stable_rank(A), stable_rank(spectrum(A))
    assert max(direct.low, factorised.low) <= min(direct.high, factorised.high)
    assert direct.value == pytest.approx(factorised.value, rel=1e-9)


def test_risk_and_route_travel():
    s = Spectrum(torch.ones(2, dtype=torch.float64), (2, 2), "told", risk=0.125)
    for functional in (*RATIOS, soft_rank, matrix_rank):
        assert functional(s).risk == 0.125
        assert functional(s).how == "told"


def test_a_rule_that_reaches_far_is_not_certain():
    """Three million rows: footnote 2 calls zero what is below a third of the largest."""
    sigma = torch.linspace(1, 0.2, 32, dtype=torch.float64)
    tall = Spectrum(sigma, (3_200_000, 32), "exact")
    found = matrix_rank(tall)
    assert (found.value, found.low, found.high) == (int((sigma > 0.32).sum()), found.value, 32)
    assert "below 0.32 of the largest that rounding does not explain" in found.how
    noise = Spectrum(torch.tensor([1.0, 1e-5], dtype=torch.float64), (3_200_000, 2), "exact")
    assert matrix_rank(noise).high == 1
    stated = matrix_rank(tall, rtol=0.32)
    assert (stated.low, stated.high, stated.how) == (found.value, found.value, "exact")


def test_an_energy_rank_counts_directions_until_their_share_is_held():
    s = told(3.0, 1.0, 1.0, 0.0)
    assert [energy_rank(s, share).value for share in (0.5, 0.82, 0.9, 0.99)] == [1, 2, 2, 3]
    wide = energy_rank(told(3.0, 1.0, 1.0, gap=0.5), 0.85)
    assert (wide.low, wide.value, wide.high) == (1, 2, 3)


def test_a_spectral_entropy_is_one_of_equal_values_and_zero_of_one():
    assert spectral_entropy(told(2.0, 2.0, 2.0)).value == pytest.approx(1, abs=1e-12)
    assert spectral_entropy(told(2.0, 0.0, 0.0)).value == 0


def partial():
    return spectrum(Operator.of(torch.eye(9)), route="free", steps=2, generator=fresh())


ALL = "needs all 9 singular values, got the leading 2 from"
NO_ZERO = r"needs a non-zero matrix, got zeros of shape \(5, 3\)"
TAU, RTOL = "`tau` must be positive and finite", r"`rtol` must be in \[0, 1\)"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        *((lambda of=of: of(partial()), ALL) for of in (*RATIOS, soft_rank, matrix_rank)),
        *((lambda of=of: of(spectrum(MATRICES["zero"])), NO_ZERO) for of in RATIOS),
        (lambda: stable_rank(MATRICES["zero"]), "`stable_rank` needs a non-zero matrix"),
        *(
            (lambda tau=tau: soft_rank(told(1.0), tau), TAU)
            for tau in (0.0, -1.0, math.inf, math.nan)
        ),
        *(
            (lambda rtol=rtol: matrix_rank(told(1.0), rtol=rtol), RTOL)
            for rtol in (-0.1, 1.0, math.nan)
        ),
        (lambda: spectral_entropy(told(2.0, shape=(1, 4))), "two singular values.*leave it out"),
        (lambda: energy_rank(told(2.0, 1.0), 1.0), "between 0 and 1.*use `matrix_rank`"),
        (lambda: energy_rank(told(0.0, 0.0)), "zero"),
        (lambda: energy_rank(told(1.0, shape=(3, 4))), "needs all 3"),
    ],
)
def test_what_has_no_rank_or_entropy_is_refused(asked, words):
    with pytest.raises(ValueError, match=words):
        asked()
