import math

import pytest
import torch
from hypothesis import example, given, strategies as st
from zoo import MATRICES, fresh

from sigmascope.core.records import Estimate
from sigmascope.linalg.krylov import leading
from sigmascope.linalg.random_matrix import RandomSigns, has_spikes, noise
from sigmascope.linalg.spectra import spectrum
from tests.linalg.random_matrix.planted import LAWS, of, planted

SIZES = [(8, 8), (8, 40), (30, 30), (64, 24), (64, 64)]


def alarms(law, sizes, draws):
    """How many matrices of pure noise had something flagged, and of how many."""
    found = [
        of(A, seed).spikes.value > 0
        for m, n in sizes
        for seed in range(draws)
        if (A := LAWS[law](fresh(7919 * seed + m * n), m, n)).any()
    ]
    return sum(found), len(found)


@pytest.mark.parametrize("law", LAWS)
def test_pure_noise_is_silent(law):
    flagged, drawn = alarms(law, SIZES, 20)
    assert drawn > 90
    assert flagged <= 1


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_pure_noise_is_silent_in_many_draws(law):
    flagged, drawn = alarms(law, [*SIZES, (100, 30), (64, 256), (200, 120), (400, 400)], 200)
    assert flagged <= 0.01 * drawn


@pytest.mark.parametrize("law", LAWS)
def test_one_direction_is_found_and_counted_once(law):
    A = LAWS[law](fresh(3), 120, 90)
    found = of(planted(A, [2.0]), 1)
    assert found.spikes.value == 1
    assert 0.02 < found.energy.value < 0.7


@pytest.mark.parametrize("seed", range(5))
def test_a_direction_a_third_beyond_the_edge_is_found(seed):
    A = torch.randn(200, 150, generator=fresh(seed), dtype=torch.float64)
    edge = of(A).edge.value
    U, sigma, Vt = torch.linalg.svd(A, full_matrices=False)
    sigma[0] = 1.3 * edge
    assert of(U * sigma @ Vt, seed).spikes.value == 1


@pytest.mark.parametrize("law", ["normal", "t(5)", "sparse", "some large columns"])
@pytest.mark.parametrize("seed", range(2))
def test_several_directions_are_counted_exactly(law, seed):
    A = LAWS[law](fresh(seed), 200, 160)
    found = of(planted(A, [9.0, 6.0, 4.5, 3.5, 2.5], seed), seed)
    assert found.spikes.value == 5
    assert found.whole


def test_a_spike_does_not_make_spikes_of_large_columns():
    A = LAWS["some large columns"](fresh(), 64, 256)
    counts = [of(planted(A, [5.0], seed), seed).spikes.value for seed in range(6)]
    assert counts == [1] * 6


def test_without_signs_large_columns_would_be_spikes():
    A = LAWS["some large columns"](fresh(), 64, 256)
    assert of(A).spikes.value == 0
    D = A.double()
    energy = Estimate.sum_of_squares(D)
    even = RandomSigns(
        A, rms=float(D.square().mean().sqrt()), longest=(0.0, 0.0), largest=0.0, generator=fresh()
    )
    assert noise(spectrum(A), energy=energy, signs=even).spikes.value > 3


def test_the_level_is_that_of_the_noise_under_the_spikes():
    A = 0.03 * torch.randn(300, 200, generator=fresh(), dtype=torch.float64)
    for B in (A, planted(A, [50.0, 20.0])):
        found = of(B)
        assert found.level.value == pytest.approx(0.03, rel=0.02)
        edge = 0.03 * (math.sqrt(300) + math.sqrt(200))
        assert found.edge.value == pytest.approx(edge, rel=0.05)
        assert found.distance.value < 0.03
    flat = torch.linalg.qr(A)[0]
    assert of(flat).distance.value > 0.3


def test_small_spikes_are_found_beside_enormous_ones():
    A = torch.randn(200, 150, generator=fresh(), dtype=torch.float64)
    assert of(planted(A, [500.0, 300.0, 2.0, 1.5])).spikes.value == 4


@pytest.mark.parametrize("law", ["normal", "rows of many scales"])
@pytest.mark.parametrize("power", [-60, 30])
def test_a_power_of_two_changes_the_unit_alone(law, power):
    A = planted(LAWS[law](fresh(), 60, 50), [3.0]).float()
    one, other = of(A), of(A * 2.0**power)
    assert one.spikes == other.spikes
    assert other.level.value == pytest.approx(one.level.value * 2.0**power, rel=1e-12)
    assert other.edge.value == pytest.approx(one.edge.value * 2.0**power, rel=1e-5)


@pytest.mark.parametrize("law", ["normal", "uniform", "float8"])
def test_the_transpose_has_the_same_noise(law):
    A = planted(LAWS[law](fresh(), 80, 50), [3.0, 2.0])
    one, other = of(A), of(A.mT)
    assert one.spikes.value == other.spikes.value == 2
    assert one.level.value == pytest.approx(other.level.value, rel=1e-12)
    assert one.distance.value == pytest.approx(other.distance.value, abs=1e-9)


@pytest.mark.parametrize("strengths", [[], [4.0], [6.0, 5.0, 4.0, 3.0]])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_leading_values_give_intervals_that_hold_the_full_answer(strengths, steps):
    A = torch.randn(400, 300, generator=fresh(), dtype=torch.float64)
    B = planted(A, strengths) if strengths else A
    full, part = of(B), of(B, steps=steps)
    assert part.distance is None
    assert part.spikes.low <= full.spikes.value <= part.spikes.high
    assert part.level.low <= full.level.value <= part.level.high or (
        part.spikes.value != full.spikes.value
    )
    if steps == 4:
        assert part.spikes.value == full.spikes.value == len(strengths)
        assert part.energy.low <= full.energy.value <= part.energy.high


@pytest.mark.parametrize("rank", [1, 3, 9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("steps", [None, 12])
def test_a_matrix_of_low_rank_has_its_rank_of_spikes(rank, dtype, steps):
    g = fresh(rank)
    A = torch.randn(260, rank, generator=g).double() @ torch.randn(rank, 230, generator=g).double()
    found = of(A.to(dtype), steps=steps)
    assert found.spikes.value == rank
    assert found.energy.low <= 1
    assert found.energy.value == pytest.approx(1, abs=torch.finfo(dtype).eps + 1e-9)


@pytest.mark.parametrize("rank", [9, 40, 64])  # of one the rounding has a structure of its own
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 3e-4])
def test_what_rounding_leaves_of_a_product_is_its_noise(rank, dtype, scale):
    g = fresh(rank)
    left, right = torch.randn(600, rank, generator=g), torch.randn(rank, 500, generator=g)
    A = (left @ right * scale).to(dtype)
    full, part = of(A.float()), of(A.float(), steps=12)
    assert part.spikes.value == rank
    # rounding is nearly noise, with a few directions: how many, the processor's sums decide
    assert rank <= full.spikes.value <= rank + max(3, rank / 10)
    assert part.level.low <= full.level.value <= part.level.high * 1.001
    unit = {torch.bfloat16: 2.0**-9, torch.float32: 2.0**-24}[dtype]
    rms = float(A.double().square().mean().sqrt())
    assert part.level.high < 2 * unit * rms or dtype == torch.float32  # products round, too


def small_or_zero(A):
    return min(A.shape) < 8 or not A.any()


HOSTILE = {
    **{name: A for name, A in MATRICES.items() if not small_or_zero(A) and "e200" not in name},
    "one huge entry": torch.randn(40, 30, generator=fresh()).index_fill(0, torch.tensor([3]), 1e6),
    "half zero": torch.randn(40, 30, generator=fresh()) * (torch.arange(30) < 15),
    "one entry": torch.eye(20) * (torch.arange(20) == 4),
    "ones": torch.ones(30, 20),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("steps", [None, 2, 12])
def test_hostile_matrices_get_finite_numbers_in_their_range(case, steps):
    A = HOSTILE[case]
    found = of(A, steps=steps)
    for estimate in (found.level, found.edge, found.baseline, found.spikes, found.energy):
        assert math.isfinite(estimate.value)
        assert estimate.low <= estimate.value <= estimate.high
    assert found.spikes.high <= min(A.shape)
    assert 0 <= found.energy.low <= found.energy.high <= 1
    if found.distance is not None:
        assert 0 <= found.distance.low <= found.distance.high <= 1


@given(st.integers(8, 40), st.integers(8, 40), st.integers(0, 10**6), st.floats(0, 8))
@example(100, 8, 0, 8.0)
@example(40, 40, 0, 8.0)
def test_no_more_than_half_of_the_values_stick_out(m, n, seed, tail):
    """Of values that fall by powers of ten, along directions that are spread evenly."""
    g, r = fresh(seed), min(m, n)
    U, V = (torch.linalg.qr(torch.randn(k, r, generator=g).double())[0] for k in (m, n))
    A = U * 10.0 ** (-tail * torch.arange(r) / r) @ V.mT
    found = of(A, seed)
    assert found.spikes.value <= r // 2
    assert found.whole == (found.spikes.value < r // 2)
    if found.spikes.value and found.whole:
        s = spectrum(A).sigma
        k = int(found.spikes.value)
        assert found.edge.value >= s[k]


def test_what_has_no_bulk_is_refused():
    for A in (torch.randn(7, 50, generator=fresh()), torch.randn(50, 7, generator=fresh())):
        with pytest.raises(ValueError, match="at least 8 rows and columns was expected, got"):
            of(A)
    zero = torch.zeros(9, 9)
    energy, signs = Estimate.exactly(0.0), RandomSigns(zero, rms=1.0, generator=fresh())
    with pytest.raises(ValueError, match="with squared norm 0: it has no bulk of noise"):
        noise(spectrum(zero), energy=energy, signs=signs)


def test_values_of_a_run_that_is_not_finished_are_named():
    A = planted(torch.randn(300, 250, generator=fresh()), [5.0])
    energy = Estimate.sum_of_squares(A)
    s = leading(A, count=1, steps=6, generator=fresh()).spectrum
    signs = RandomSigns(A, rms=math.sqrt(energy.value / A.numel()), generator=fresh())
    assert noise(s, energy=energy, signs=signs).spikes.how.endswith("of 1 leading values all")


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_level_of_a_whole_spectrum_is_known_to_rounding(scale):
    level = of(scale * torch.randn(40, 30, generator=fresh(3), dtype=torch.float64)).level
    assert level.low <= level.value <= level.high
    assert level.high - level.low < 1e-9 * level.value


@pytest.mark.parametrize("strengths", [[], [3.0], [9.0, 6.0, 4.5, 3.5, 2.5], [4.0] * 12])
@pytest.mark.parametrize("law", LAWS)
def test_whether_there_are_so_many_is_what_counting_them_says(law, strengths, monkeypatch):
    A = planted(LAWS[law](fresh(7), 90, 120), strengths) if strengths else LAWS[law](fresh(7), 9, 9)
    s, energy = spectrum(A, route="exact"), Estimate.sum_of_squares(A.double())
    draws = []
    draw = RandomSigns._draw
    monkeypatch.setattr(RandomSigns, "_draw", lambda self, n: draws.append(n) or draw(self, n))

    def signs():
        draws.clear()
        return RandomSigns(A, rms=math.sqrt(energy.value / A.numel()), generator=fresh(11))

    count, whole = noise(s, energy=energy, signs=signs()).spikes.value, len(draws)
    for k in (1, 2, 5, 6, 10, 13):
        assert has_spikes(s, k, energy=energy, signs=signs()) == (count >= k)
        assert len(draws) <= whole
