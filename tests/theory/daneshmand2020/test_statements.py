"""What the paper states beside the theorems of the catalogue, on instances that are gone through to
the end; and that each fails where a condition is dropped.

Samples are columns here, as in the paper; rows of a state have norm one, so that `M = H H'`.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest
import torch
from hypothesis import given, strategies as st
from torch.nn import functional as F

from sigmascope.linalg import matrix_rank, soft_rank
from sigmascope.linalg.spectra import Spectrum
from sigmascope.theory.daneshmand2020 import drift, drift_of_spectrum
from sigmascope.theory.random_chains import BatchNormChain, LinearChain
from tests.theory.daneshmand2020.enumerated import (
    all_signs,
    all_weights,
    correlation,
    moments,
    next_state,
    root,
)
from tests.theory.daneshmand2020.told import PART

EYE = torch.eye(2, dtype=torch.float64)


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def normalised(H):
    return H / H.norm(dim=-1, keepdim=True)


# ------------------------------------------------------------------------------
# What normalisation makes of M, and what the two ranks are to each other.


@given(st.integers(0, 2**32), st.integers(2, 9), st.sampled_from([0.2, 1.0, math.inf]))
def test_a_normalised_layer_has_a_unit_diagonal_and_correlations_of_at_most_one(seed, width, gamma):
    chain = BatchNormChain(width, gamma, generator=torch.Generator().manual_seed(seed))
    for _ in range(3):
        chain.step()
    M = moments(chain.state[0])
    assert float((M.diagonal() - 1).abs().max()) < 1e-14
    assert float(M.abs().max()) < 1 + 1e-14


def test_a_correlation_may_be_one_and_is_nothing_of_the_kind_before_normalisation():
    """Property p.2 is not strict: two rows may be multiples of each other."""
    H = torch.tensor([[3.0, 4.0], [6.0, 8.0]], dtype=torch.float64)
    assert torch.equal(moments(normalised(H)), torch.ones(2, 2, dtype=torch.float64))
    assert moments(H).tolist() == [[25.0, 50.0], [50.0, 100.0]]


@pytest.mark.parametrize("tau", [1e-300, 0.5, 1.0, 7.0])
def test_a_soft_rank_is_at_most_the_rank_where_its_threshold_is_above_zero(tau):
    """At zero every direction would count, those that are not there too."""
    for sigma in itertools.product((3.0, 1.0, 1e-3, 0.0), repeat=4):
        found = torch.tensor(sorted(sigma, reverse=True), dtype=torch.float64)
        s = Spectrum(found, (4, 4), "exact")
        rank = sum(x > 0 for x in sigma)
        counted = sum(x * x / 4 >= tau for x in sigma)
        assert soft_rank(s, tau).value == counted <= rank == matrix_rank(s).value
    with pytest.raises(ValueError, match="every direction counts"):
        soft_rank(s, 0.0)


def test_a_soft_rank_may_exceed_a_numerical_rank():
    """Where its threshold is below what the other one takes for zero."""
    s = Spectrum(torch.tensor([1.0, 1e-9, 0.0, 0.0], dtype=torch.float64), (4, 4), "exact")
    assert soft_rank(s, 1e-20).value == 2 > matrix_rank(s).value == 1


def test_whitening_in_the_place_of_normalisation_keeps_all_directions_that_there_are():
    """At every layer; normalisation alone leaves them unequal, and ever more so."""
    white = plain = gaussian(5, 9, seed=3)
    for layer, W in enumerate(gaussian(40, 5, 5, seed=4)):
        white, plain = (H + 0.5 * W @ H for H in (white, plain)) if layer else (white, plain)
        lam, U = torch.linalg.eigh(moments(white))
        white, plain = (U / lam.sqrt()) @ U.mT @ white, normalised(plain)
        assert torch.allclose(moments(white), torch.eye(5, dtype=torch.float64), atol=1e-9)
        scaled = torch.linalg.eigvalsh(moments(plain))
        assert scaled.min() < scaled.max() / (2 if layer < 20 else 1000)


# ------------------------------------------------------------------------------
# Invariant laws, and the signs of their rows.


def test_equal_means_do_not_make_a_law_invariant():
    """Definition 2 as printed is met by `±Id`, of which one layer makes something else."""
    law = torch.stack([EYE, -EYE])
    after = torch.cat([next_state(H, all_weights(2), 0.5) for H in law])
    assert float(law.mean(0).abs().max()) == 0
    assert float(after.mean(0).abs().max()) < 1e-16
    sizes = [float(moments(H).square().sum((1, 2)).mean()) for H in (law, after)]
    assert sizes[0] == 2
    assert sizes[1] > 2.1


def counted(states):
    return Counter(tuple(H.flatten().tolist()) for H in states)


def test_an_invariant_law_has_the_mean_of_every_function_after_a_layer_that_it_had_before():
    """Eq. (38), by counting. The law has rank one, so there are others: the one from full rank.

    Each row of `s x'` keeps its sign with probability 3/4, independently of the other.
    """
    x = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    law = [s.outer(x) for s in all_signs(2)]
    after = [H for start in law for H in next_state(start, all_weights(2), 1.0)]
    assert counted(after) == Counter({k: 16 * v for k, v in counted(law).items()})
    part = [H for start in law[:1] for H in next_state(start, all_weights(2), 1.0)]
    assert counted(part) != Counter({k: 16 * v for k, v in counted(law[:1]).items()})


@pytest.mark.parametrize("gamma", [0.3, 1.7, math.inf])
@pytest.mark.parametrize("d", [2, 3])
def test_a_layer_of_symmetric_weights_commutes_with_signs(d, gamma):
    """Lemma 4: `S W S` goes through all weights that `W` does, and makes `S H₊` of `S H`."""
    H, W = normalised(gaussian(d, 4, seed=d)), all_weights(d)
    for s in all_signs(d):
        S = torch.diag(s)
        assert torch.equal(next_state(S @ H, S @ W @ S, gamma), S @ next_state(H, W, gamma))
        assert counted(S @ W @ S) == counted(W)
    shifted = all_weights(d, (0.0, 2.0))
    S = torch.diag(torch.tensor([-1.0] + [1.0] * (d - 1), dtype=torch.float64))
    assert counted(S @ shifted @ S) != counted(shifted)


def mean_correlation(states, weights, gamma, layers):
    """`E M₁₂` after so many layers, over all weights and all states at the start."""
    for _ in range(layers):
        states = next_state(states[:, None], weights, gamma).flatten(0, 1)
    return float((states[:, 0] * states[:, 1]).sum(-1).mean())


@pytest.mark.parametrize("gamma", [0.3, 1.7])
def test_rows_are_uncorrelated_on_average_where_signs_are_even_at_the_start(gamma):
    """Eq. (31): from a start whose law is even in every row, at every layer; no limit is needed."""
    H = normalised(gaussian(2, 3, seed=4))
    even = torch.stack([s[:, None] * H for s in all_signs(2)])
    for layers in (1, 2):
        assert abs(mean_correlation(even, all_weights(2), gamma, layers)) < 1e-15
    skewed = all_weights(2, (0.0, 2.0))  # mean and variance one: what Definition 1 excludes
    assert mean_correlation(even, skewed, gamma, 2) > 0.05


def test_rows_are_uncorrelated_on_average_after_one_layer_without_a_skip_connection():
    """Signs of rows of `W H` are even, whatever `H` is; with a skip connection they remember."""
    H = normalised(gaussian(2, 3, seed=4))[None]
    assert abs(mean_correlation(H, all_weights(2), math.inf, 1)) < 1e-15
    now = float(moments(H[0])[0, 1])
    later = [mean_correlation(H, all_weights(2), 0.3, layers) for layers in (1, 2, 3)]
    assert abs(now) > abs(later[0]) > abs(later[1]) > abs(later[2]) > 0.1 * abs(now)


@pytest.mark.parametrize(("weights", "mean"), [("uniform", 0.0), ("asymmetric", 1.0)])
def test_correlations_of_a_deep_chain_vanish_on_average_for_symmetric_weights_alone(weights, mean):
    g = torch.Generator().manual_seed(6)
    chain = BatchNormChain(6, 0.5, weights=weights, chains=2000, generator=g)
    for _ in range(60):
        chain.step()
    M = moments(chain.state)[:, ~torch.eye(6, dtype=torch.bool)]
    assert float((M.mean(0) - mean).abs().max()) < 4.5 / math.sqrt(2000) * float(M.std() + 1e-4)


def squared_row_average(common, samples, chains=32, d=8):
    """Square of a row's average over the batch, over depth and chains, and its standard error."""
    X = gaussian(chains, d, samples) + common * gaussian(chains, d, 1, seed=1)
    g, H, found = torch.Generator().manual_seed(2), X, []
    for layer in range(700):
        H = torch.randn(chains, d, d, generator=g, dtype=torch.float64) @ H
        H = H / H.square().mean(2, keepdim=True).sqrt()
        if layer >= 200:
            found.append(H.mean(2).square().mean(1))
    each = torch.stack(found).mean(0)
    return float(each.mean()), float(each.std()) / math.sqrt(chains)


@pytest.mark.parametrize("samples", [32, 128])
def test_rows_average_to_zero_over_depth_and_not_over_the_batch(samples):
    """Of Gaussian inputs the mean square is `1/samples`, for their law is that of their rotations.

    A mean that inputs have in common is one of the directions that survive, four at width 8, and
    has nearly a quarter of the energy at any depth and any size of the batch if it is large; less
    where it is as large as the spread.
    """
    mean, error = squared_row_average(0.0, samples)
    assert abs(mean - 1 / samples) < 3 * error < 0.5 / samples
    mean, error = squared_row_average(100.0, samples)
    assert 0.22 < mean < 0.25 + 3 * error
    mean, error = squared_row_average(1.0, samples)
    assert abs(mean - 0.17) < 3 * error < 0.05


# ------------------------------------------------------------------------------
# Ranks that no layer lowers, and those that none raises.


@pytest.mark.parametrize("d", [2, 3, 4])
def test_weights_that_are_small_in_sum_keep_the_rank(d):
    """`det(I + γW)` is affine in each entry, so least at signs: `1 - γ B d` (Lemma 5, B = 1)."""
    eye, W = torch.eye(d, dtype=torch.float64), all_weights(d)
    for share in (0.3, 0.9, 1 - PART, 1 + PART):
        least = float(torch.linalg.det(eye + share / d * W).min())
        assert least == pytest.approx(1 - share, abs=1e-14)
    worst = eye - torch.ones(d, d, dtype=torch.float64) / d  # rank d - 1 at γ B d = 1
    assert torch.linalg.matrix_rank(worst) == d - 1


def test_rank_two_is_lost_where_only_gamma_and_the_width_are_bounded():
    """Lemma 5 asks for `γ ≤ 1/(8d)`; entries of ±16 with chance 1/512 have variance 1."""
    gamma, B = 1 / 16, 16.0
    assert gamma <= 1 / (8 * 2)
    assert Fraction(2, 512) * int(B) ** 2 == 1
    after = next_state(EYE, torch.tensor([[0.0, B], [B, 0.0]], dtype=torch.float64), gamma)
    assert torch.linalg.matrix_rank(after) == 1


@pytest.mark.parametrize("d", [2, 3])
def test_a_state_of_rank_one_keeps_its_correlations(d):
    """Lemma 6: row i is scaled by `1 + γ Σ W_ij s_j / s_i`, of one sign exactly for `γ B d < 1`."""
    x = normalised(gaussian(1, 5, seed=d))
    for s in all_signs(d):
        H = s[:, None] * x
        M = moments(H)
        for share, kept in ((1 - PART, True), (1 + PART, False)):
            after = moments(next_state(H, all_weights(d), share / d))
            assert torch.allclose(after.abs(), torch.ones_like(after), atol=1e-14)
            assert torch.allclose(after, M.expand_as(after), atol=1e-13) is kept


@pytest.mark.parametrize("d", [2, 3])
def test_how_far_a_layer_moves_moments_before_it_normalises(d):
    """At most `2 γ B d + γ² B² d²`, attained; the printed `4 γ B` lacks the width."""
    M, W, gamma = torch.ones(d, d, dtype=torch.float64), all_weights(d), 0.05
    moved = gamma * (W @ M + M @ W.mT) + gamma**2 * W @ M @ W.mT
    largest = float(moved.abs().max())
    assert largest == pytest.approx(2 * gamma * d + (gamma * d) ** 2)
    assert largest > 4 * gamma


def test_rank_at_any_depth_is_at_most_the_narrowest_width_before():
    """Blocks of width 2, then 16: the square root of the width is no bound there."""
    g = torch.Generator().manual_seed(0)
    H = normalised(torch.randn(2, 20, generator=g, dtype=torch.float64))
    for _ in range(5):
        H = next_state(H, torch.randn(2, 2, generator=g, dtype=torch.float64), math.inf)
    for rows in (2, *[16] * 6):
        H = next_state(H, torch.randn(16, rows, generator=g, dtype=torch.float64), math.inf)
        lam = torch.linalg.eigvalsh(moments(H))
        assert int((lam > 1e-9).sum()) == 2
        assert 16**2 / float(lam.square().sum()) < 2 + 1e-9 < math.sqrt(16)


def test_inputs_need_no_more_rank_than_survives():
    """At width 16 six directions survive; six samples reach the law of sixteen, four do not."""
    found = {}
    for samples in (4, 6, 16):
        g = torch.Generator().manual_seed(5)
        chain = BatchNormChain(16, samples=samples, chains=32, generator=g)
        found[samples] = chain.run(500, burn_in=200).participation_ratio
    assert found[6].high > found[16].low
    assert found[6].value > found[16].value * 0.98
    assert found[4].high < 0.95 * found[16].low


LAWS = {
    "mean 0": lambda W: W,
    "mean 0.1": lambda W: W + 0.1,
    "mean 0.5": lambda W: W + 0.5,
    "2 and -1/2": lambda W: torch.where(torch.special.ndtr(W) < 0.2, 2.0, -0.5).double(),
    "[0, 2√3]": lambda W: math.sqrt(12) * torch.special.ndtr(W),
    "orthogonal": lambda W: torch.linalg.qr(W)[0],
}


@pytest.mark.parametrize(
    ("law", "low", "high"),
    [
        ("mean 0", 3.1, 3.5),
        ("mean 0.1", 3.1, 3.5),
        ("2 and -1/2", 3.1, 3.5),
        ("orthogonal", 12, 16),
        ("mean 0.5", 1, 1.2),
        ("[0, 2√3]", 1, 1.001),
    ],
)
def test_without_a_skip_connection_weights_need_neither_symmetry_nor_a_mean_of_zero(law, low, high):
    """The mean of r at width 16; a mean of the size of the spread does make all rows alike."""
    g, found = torch.Generator().manual_seed(0), []
    H = torch.randn(16, 16, 16, generator=g, dtype=torch.float64)
    for layer in range(300):
        W = LAWS[law](torch.randn(16, 16, 16, generator=g, dtype=torch.float64))
        H = normalised(W @ H)
        if layer >= 100:
            found.append(16**2 / moments(H).square().sum((1, 2)))
    assert low <= float(torch.stack(found).mean()) <= high


@pytest.mark.parametrize(
    ("law", "gamma", "low", "high"),
    [
        ("mean 0.1", 0.5, 3.0, 3.5),
        ("mean 0.1", 0.1, 1.5, 2.2),
        ("mean 0.1", 0.05, 1, 1.05),
        ("mean 0", 0.05, 3.0, 4.5),
        ("2 and -1/2", 0.05, 3.0, 4.5),
    ],
)
def test_beside_a_skip_connection_a_mean_must_be_small_against_its_branch(law, gamma, low, high):
    """What rows share grows by `1 + γ m d`: a mean of 0.1 is small at `γ = 1/2`, large at 1/20."""
    g, found = torch.Generator().manual_seed(0), []
    H = torch.randn(16, 16, 16, generator=g, dtype=torch.float64)
    for layer in range(500):
        W = LAWS[law](torch.randn(16, 16, 16, generator=g, dtype=torch.float64))
        H = normalised(H + gamma * W @ H)
        if layer >= 300:
            found.append(16**2 / moments(H).square().sum((1, 2)))
    assert low <= float(torch.stack(found).mean()) <= high


def falling(length, most):
    """Every sequence of integers from `most` down to 0 that never rises."""
    every = itertools.combinations_with_replacement(range(most, -1, -1), length)
    return [y for y in every if all(a >= b for a, b in itertools.pairwise(y))]


def test_a_sequence_that_never_rises_is_at_least_its_mean_in_the_end():
    """Lemma 16, and at finite length: `y_k ≥ (N mean - k y_1) / (N - k)`, which is attained."""
    slack = []
    for y in falling(6, 3):
        N, total = len(y), sum(y)
        for k in range(1, N):
            bound = Fraction(total - k * y[0], N - k)
            assert y[k - 1] >= bound
            slack.append(y[k - 1] - bound)
        # gone on with its last value, its mean tends to that, which is its least
        assert min(y) == y[-1]
        deep = 10**9
        assert abs(Fraction(total + (deep - N) * y[-1], deep) - y[-1]) < Fraction(1, 10**7)
    assert min(slack) == 0
    up_and_down = (1, 0) * 3
    assert min(up_and_down) < Fraction(sum(up_and_down), 6) - Fraction(1, 10)


# ------------------------------------------------------------------------------
# One layer, term by term.


def skewed(d):
    """Weights of mean 0 and variance 1 that are not symmetric, 2 and -1/2, with their chances."""
    chances = {2.0: 0.2, -0.5: 0.8}
    W = all_weights(d, tuple(chances))
    return W, torch.where(W > 0, 0.2, 0.8).prod(1).prod(1)


@pytest.mark.parametrize("d", [2, 3])
def test_moments_of_what_a_layer_adds(d):
    """Eqs. (68) and (71), with the expectation gone through to the end, at every pair `i ≠ j`."""
    M, W, gamma = correlation(d, seed=d), all_weights(d), 0.1
    first = W @ M + M @ W.mT
    added = (gamma * first + gamma**2 * W @ M @ W.mT).mean(0)
    eye = torch.eye(d, dtype=torch.float64)
    assert torch.allclose(added, gamma**2 * d * eye, atol=1e-15)
    pairs = torch.einsum("npq,nkm->pqkm", first, first) / len(W)
    square = M @ M
    for i, j in itertools.permutations(range(d), 2):
        assert pairs[i, j, i, j] == pytest.approx(square[j, j] + square[i, i])
        assert pairs[i, j, i, i] == pytest.approx(2 * square[i, j])
        assert pairs[i, i, i, i] == pytest.approx(4 * square[i, i])
        assert pairs[i, i, j, j] == pytest.approx(0, abs=1e-14)


def test_derivatives_of_a_squared_correlation():
    """Eqs. (67) and (72), by automatic differentiation at a unit diagonal."""
    c = 0.37
    at = torch.tensor([1.0, c, 1.0], dtype=torch.float64)
    squared = lambda m: m[1] ** 2 / (m[0] * m[2])
    first = torch.autograd.functional.jacobian(squared, at)
    second = torch.autograd.functional.hessian(squared, at)
    assert first.tolist() == pytest.approx([-(c**2), 2 * c, -(c**2)])
    assert second[0].tolist() == pytest.approx([2 * c**2, -2 * c, c**2])
    assert second[1].tolist() == pytest.approx([-2 * c, 2, -2 * c])


def entry_drift(M):
    """Eq. (74): what one layer adds to `M_ij²` per `γ²`."""
    d, square = len(M), M @ M
    i, j = square.diagonal()[:, None], square.diagonal()[None]
    return j + i - 2 * d * M**2 - 8 * M * square + 4 * M**2 * (i + j)


@pytest.mark.parametrize("d", [2, 3])
def test_every_entry_grows_as_the_expansion_says(d):
    M = correlation(d, seed=d)
    off = ~torch.eye(d, dtype=torch.bool)
    told = entry_drift(M)[off]
    assert float(told.sum()) == pytest.approx(drift(M).value)
    far = []
    for gamma in (0.02, 0.01):
        after = moments(next_state(root(M), all_weights(d), gamma)).square().mean(0)
        far.append((((after - M**2) / gamma**2)[off] - told) / gamma**2)
    assert torch.allclose(far[0], far[1], rtol=0.02)  # a constant: no term of first order


@pytest.mark.parametrize("d", [2, 3])
def test_a_law_that_is_not_symmetric_leaves_a_remainder_of_first_order(d):
    M, (W, chances) = correlation(d, seed=d), skewed(d)
    assert float(chances.sum()) == pytest.approx(1)
    far = []
    for gamma in (0.01, 0.005):
        after = moments(next_state(root(M), W, gamma)).square().sum((1, 2))
        grown = float((chances * (after - M.square().sum())).sum()) / gamma**2
        far.append((grown - drift(M).value) / gamma)
    assert far[0] == pytest.approx(far[1], rel=0.07)
    assert abs(far[1]) > 1


# ------------------------------------------------------------------------------
# Spectra alone.


HADAMARD = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)


def equal_rows(lam):
    """`M` with these eigenvalues and rows of one norm, as all entries of its eigenvectors are."""
    U = HADAMARD
    while len(U) < len(lam):
        U = torch.kron(U, HADAMARD)
    return U @ torch.diag(lam) @ U.mT / len(lam)


def alpha(M):
    square = M @ M
    return float(square.diagonal().square().sum() / (square * M).sum())


BLOCKS = torch.block_diag(torch.ones(2, 2), torch.ones(1, 1)).double()  # rows of norm √2, √2, 1


@pytest.mark.parametrize("seed", range(5))
def test_traces_of_a_matrix_with_equal_rows_are_norms_of_its_spectrum(seed):
    """Proposition 8, with the square of (44) inside the trace."""
    lam = gaussian(8, seed=seed).square()
    lam = 8 * lam / lam.sum()
    M = equal_rows(lam)
    assert torch.allclose(M.diagonal(), torch.ones(8, dtype=torch.float64))
    square = M @ M
    assert float(torch.trace(square @ M)) == pytest.approx(float(lam.pow(3).sum()))
    inside = float(square.diagonal().square().sum())
    assert inside == pytest.approx(float(lam.square().sum()) ** 2 / 8)
    assert inside < float(square.diagonal().sum()) ** 2 / 2  # the square outside
    assert drift_of_spectrum(lam).value == pytest.approx(drift(M).value)


def test_unequal_rows_are_not_told_by_their_spectrum():
    lam = torch.linalg.eigvalsh(BLOCKS)
    assert abs(drift_of_spectrum(lam).value - drift(BLOCKS).value) > 1


@given(st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(any))
def test_regularity_of_equal_rows_falls_short_of_one_by_how_eigenvalues_differ(values):
    """Example 11, (56) and (85): `‖λ‖₁‖λ‖₃³ - ‖λ‖₂⁴ = Σ_{i<j} λᵢ λⱼ (λᵢ - λⱼ)²`, in integers."""
    one, two, three = (sum(v**k for v in values) for k in (1, 2, 3))
    gap = sum(a * b * (a - b) ** 2 for a, b in itertools.combinations(values, 2))
    assert one * three - two**2 == gap
    assert (gap == 0) is (len({v for v in values if v}) == 1)


def test_regularity_is_one_for_equal_eigenvalues_or_unequal_rows():
    """Blocks of one correlation each have eigenvalues 2, 1 and 0, and regularity one."""
    flat = torch.tensor([4.0, 4, 0, 0, 0, 0, 0, 0], dtype=torch.float64)
    assert alpha(equal_rows(flat)) == pytest.approx(1, abs=1e-14)
    lam = torch.tensor([4.0, 3, 1, 0, 0, 0, 0, 0], dtype=torch.float64)
    short = Fraction(4 * 3 * 1 + 4 * 1 * 9 + 3 * 1 * 4, 8 * (64 + 27 + 1))
    assert alpha(equal_rows(lam)) == pytest.approx(float(1 - short))
    assert torch.linalg.eigvalsh(BLOCKS).tolist() == pytest.approx([0, 1, 2])
    assert alpha(BLOCKS) == 1


PLANE = 1.5 * (torch.eye(3, dtype=torch.float64) - 1 / 3)  # of rank two, with ones on the diagonal


def test_regularity_is_one_for_blocks_that_are_multiples_of_projections():
    """Each with one eigenvalue that is not zero; where two are it falls short."""
    assert torch.linalg.eigvalsh(PLANE).tolist() == pytest.approx([0, 1.5, 1.5])
    equal = torch.block_diag(PLANE, torch.ones(2, 2), torch.eye(2)).double()
    for M in (PLANE, equal):
        assert torch.allclose(M.diagonal(), torch.ones(len(M), dtype=torch.float64))
        assert alpha(M) == pytest.approx(1, abs=1e-14)
    for a, b, c in itertools.product((-0.5, -0.2, 0.0, 0.3, 0.5), repeat=3):
        M = torch.tensor([[1.0, a, b], [a, 1.0, c], [b, c, 1.0]], dtype=torch.float64)
        # of one block with eigenvalues 1.5, 1.5 and 0, or of blocks of one row each
        signs = abs(a * b * c) == 0.125 and a * b * c < 0
        assert (alpha(M) > 1 - 1e-12) is (signs or a == b == c == 0)


@pytest.mark.parametrize("gamma", [0.1, 1.0, math.inf])
def test_one_layer_makes_the_regularity_fall_short_of_one_unless_the_rank_is_one(gamma):
    """Of weights with a density: the equality is that of polynomials in them, and no identity."""
    W = gaussian(200, 3, 3, seed=2)
    for M in (torch.eye(3, dtype=torch.float64), PLANE):
        after = [alpha(A) for A in moments(next_state(root(M), W, gamma))]
        assert max(after) < 1 - 1e-9
    line = torch.tensor([[1.0], [-1.0], [1.0]], dtype=torch.float64)
    after = [alpha(A) for A in moments(next_state(line, W, gamma))]
    assert min(after) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_the_leading_eigenvalue_falls_and_small_ones_rise(d):
    """Example 9, (79) to (82): by `2 (d - 1)(2d - 1) γ⁴` on average, over all sign matrices.

    And `‖M‖²` by `2 d` times as much, which is more than `γ⁴ d²`.
    """
    gamma = 0.01
    M = gamma**2 * torch.eye(d, dtype=torch.float64) + (1 - gamma**2)
    before = torch.linalg.eigvalsh(M)
    after = moments(next_state(root(M), all_weights(d), gamma))
    lam = torch.linalg.eigvalsh(after).mean(0)
    fall = float(before[-1] - lam[-1]) / gamma**4
    assert fall == pytest.approx(2 * (d - 1) * (2 * d - 1), rel=3e-3)
    assert float((lam - before)[:-1].sum()) / gamma**4 == pytest.approx(fall, rel=1e-3)
    shrunk = float((M.square() - after.square().mean(0)).sum()) / gamma**4
    assert shrunk == pytest.approx(4 * d * (d - 1) * (2 * d - 1), rel=3e-3)
    assert shrunk > d**2


def spectral_alpha(lam):
    return float(lam.square().sum()) ** 2 / (float(lam.sum()) * float(lam.pow(3).sum()))


@pytest.mark.parametrize(("beta", "small"), [(0.25, False), (0.6, True)])
def test_one_large_eigenvalue_makes_for_regularity_where_its_square_outweighs_the_others(
    beta, small
):
    """Example 12 holds for `λ₁ = d^β` beside equal ones where `β > 1/2`, and fails at 1/4."""
    found = []
    for d in (2**6, 2**12, 2**18):
        first = d**beta
        lam = torch.full((d,), (d - first) / (d - 1), dtype=torch.float64)
        lam[0] = first
        found.append(spectral_alpha(lam))
        if d == 64:
            c = (first - 1) / (d - 1)  # equal correlations have this spectrum
            M = (1 - c) * torch.eye(d, dtype=torch.float64) + c
            assert alpha(M) == pytest.approx(found[0])
    if small:
        assert found[0] > found[1] > found[2]
        assert found[2] * 2 ** (18 * 0.4) < 6  # of order d^(β - 1)
    else:
        assert 0.9 < found[1] < found[2]


# ------------------------------------------------------------------------------
# Products of random matrices: what makes them of rank one.


def ratio(A):
    """`σ₂/σ₁ = |det| / σ₁²` of an integer matrix of order two."""
    (a, b), (c, d) = A
    det, size = abs(a * d - b * c), a * a + b * b + c * c + d * d
    return 2 * det / (size + math.isqrt(size * size - 4 * det * det))


def image(A, v):
    return tuple(a * v[0] + b * v[1] for a, b in A)


def times(A, B):
    return tuple(zip(*(image(A, column) for column in zip(*B, strict=True)), strict=True))


ONE, SWAP, STRETCH = ((1, 0), (0, 1)), ((0, 1), (1, 0)), ((4, 0), (0, 1))
SHEARS = ((1, 1), (0, 1)), ((1, 0), (1, 1))
TURNS = ((3, -4), (4, 3)), ((3, 4), (-4, 3))  # five times a rotation, of no finite order


def random_product(matrices, length, seed):
    """`σ₂/σ₁` after each factor, new ones from the left, in exact integers."""
    picks = torch.randint(len(matrices), (length,), generator=torch.Generator().manual_seed(seed))
    products = itertools.accumulate(picks.tolist(), lambda B, k: times(matrices[k], B), initial=ONE)
    return [ratio(B) for B in products]


def test_one_matrix_contracts_where_its_powers_tend_to_rank_one():
    """Definition 4: powers of a shear do; of a swap or of a rotation none comes closer."""
    for A, low, high in ((SHEARS[0], 0, 1.1e-6), (SWAP, 1, 1), (TURNS[0], 1, 1)):
        B = ONE
        for _ in range(1000):
            B = times(A, B)
        assert low <= ratio(B) <= high


def line(v):
    """The line through a vector of integers, by its shortest one."""
    v = tuple(x // math.gcd(*v) for x in v)
    return max(v, tuple(-x for x in v))


def lines(matrices, start, steps):
    """All lines that products of so many factors or fewer take one to."""
    seen = {start}
    for _ in range(steps):
        seen |= {line(image(A, v)) for A in matrices for v in seen}
    return seen


def test_a_swap_keeps_the_union_of_both_axes_and_shears_keep_no_finite_union():
    """Definitions 5 and 6, Example 17: in the plane, a finite union that is kept is made of lines.

    A matrix permutes them, so that some power keeps each. Powers of the two shears keep one line
    each, and not the same.
    """
    axes = {(1, 0), (0, 1)}
    for matrices in ((SWAP,), (SWAP, STRETCH)):
        assert lines(matrices, (1, 0), 20) == axes
        assert lines((*matrices, SHEARS[0]), (1, 0), 1) == axes
        assert lines((*matrices, SHEARS[0]), (0, 1), 1) == axes | {(1, 1)}
    plane = {line(v) for v in itertools.product(range(-9, 10), repeat=2) if any(v)}
    for A, axis in zip(SHEARS, ((1, 0), (0, 1)), strict=True):
        power = ONE
        for _ in range(12):
            power = times(A, power)
            assert {v for v in plane if line(image(power, v)) == v} == {axis}
    assert len(lines(SHEARS, (1, 0), 10)) > 500


def test_products_tend_to_rank_one_where_no_finite_union_is_kept_and_one_contracts():
    """Lemma 18, for two shears."""
    for seed in range(5):
        found = random_product(SHEARS, 400, seed)
        assert max(found[-100:]) < 1e-60
        assert found[0] == 1


def test_products_need_not_tend_to_rank_one_where_either_condition_is_dropped():
    """A stretch and a swap keep the axes, and undo each other at any depth; no turn contracts."""
    last = []
    for seed in range(8):
        found = random_product((SWAP, STRETCH), 2000, seed)
        assert min(found) < 1e-6
        last.append(max(n for n, r in enumerate(found) if r == 1))
    assert max(last) > 1500
    assert set(random_product(TURNS, 400, 0)) == {1.0}
    with pytest.raises(ZeroDivisionError):  # nor where a factor is singular: zero has no direction
        random_product((*SHEARS, ((0, 0), (0, 0))), 100, 0)


def test_residual_layers_contract_and_reach_every_direction():
    """The two steps of the proof of Lemma 3(b), for weights uniform on `[-√3, √3]`."""
    d, gamma = 4, 0.5
    W = torch.zeros(d, d, dtype=torch.float64)
    W[0, 0] = 1  # within the support
    A = torch.linalg.matrix_power(torch.eye(d, dtype=torch.float64) + gamma * W, 60)
    s = torch.linalg.svdvals(A)
    assert float(s[1] / s[0]) == pytest.approx(1.5**-60)
    v = normalised(gaussian(d, seed=1))
    moved = []
    for a in torch.eye(d, dtype=torch.float64):
        W = a.outer(v) / d
        assert float(W.abs().max()) <= 1 / d < math.sqrt(3)
        moved.append((torch.eye(d, dtype=torch.float64) + gamma * W) @ v - v)
    assert torch.allclose(torch.stack(moved), gamma / d * torch.eye(d, dtype=torch.float64))


@pytest.mark.parametrize(
    ("power", "low", "high"), [(1.0, 0.9, 1.0), (0.5, 0.25, 0.35), (0.25, 0.0, 0.01)]
)
def test_skip_connections_avoid_collapse_from_the_root_of_the_depth_on(power, low, high):
    """`γ = L^-1/2` is enough, where `σ₂/σ₁` does not depend on the depth; `1/L` is not needed."""
    for depth in (200, 800):
        g = torch.Generator().manual_seed(1)
        chain = LinearChain(8, depth**-power, chains=64, generator=g)
        chain.state = torch.eye(8, dtype=torch.float64).repeat(64, 1, 1)
        for _ in range(depth):
            chain.step()
        sigma = chain.singular_values()
        assert low <= float((sigma[:, 1] / sigma[:, 0]).mean()) <= high


# ------------------------------------------------------------------------------
# Gradients of the last layer.


@pytest.mark.parametrize("loss", [F.cross_entropy, F.mse_loss], ids=lambda f: f.__name__)
def test_the_gradient_of_the_last_layer_is_an_outer_product(loss):
    """Eq. (97): `∇ℓᵢ hᵢ'` for every sample, against automatic differentiation."""
    H, W = gaussian(5, 4, seed=1), gaussian(3, 4, seed=2).requires_grad_()
    targets = torch.arange(5) % 3 if loss is F.cross_entropy else gaussian(5, 3, seed=3)
    for h, y in zip(H, targets, strict=True):
        out = W @ h
        (found,) = torch.autograd.grad(loss(out, y), W, retain_graph=True)
        by_hand = out.softmax(0) - F.one_hot(y, 3) if loss is F.cross_entropy else 2 * (out - y) / 3
        assert torch.allclose(found, by_hand.outer(h))
