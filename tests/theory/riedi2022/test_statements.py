"""What the paper states and no theorem of the catalogue says: both sides, each by itself."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
import scipy
import torch
from hypothesis import assume, given, strategies as st
from numpy.polynomial import Polynomial
from torch.nn import functional as F

from sigmascope.linalg import singular_value_derivative
from sigmascope.linalg.random_matrix import EdelmanCondition, TracyWidom
from sigmascope.theory.riedi2022 import Skip, skip_condition_bounds
from sigmascope.theory.riedi2022.random_weights import (
    ResidualLayer,
    chance_of_negative,
    chance_of_norm,
    condition_limits,
    weight_spread,
)
from tests.theory.riedi2022.told import gaussian, structured

SEEDS = st.integers(0, 10**6)
ROUNDING = 1e-12
svdvals = torch.linalg.svdvals
norm = lambda A: torch.linalg.matrix_norm(A, 2)
eye = lambda n: torch.eye(n, dtype=torch.float64)
matrix = lambda *rows: torch.tensor(rows, dtype=torch.float64)
TURN = matrix([0, -1], [1, 0])


def small_matrices(n, entries):
    """Every matrix with these entries."""
    found = torch.tensor(list(product(entries, repeat=n * n)), dtype=torch.float64)
    return found.reshape(-1, n, n)


# ------------------------------------------------------------------------------
# Perturbations that add.


@given(SEEDS, st.integers(1, 6), st.floats(0.01, 10))
def test_eigenvalues_in_order_move_no_more_than_the_matrix(seed, n, size):
    """Symmetric matrices; another order, or a matrix that is not symmetric, may move more."""
    A, step = gaussian(n, n, seed=seed), size * gaussian(n, n, seed=seed + 1)
    A, step = A + A.mT, step + step.mT
    lam, moved = torch.linalg.eigvalsh(A), torch.linalg.eigvalsh(A + step)
    assert (lam - moved).square().sum() <= step.square().sum() * (1 + ROUNDING)
    assert (lam - moved.flip(0)).square().sum() >= (lam - moved).square().sum() * (1 - ROUNDING)


def test_of_matrices_that_are_not_symmetric_eigenvalues_move_more():
    """Two eigenvalues 0 become ±√e by a step of size e: 2e of squares against e²."""
    e = 1e-4
    lam = torch.linalg.eigvals(matrix([0, 1], [e, 0]))
    assert float(lam.abs().square().sum()) == pytest.approx(2 * e)
    assert float(lam.abs().square().sum()) > 1e3 * e**2


@given(SEEDS, st.integers(1, 5), st.integers(1, 5), st.floats(0.01, 10))
def test_singular_values_in_order_move_no_more_than_the_matrix(seed, m, n, size):
    """Also of rectangles; equal for matrices that share their vectors and the order of values."""
    A, step = gaussian(m, n, seed=seed), size * gaussian(m, n, seed=seed + 1)
    moved = (svdvals(A) - svdvals(A + step)).square().sum()
    assert moved <= step.square().sum() * (1 + ROUNDING)
    U, s, V = torch.linalg.svd(A, full_matrices=False)
    apart = torch.arange(len(s), 0, -1, dtype=torch.float64)
    along = U @ torch.diag(apart) @ V
    moved = (s - svdvals(A + along)).square().sum()
    assert float(moved) == pytest.approx(float(along.square().sum()))


def test_without_their_order_singular_values_would_move_of_themselves():
    s = svdvals(matrix([1, 0], [0, 0]))
    assert float((s - s.flip(0)).square().sum()) == 2


@given(SEEDS, st.integers(1, 5))
def test_signed_singular_values_are_eigenvalues_of_the_doubled_matrix(seed, n):
    """(19), with (v, u) and (-v, u) as vectors; and a matrix has the values of its transpose."""
    A = gaussian(n, n, seed=seed)
    double = torch.zeros(2 * n, 2 * n, dtype=torch.float64)
    double[:n, n:], double[n:, :n] = A, A.mT
    V, s, Uh = torch.linalg.svd(A)
    expected = torch.cat([s, -s]).sort().values
    assert torch.allclose(torch.linalg.eigvalsh(double), expected, atol=ROUNDING)
    for sign in (1, -1):
        vectors = torch.cat([sign * V, Uh.mT])
        assert torch.allclose(double @ vectors, sign * vectors * s, atol=1e-11)
    assert float(double.square().sum()) == pytest.approx(2 * float(A.square().sum()))
    assert torch.allclose(svdvals(A.mT), s, atol=ROUNDING)
    assert float(s.square().sum()) == pytest.approx(float(A.square().sum()))
    assert torch.allclose((A @ Uh.mT).norm(dim=0), s, atol=ROUNDING)


@given(SEEDS, st.integers(2, 5))
def test_a_value_stays_simple_within_half_of_its_gap(seed, n):
    """So simple values are so on an open set, non-zero ones too; at half of it they may meet."""
    A, step = gaussian(n, n, seed=seed), gaussian(n, n, seed=seed + 1)
    s = svdvals(A)
    for i in range(n):
        others = torch.cat([s[:i], s[i + 1 :]])
        gap = float((s[i] - others).abs().min())
        near = A + (0.499 * gap / float(norm(step))) * step
        t = svdvals(near)
        assert float((t[i] - torch.cat([t[:i], t[i + 1 :]])).abs().min()) > 0
        inside = A + (0.999 * float(s[i]) / float(norm(step))) * step
        assert float(svdvals(inside)[i]) > 0
    U, s, V = torch.linalg.svd(A)
    s[0], s[1] = s[0] - (s[0] - s[1]) / 2, s[1] + (s[0] - s[1]) / 2
    met = U @ torch.diag(s) @ V
    assert float(norm(met - A)) == pytest.approx(float(svdvals(A)[0] - svdvals(A)[1]) / 2)
    assert float(svdvals(met)[:2].diff().abs()) < ROUNDING * float(s[0])


def test_where_a_family_jumps_the_set_of_simple_values_need_not_be_open():
    """Simple at 0 and nowhere else."""
    family = lambda rho: torch.diag(matrix([2, 1])[0]) if rho == 0 else eye(2)
    simple = [float(svdvals(family(rho)).diff().abs()) > 0 for rho in (-1e-9, 0, 1e-9)]
    assert simple == [False, True, False]


def test_the_spectral_norm_between_every_vector_and_the_frobenius_norm():
    """All 3 x 3 matrices of -1, 0 and 1: ranks by minors, the norm as a root of a polynomial."""
    every = small_matrices(3, (-1, 0, 1))
    top = svdvals(every)[:, 0]
    gram = every.mT @ every
    # the cubic of AᵀA: λ³ - t λ² + m λ - d², whose largest root is s₁²
    t = gram.diagonal(dim1=1, dim2=2).sum(1)
    m = (t.square() - gram.square().sum((1, 2))) / 2
    d = torch.linalg.det(every).round()
    q = ((t.square() - 3 * m) / 9).clamp(min=0)
    cosine = (2 * t**3 - 9 * t * m + 27 * d**2) / 54 / (q**1.5).clamp(min=1e-30)
    largest = t / 3 + 2 * q.sqrt() * (cosine.clamp(-1, 1).acos() / 3).cos()
    assert torch.allclose(top, largest.sqrt(), atol=1e-7)
    tried = torch.nn.functional.normalize(gaussian(3, 200, seed=0), dim=0)
    assert bool(((every @ tried).norm(dim=1).amax(1) <= top * (1 + ROUNDING)).all())
    rank = (t > 0).double() + (m > 0) + (d != 0)  # squares of minors are summed in t, m and d²
    frobenius = t.sqrt()
    assert bool((top <= frobenius * (1 + ROUNDING)).all())
    assert bool((frobenius <= rank.sqrt() * top * (1 + ROUNDING)).all())
    one = rank == 1
    assert torch.allclose(top[one], frobenius[one], rtol=1e-12)
    assert bool((top[rank > 1] < frobenius[rank > 1] * (1 - 1e-3)).all())
    pairs = every[:243], every[-243:]
    sums = norm(pairs[0][:, None] + pairs[1])
    assert bool((sums <= (norm(pairs[0])[:, None] + norm(pairs[1])) * (1 + ROUNDING)).all())


def test_singular_values_of_sums_and_of_parts_interlace():
    """All pairs of 2 x 2 matrices of -2 to 2 for sums, random ones of size 4 for parts."""
    every = small_matrices(2, range(-2, 3))
    s, apart = svdvals(every), svdvals(every[:, None] - every)
    for i, j in ((0, 0), (0, 1), (1, 0)):
        room = s[None, :, i] + apart[:, :, j] - s[:, None, i + j]
        assert float(room.min()) >= -1e-7
    moved = (s[:, None] - s).abs().amax(2)
    assert float((apart[..., 0] - moved).min()) >= -1e-7
    assert bool((apart[..., 0] <= (every[:, None] - every).flatten(2).norm(dim=2) + 1e-7).all())
    # one index less would be too little
    assert float((s[None, :, 1] + apart[:, :, 1] - s[:, None, 0]).min()) < -0.5
    for A in (*gaussian(40, 4, 4, seed=0), *structured(4).values()):
        s = torch.cat([svdvals(A), torch.zeros(4, dtype=torch.float64)])
        for m in (1, 2, 3):
            for rows in (A[m:], A[:, : 4 - m]):
                part = svdvals(rows)
                assert bool((part <= s[: 4 - m] + 1e-12).all())
                assert bool((part >= s[m:4] - 1e-12).all())
    swap = matrix([0, 1], [1, 0])  # rows and columns at once: two places, not one
    assert float(svdvals(swap[1:, 1:])) == 0 < float(svdvals(swap)[1])


# ------------------------------------------------------------------------------
# Perturbations that are smooth.


def determinant(A):
    """By expansion, which has a derivative where the matrix is singular too."""
    if len(A) == 1:
        return A[0, 0]
    rest = [torch.cat([A[1:, :j], A[1:, j + 1 :]], dim=1) for j in range(len(A))]
    return sum((-1) ** j * A[0, j] * determinant(part) for j, part in enumerate(rest))


def implicit_slopes(family, rho):
    """Slopes of eigenvalues from the characteristic polynomial alone: `-(∂p/∂ρ) / (∂p/∂λ)`."""
    lam = torch.linalg.eigvalsh(family(torch.tensor(rho, dtype=torch.float64)))
    found = []
    for value in lam:
        at = torch.tensor(rho, dtype=torch.float64, requires_grad=True)
        root = value.clone().requires_grad_()
        N = family(at)
        p = determinant(N - root * eye(len(N)))
        by_rho, by_root = torch.autograd.grad(p, (at, root))
        found.append(float(-by_rho / by_root))
    return torch.tensor(found, dtype=torch.float64)


@given(SEEDS, st.integers(1, 4), st.floats(-1, 1))
def test_eigenvalues_move_as_their_vectors_say(seed, n, rho):
    """Hellmann and Feynman, against the characteristic polynomial; and how the vectors move."""
    A, B, C = (M + M.mT for M in gaussian(3, n, n, seed=seed))
    family = lambda t: A + t * B + t**2 * C
    slope = B + 2 * rho * C
    lam, U = torch.linalg.eigh(family(rho))
    apart = (lam[:, None] - lam + torch.diag(torch.full((n,), math.inf))).abs().min()
    assume(float(apart) > 0.05)
    by_vectors = torch.einsum("ij,ik,kj->j", U, slope, U)
    assert torch.allclose(by_vectors, implicit_slopes(family, rho), rtol=1e-6, atol=1e-7)
    # u' = Σ u_j (u_jᵀ N' u) / (λ - λ_j) meets (26), and is what differences of projections say
    inner = U.mT @ slope @ U
    gaps = (lam - lam[:, None]).fill_diagonal_(math.inf)
    moved = U @ (inner / gaps)
    left = slope @ U + family(rho) @ moved
    assert torch.allclose(left, by_vectors * U + lam * moved, atol=1e-9)
    assert float((moved * U).sum(0).abs().max()) < 1e-9
    h = 1e-5
    ahead, behind = (torch.linalg.eigh(family(rho + e))[1] for e in (h, -h))
    for i in range(n):
        turned = [torch.outer(V[:, i], V[:, i]) for V in (ahead, behind)]
        own = torch.outer(moved[:, i], U[:, i])
        assert torch.allclose((turned[0] - turned[1]) / (2 * h), own + own.mT, atol=1e-3)


def test_where_eigenvalues_meet_neither_they_nor_their_vectors_need_be_smooth():
    """diag(ρ, -ρ) has the top |ρ|; turned ever faster towards 0, smooth families lose vectors."""
    tops = [float(torch.linalg.eigvalsh(torch.diag(matrix([r, -r])[0]))[-1]) for r in (-1, 0, 1)]
    assert tops == [1, 0, 1]
    u = matrix([1], [1]) / math.sqrt(2)  # an eigenvector at 0, whose product says nothing
    assert float(u.mT @ torch.diag(matrix([1, -1])[0]) @ u) == pytest.approx(0)
    half = lambda k: 2 / (k * math.pi)  # 1/ρ grows by a quarter turn from one to the next
    tiny = lambda rho: math.exp(-1 / rho)  # with a smooth flank at 0
    spun = lambda rho: (
        tiny(rho)
        * matrix([math.cos(2 / rho), math.sin(2 / rho)], [math.sin(2 / rho), -math.cos(2 / rho)])
    )
    tops = [torch.linalg.eigh(spun(half(k)))[1][:, 1] for k in range(20, 30)]
    turns = [float(a @ b) for a, b in pairwise(tops)]
    assert max(map(abs, turns)) < 1e-6  # at right angles, however near to 0


def test_example_1():
    """`diag(ρ - 4, ρ - 2)`: two folds, and a vector that changes sign where its value is zero."""
    family = lambda rho: torch.diag(matrix([rho - 4, rho - 2])[0])
    for rho in torch.linspace(-1, 7, 65).tolist():
        s = svdvals(family(rho))
        sizes = sorted((abs(rho - 4), abs(rho - 2)))
        assert s.flip(0).tolist() == pytest.approx(sizes, abs=1e-14)
        assert sizes[1] >= 1  # so that only s₂ has zeros
        found = singular_value_derivative(family(rho), eye(2))
        assert found.simple[0] == (rho != 3)
        assert found.simple[1] == (rho not in (2, 3, 4))
    slopes = lambda rho: singular_value_derivative(family(rho), eye(2)).slope.tolist()
    assert [slopes(rho) for rho in (1.9, 2.1, 2.9, 3.1, 3.9, 4.1)] == [
        [-1, -1], [-1, 1], [-1, 1], [1, -1], [1, -1], [1, 1]
    ]  # fmt: skip


@given(SEEDS, st.integers(2, 4), st.floats(-1.5, 1.5))
def test_slopes_of_squares_under_a_skip_are_those_of_the_symmetric_part(seed, n, rho):
    """Three forms of λ', against the characteristic polynomial, and the cosine of (66)."""
    Mo = gaussian(n, n, seed=seed)
    family = lambda t: (Mo + t * eye(n)).mT @ (Mo + t * eye(n))
    V, s, Uh = torch.linalg.svd(Mo + rho * eye(n))
    apart = (s[:, None] - s + torch.diag(torch.full((n,), math.inf))).abs().min()
    assume(float(apart) > 0.05 and float(s[-1]) > 0.05)
    true = implicit_slopes(family, rho).flip(0)
    U = Uh.mT
    for slope in (
        ((Mo.mT + Mo) @ U * U).sum(0) + 2 * rho,
        2 * (U * (Mo @ U)).sum(0) + 2 * rho,
        2 * s * (U * V).sum(0),
    ):
        assert torch.allclose(slope, true, rtol=1e-6, atol=1e-6)
    assert float((U * V).sum(0).abs().max()) <= 1 + ROUNDING
    found = singular_value_derivative(Mo + rho * eye(n), eye(n))
    assert torch.allclose(found.slope, true / (2 * s), rtol=1e-6, atol=1e-6)


@given(SEEDS, st.integers(1, 6))
def test_ends_of_the_symmetric_part_are_at_most_twice_the_norm(seed, n):
    """Attained by symmetric matrices; of skew ones both ends are 0."""
    M = gaussian(n, n, seed=seed)
    for A in (M, M + M.mT, M - M.mT):
        low, high = Skip.of(A).ends
        size = float(norm(A + A.mT))
        assert max(abs(low), abs(high)) == pytest.approx(max(-low, high)) == pytest.approx(size)
        assert max(-low, high) <= 2 * float(norm(A)) * (1 + ROUNDING)
    low, high = Skip.of(M + M.mT).ends
    assert max(-low, high) == pytest.approx(2 * float(norm(M + M.mT)))
    assert Skip.of(M - M.mT).ends == pytest.approx((0, 0), abs=1e-12)


# ------------------------------------------------------------------------------
# Where eigenvalues meet along a family.

THIRDS = [[Fraction(x, 3) for x in row] for row in ((1, 2, 2), (2, 1, -2), (2, -2, 1))]
LINES = st.lists(st.integers(-4, 4), min_size=3, max_size=3)  # coefficients of a polynomial


def polynomial(coefficients):
    return Polynomial(np.array([Fraction(c) for c in coefficients], dtype=object))


def discriminant(N):
    """Of the characteristic polynomial of a symmetric 3 x 3 matrix of polynomials."""
    a = -(N[0][0] + N[1][1] + N[2][2])
    minors = [N[i][i] * N[j][j] - N[i][j] * N[i][j] for i, j in ((0, 1), (0, 2), (1, 2))]
    b = minors[0] + minors[1] + minors[2]
    c = -(
        N[0][0] * (N[1][1] * N[2][2] - N[1][2] * N[2][1])
        - N[0][1] * (N[1][0] * N[2][2] - N[1][2] * N[2][0])
        + N[0][2] * (N[1][0] * N[2][1] - N[1][1] * N[2][0])
    )
    return a * a * b * b - 4 * b * b * b - 4 * a * a * a * c - 27 * c * c + 18 * a * b * c


@given(LINES, LINES, LINES)
def test_eigenvalues_of_a_polynomial_family_meet_at_finitely_many_places_or_at_all(p, q, r):
    """Exactly: a turned diagonal family meets where two of its polynomials do, and only there."""
    own = [polynomial(x) for x in (p, q, r)]
    N = [
        [sum((THIRDS[i][k] * THIRDS[j][k] * own[k] for k in range(3)), polynomial([0]))
         for j in range(3)] for i in range(3)
    ]  # fmt: skip
    apart = (own[0] - own[1]) * (own[0] - own[2]) * (own[1] - own[2])
    found, known = discriminant(N).trim(), (apart * apart).trim()
    assert list(found.coef) == list(known.coef)
    everywhere = any(x == y for x, y in ((p, q), (p, r), (q, r)))
    assert all(c == 0 for c in found.coef) == everywhere
    meets = lambda rho: min(abs((a - b)(rho)) for a, b in pairs(own)) == 0
    places = [Fraction(k, 12) for k in range(-120, 121)]
    hits = sum(meets(rho) for rho in places)
    assert hits == len(places) if everywhere else hits <= len(found.coef) - 1


def pairs(items):
    return [(a, b) for i, a in enumerate(items) for b in items[i + 1 :]]


@pytest.mark.parametrize("length", [1, 10, 100])
def test_analytic_families_meet_finitely_often_on_an_interval_and_not_on_the_line(length):
    """A turned diag(sin ρ, cos ρ), at π/4 and every π after it."""
    Q = torch.linalg.qr(gaussian(2, 2, seed=0))[0]
    family = lambda rho: Q @ torch.diag(matrix([math.sin(rho), math.cos(rho)])[0]) @ Q.mT
    places = [math.pi * (k + 0.25) for k in range(length) if math.pi * (k + 0.25) < length]
    assert len(places) == math.floor(length / math.pi + 0.75)
    gap = lambda rho: float(torch.linalg.eigvalsh(family(rho)).diff())
    assert all(gap(rho) < ROUNDING for rho in places)
    for rho in torch.linspace(0, length, 20 * length + 1).tolist():
        assert gap(rho) == pytest.approx(math.sqrt(2) * abs(math.sin(rho - math.pi / 4)), abs=1e-12)


def test_smooth_families_that_are_not_analytic_may_meet_on_a_half_line():
    """exp(-1/ρ) beyond 0 and 0 before it: neither finitely often nor always."""
    flank = lambda rho: math.exp(-1 / rho) if rho > 0 else 0.0
    meets = [torch.linalg.eigvalsh(torch.diag(matrix([flank(r), 0])[0])) for r in (-2, -1, 0.1, 1)]
    assert [float(lam.diff()) == 0 for lam in meets] == [True, True, False, False]


def integral(family, slope, i, ends):
    """Of `u_iᵀ N' u_i`, piece by piece between the places where eigenvalues meet."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for a, b in pairwise(ends):
        for x, w in zip(nodes, weights, strict=True):
            rho = (a + b) / 2 + (b - a) / 2 * x
            u = torch.linalg.eigh(family(rho))[1][:, i]
            total += (b - a) / 2 * w * float(u @ slope(rho) @ u)
    return total


def test_eigenvalues_grow_by_the_integral_of_their_slopes():
    """Through crossings, and of families whose eigenvalues coincide all along; not over a jump."""
    Q = torch.linalg.qr(gaussian(3, 3, seed=0))[0]
    # branches 1 - ρ, ρ and 2ρ² - 1/2 meet at 1/2, (√13 - 1)/4 and (√5 + 1)/4
    own = lambda t: torch.tensor([1 - t, t, 2 * t * t - 0.5], dtype=torch.float64)
    bent = lambda t: torch.tensor([-1, 1, 4 * t], dtype=torch.float64)
    crossing = lambda t: Q @ torch.diag(own(t)) @ Q.mT
    places = [0, 0.5, (math.sqrt(13) - 1) / 4, (1 + math.sqrt(5)) / 4, 1]
    twin = torch.block_diag(TURN, 0.5 * TURN)
    for family, slope, ends in (
        (crossing, lambda t: Q @ torch.diag(bent(t)) @ Q.mT, places),
        *(
            (
                lambda t, M=M: (M + t * eye(len(M))).mT @ (M + t * eye(len(M))),
                lambda t, M=M: M + M.mT + 2 * t * eye(len(M)),
                [0, 0.25, 0.5, 0.75, 1],
            )
            for M in (gaussian(3, 3, seed=1), twin)  # the last with two double values throughout
        ),
    ):
        grown = torch.linalg.eigvalsh(family(1.0)) - torch.linalg.eigvalsh(family(0.0))
        for i, growth in enumerate(grown.tolist()):
            assert integral(family, slope, i, ends) == pytest.approx(growth, abs=1e-5)
    jump = lambda t: (1.0 if t > 0.5 else 0.0) * eye(1)
    flat = integral(jump, lambda t: 0 * eye(1), 0, [0, 0.5, 1])
    assert flat == 0 != float(jump(1.0) - jump(0.0))


def sums_of_squares(a, b, c, d):
    """The discriminant of `MᵀM` for `M = [[a, b], [c, d]]`."""
    return ((a - d) ** 2 + (b + c) ** 2) * ((a + d) ** 2 + (b - c) ** 2)


def test_double_singular_values_are_the_zeros_of_a_polynomial_in_the_entries():
    """Of size 2: turns and reflections, scaled. The polynomial is not zero: diag(1, .., n)."""
    for a, b, c, d in product(range(-2, 3), repeat=4):
        t, det = a * a + b * b + c * c + d * d, a * d - b * c
        assert t * t - 4 * det * det == sums_of_squares(a, b, c, d)
    every = small_matrices(2, range(-2, 3))
    double = svdvals(every).diff()[:, 0].abs() < 1e-7
    assert double.tolist() == [sums_of_squares(*M.flatten().tolist()) == 0 for M in every]
    for n in (2, 3, 6):
        assert float(svdvals(torch.diag(torch.arange(1.0, n + 1))).diff().abs().min()) > 0.5
        for M in (*gaussian(50, n, n, seed=n), *(2 * torch.rand(50, n, n).double() - 1)):
            assert float(svdvals(M).diff().abs().min()) > 0


def test_entries_without_a_joint_density_may_have_double_singular_values():
    """Half of all 2 x 2 matrices of signs; and entries that are each Gaussian but tied."""
    signs = small_matrices(2, (-1, 1))
    assert int((svdvals(signs).diff()[:, 0].abs() < 1e-9).sum()) == 8
    for a, b in gaussian(20, 2, seed=0).tolist():
        assert float(svdvals(matrix([a, -b], [b, a])).diff().abs()) < 1e-12


# ------------------------------------------------------------------------------
# Vectors that a skip connection leaves alone.


def fixed(M, w, t, rhos):
    """Whether `w` is an eigenvector and a right singular vector of `M + ρ Id`, of value `t + ρ`."""
    for rho in rhos:
        A = M + rho * eye(len(M))
        square = A.mT @ (A @ w)
        if not torch.allclose(A @ w, (t + rho) * w, atol=1e-9):
            return False
        if not torch.allclose(square, (t + rho) ** 2 * w, atol=1e-9):
            return False
    return True


RHOS = (-2.0, -0.3, 0.0, 0.5, 1.7)


@given(SEEDS, st.integers(2, 6), st.floats(0.1, 3), st.sampled_from([1, -1]))
def test_a_singular_vector_that_is_an_eigenvector_stays_both(seed, n, size, sign):
    """Of any eigenvalue but 0 (where a nilpotent matrix moves it); then `Mᵀw = tw` too."""
    t = sign * size
    Q = torch.linalg.qr(gaussian(n, n, seed=seed))[0]
    M = Q @ torch.block_diag(t * eye(1), gaussian(n - 1, n - 1, seed=seed + 1)) @ Q.mT
    w = Q[:, 0]
    assert fixed(M, w, t, RHOS)
    assert torch.allclose(M.mT @ w, t * w, atol=1e-9)


def test_at_the_eigenvalue_0_a_singular_vector_need_not_stay_one():
    M, w = matrix([0, 1], [0, 0]), matrix([1, 0])[0]
    assert fixed(M, w, 0, [0.0])  # both at 0
    assert not fixed(M, w, 0, [0.5])
    assert not torch.equal(M.mT @ w, 0 * w)
    lone = torch.diag(matrix([0, 1])[0])  # where Mᵀw = 0 as well it does
    assert fixed(lone, w, 0, RHOS)


@given(SEEDS, st.integers(2, 5), st.sampled_from([1, -1]))
def test_values_that_move_as_fast_as_they_can_belong_to_fixed_vectors(seed, n, sign):
    """One slope is ±1 by an eigenvector that is planted; all others are not."""
    Q = torch.linalg.qr(gaussian(n, n, seed=seed))[0]
    M = Q @ torch.block_diag(5.0 * sign * eye(1), gaussian(n - 1, n - 1, seed=seed + 1)) @ Q.mT
    found = singular_value_derivative(M, eye(n))
    right = torch.linalg.svd(M)[2]
    for i in range(n):
        if not bool(found.simple[i]):
            continue
        slope, s = float(found.slope[i]), float(found.sigma[i])
        if abs(abs(slope) - 1) < 1e-12:
            assert fixed(M, right[i], math.copysign(s, slope), RHOS)
        elif abs(slope) < 0.99:
            assert not fixed(M, right[i], math.copysign(s, slope), RHOS)
    planted = int((right @ Q[:, 0]).abs().argmax())
    assert float(found.slope[planted]) == pytest.approx(sign)


def test_of_multiple_values_a_slope_of_one_says_nothing_of_their_vectors():
    """Three values 1 + ρ and two √(1 + ρ²): the third in order is 1 + ρ on both sides of 0."""
    M = torch.block_diag(eye(3), TURN)
    third = lambda rho: float(svdvals(M + rho * eye(5))[2])
    h = 1e-4
    assert [(third(h) - third(0)) / h, (third(0) - third(-h)) / h] == pytest.approx([1, 1])
    w = matrix([0, 0, 0, 1, 0])[0]  # a right singular vector at 0, where M is orthogonal
    assert torch.equal(M.mT @ M @ w, w)
    assert not fixed(M, w, 1, [0.0])


@given(SEEDS, st.integers(1, 5))
def test_a_singular_value_vanishes_where_the_skip_meets_a_real_eigenvalue(seed, n):
    Mo = gaussian(n, n, seed=seed)
    lam = torch.linalg.eigvals(Mo)
    real = lam[lam.imag.abs() < 1e-12].real
    for rho in (-real).tolist():
        assert float(svdvals(Mo + rho * eye(n))[-1]) < 1e-9 * (1 + float(norm(Mo)))
    # how far from singular: det(Mo + ρ) is the product of ρ + λ
    for rho in RHOS:
        sizes = (lam + rho).abs().prod()
        assert float(svdvals(Mo + rho * eye(n)).prod()) == pytest.approx(float(sizes), rel=1e-6)


@given(SEEDS, st.floats(0.05, 2), st.floats(-2, 2), st.floats(-3, 3))
def test_without_real_eigenvalues_no_singular_value_vanishes(seed, turn, shift, rho):
    """Of `P (shift + turn · J) P⁻¹`, and the determinant is `(shift + ρ)² + turn²`."""
    P = gaussian(2, 2, seed=seed)
    assume(float(torch.linalg.cond(P)) < 1e3)
    M = P @ (shift * eye(2) + turn * TURN) @ torch.linalg.inv(P)
    s = svdvals(M + rho * eye(2))
    assert float(s.prod()) == pytest.approx((shift + rho) ** 2 + turn**2, rel=1e-6)
    assert float(s[-1]) > 0


# ------------------------------------------------------------------------------
# The loss of one layer, inside a region.


@given(SEEDS, st.integers(1, 5), st.sampled_from([0.0, 0.1, -1.0, 1.0]), st.floats(-2, 2))
def test_a_layer_near_its_input_is_affine_with_slopes_by_sign(seed, n, eta, rho):
    """(2), as far as no unit changes its side; above η = 1 the two slopes change places."""
    W, b, z, step = (gaussian(*s, seed=seed + i) for i, s in enumerate([(n, n), (n,), (n,), (n,)]))
    layer = lambda x, eta: torch.maximum(eta * (W @ x + b), W @ x + b) + rho * x
    before, moved = W @ z + b, W @ step
    near = z + 0.99 * float((before / moved).abs().min()) * step
    D = torch.where(before > 0, 1.0, eta)
    for x in (z, near):
        assert torch.allclose(layer(x, eta), D * (W @ x) + D * b + rho * x, atol=1e-9)
    D = torch.where(before > 0, 3.0, 1.0)
    assert torch.allclose(layer(z, 3.0), D * (W @ z) + D * b + rho * z, atol=1e-9)


def toy(seed, n=3, p=2, eta=0.1):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)
    return (
        [draw(n, n) for _ in range(p + 1)],
        [draw(n) for _ in range(p + 1)],
        draw(n),
        draw(n),
        eta,
    )


def bypassed(Ws, bs, z, rho, eta):
    """The trained layer and the ones after it, with a skip connection around all of these."""
    z1 = F.leaky_relu(Ws[0] @ z + bs[0], eta)
    a, D = z1, []
    for W, b in zip(Ws[1:], bs[1:], strict=True):
        before = W @ a + b
        D.append(torch.where(before > 0, 1.0, eta).double())
        a = F.leaky_relu(before, eta)
    return a + rho * z1, D


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_inside_a_region_the_loss_is_its_least_value_and_a_square(seed, rho):
    """`c + ‖M D (W - W₀) z‖²` with constants that are found once; outside it is not."""
    Ws, bs, z, y, eta = toy(seed)
    n = len(z)
    out, D = bypassed(Ws, bs, z, rho, eta)
    D0 = torch.where(Ws[0] @ z + bs[0] > 0, 1.0, eta).double()
    M = D[1][:, None] * (Ws[2] @ (D[0][:, None] * Ws[1])) + rho * eye(n)
    B = out - M @ (D0 * (Ws[0] @ z))
    # bias by bias: every D_k is in front of its own b_k
    own = M @ (D0 * bs[0]) + D[1] * (Ws[2] @ (D[0] * bs[1])) + D[1] * bs[2]
    assert torch.allclose(B, own, atol=1e-12)
    if rho == 0:
        printed = D[1] * (Ws[2] @ bs[1]) + bs[2]
        assert not torch.allclose(B - M @ (D0 * bs[0]), printed, atol=1e-3)
    A = M * D0
    Wo = torch.outer(torch.linalg.lstsq(A, (y - B)[:, None]).solution[:, 0], z) / z.square().sum()
    least = (y - A @ Wo @ z - B).square().sum()
    g = torch.Generator().manual_seed(seed)
    for _ in range(10):
        near = Ws[0] + 1e-4 * torch.randn(n, n, generator=g, dtype=torch.float64)
        told, inside = bypassed([near, *Ws[1:]], bs, z, rho, eta)
        assert all(torch.equal(a, b) for a, b in zip(D, inside, strict=True))
        square = (A @ (near - Wo) @ z).square().sum()
        loss = (y - told).square().sum()
        assert float(loss) == pytest.approx(float(least + square), rel=1e-9)
    other = Ws[0] - 2 * torch.outer(Ws[0] @ z + bs[0], z) / z.square().sum()  # all signs turned
    told, _ = bypassed([other, *Ws[1:]], bs, z, rho, eta)
    square = (A @ (other - Wo) @ z).square().sum()
    assert float((y - told).square().sum()) != pytest.approx(float(least + square), rel=1e-3)


@pytest.mark.parametrize("rho", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_where_regions_of_a_batch_meet_its_loss_is_affine_and_one_quadratic_form(seed, rho):
    """(55) and (56), for weights that move within all regions at once; beyond them it is not.

    The affine part is found at one place, the form is the average of `z zᵀ ⊗ (M D)ᵀ M D`.
    """
    Ws, bs, _, _, eta = toy(seed)
    n, G = len(bs[0]), 4
    Z, Y = gaussian(2, G, n, seed=seed + 100)
    slopes = lambda before: torch.where(before > 0, 1.0, eta).double()

    def regions(W):
        inside = [bypassed([W, *Ws[1:]], bs, z, rho, eta)[1] for z in Z]
        return torch.stack(
            [torch.stack([slopes(W @ z + bs[0]), *D]) for z, D in zip(Z, inside, strict=True)]
        )

    def loss(W):
        outs = [bypassed([W, *Ws[1:]], bs, z, rho, eta)[0] for z in Z]
        return torch.stack(
            [(y - out).square().sum() for y, out in zip(Y, outs, strict=True)]
        ).mean()

    form = torch.zeros(n * n, n * n, dtype=torch.float64)
    for z, (D0, D1, D2) in zip(Z, regions(Ws[0]), strict=True):
        MD = (D2[:, None] * (Ws[2] @ (D1[:, None] * Ws[1])) + rho * eye(n)) * D0
        form += torch.kron(torch.outer(z, z), MD.mT @ MD) / G
    start = Ws[0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(start), start)
    told = lambda step: (
        float(loss(Ws[0]) + (slope * step).sum())
        + float(step.mT.flatten() @ form @ step.mT.flatten())
    )
    steps = gaussian(40, n, n, seed=seed + 200)
    kept = 0
    for step in (*(0.02 * steps), *(0.2 * steps)):
        if torch.equal(regions(Ws[0] + step), regions(Ws[0])):
            kept += 1
            assert float(loss(Ws[0] + step)) == pytest.approx(told(step), rel=1e-9)
    assert kept > 10
    outside = [step for step in 3 * steps if not torch.equal(regions(Ws[0] + step), regions(Ws[0]))]
    wrong = sum(float(loss(Ws[0] + s)) != pytest.approx(told(s), rel=1e-3) for s in outside)
    assert wrong == len(outside) > 30


def test_regions_do_not_depend_on_the_skip_unless_layers_follow_it():
    """Around all layers no slope changes with ρ; around the first alone those after it may."""
    changed = 0
    for seed in range(40):
        Ws, bs, z, _, eta = toy(seed)
        all_around = [bypassed(Ws, bs, z, rho, eta)[1] for rho in (0.0, 1.0)]
        assert all(torch.equal(a, b) for a, b in zip(*all_around, strict=True))
        z1 = F.leaky_relu(Ws[0] @ z + bs[0], eta)
        first = F.leaky_relu(Ws[1] @ z1 + bs[1], eta)
        signs = [Ws[2] @ (first + rho * z1) + bs[2] > 0 for rho in (0.0, 1.0)]
        changed += not torch.equal(*signs)
    assert changed > 10


@given(SEEDS, st.integers(1, 4), st.integers(1, 4))
def test_zeros_that_fill_a_rectangle_up_are_more_zeros(seed, m, n):
    """Of the layer alone; with a skip connection a unit without row and column adds a one."""
    W = gaussian(m, n, seed=seed)
    size = max(m, n)
    full = F.pad(W, (0, size - n, 0, size - m))
    s, filled = svdvals(W), svdvals(full)
    assert torch.allclose(filled[: len(s)], s, atol=ROUNDING)
    assert float(filled[len(s) :].sum()) == 0
    beyond = F.pad(0.1 * W, (0, size + 1 - n, 0, size + 1 - m)) + eye(size + 1)
    assert float((svdvals(beyond) - 1).abs().min()) < ROUNDING


def test_a_row_of_zeros_alone_adds_no_value_of_one_beside_a_skip_connection():
    filled = torch.tensor([[0.5, 1.0], [0.0, 0.0]], dtype=torch.float64) + eye(2)
    assert svdvals(filled).tolist() == pytest.approx([1.905, 0.787], abs=1e-3)


# ------------------------------------------------------------------------------
# Weights from a law.


def test_both_edges_have_one_law_and_are_not_independent():
    """`-λ_min` of K is `λ_max` of -K; of size 1 each is the other's negative.

    Of size 2 they are `(R ± T) / 2` of an independent root R and trace T of variances
    8 (2 - π/2) and 8.
    """
    for law in (gaussian(500, 4, 4, seed=0), 2 * torch.rand(500, 4, 4).double() - 1):
        lam, other = (torch.linalg.eigvalsh(K + K.mT) for K in (law, -law))
        assert torch.allclose(-lam[:, 0], other[:, -1], atol=1e-12)
    one = gaussian(100, 1, 1, seed=1)
    lam = torch.linalg.eigvalsh(one + one.mT)
    assert torch.equal(lam[:, 0], lam[:, -1])
    found = []
    for n in (2, 4, 10):
        K = gaussian(20_000, n, n, seed=n)
        lam = torch.linalg.eigvalsh(K + K.mT)
        found.append(float(torch.corrcoef(torch.stack([lam[:, -1], -lam[:, 0]]))[0, 1]))
    root = 2 - math.pi / 2
    assert found[0] == pytest.approx((root - 1) / (root + 1), abs=0.03)
    assert found[0] < found[1] < found[2] < -0.04  # six standard errors


CORNERS = (5, 10, 20, 40, 80, 160, 320)


@pytest.mark.parametrize("law", ["gaussian", "uniform"])
def test_edges_of_growing_corners_of_one_array_settle(law):
    """s₁/√n at 2, both ends of K + Kᵀ at √(8n), and their ratio at √2; not with heavy tails."""
    g = torch.Generator().manual_seed(0)
    shape = (CORNERS[-1], CORNERS[-1])
    X = torch.randn(shape, generator=g, dtype=torch.float64)
    if law == "uniform":
        X = math.sqrt(3) * (2 * torch.rand(shape, generator=g, dtype=torch.float64) - 1)
    for n in CORNERS:
        K = X[:n, :n]
        lam = torch.linalg.eigvalsh(K + K.mT)
        top = float(norm(K))
        room = 8 * n ** (-2 / 3)  # what a deviation of 8 of Z_n or Y_n does, relative
        assert top / math.sqrt(n) == pytest.approx(2, rel=room / 2)
        for edge in (-float(lam[0]), float(lam[-1])):
            assert edge / math.sqrt(8 * n) == pytest.approx(1, rel=room)
            near = 2 * room if n < CORNERS[-1] else 0.03
            assert edge / top == pytest.approx(math.sqrt(2), rel=near)
    wild = (math.pi * (torch.rand(shape, generator=g, dtype=torch.float64) - 0.5)).tan()
    assert float(norm(wild)) / math.sqrt(CORNERS[-1]) > 100


@pytest.mark.parametrize("n", [2, 3, 5, 50, 10**4, 10**8])
def test_centre_and_scale_of_the_top_are_bounded_as_said(n):
    mu = (math.sqrt(n - 1) + math.sqrt(n)) ** 2
    q = math.sqrt(mu) * (1 / math.sqrt(n - 1) + 1 / math.sqrt(n)) ** (1 / 3)
    assert mu <= 4 * n
    steps = [q, math.sqrt(4 * n) * 2 ** (1 / 3) * (n - 1) ** (-1 / 6)]
    steps += [math.sqrt(4 * n) * 2 ** (1 / 3) * (n / 2) ** (-1 / 6)]
    assert steps == sorted(steps)
    assert steps[-1] == pytest.approx(2**1.5 * n ** (1 / 3))


@given(SEEDS, st.integers(2, 8), st.floats(1.01, 5))
def test_ends_and_norm_of_scaled_weights_are_those_of_the_standard_ones(seed, n, r):
    """(112) and the equality of (113); its inequality from Y_n = 0 up, and not where it is low."""
    K = gaussian(n, n, seed=seed)
    W = K / (r * math.sqrt(8 * n))
    lam, (low, high) = torch.linalg.eigvalsh(K + K.mT), Skip.of(W).ends
    for edge, tau in ((float(lam[-1]), high), (-float(lam[0]), -low)):
        Z = (edge - math.sqrt(8 * n)) * n ** (1 / 6)
        assert tau == pytest.approx((1 + Z / (math.sqrt(8) * n ** (2 / 3))) / r)
        # the event of the second display, from both sides
        assert (tau < 1) == ((r - 1) * math.sqrt(8) * n ** (2 / 3) > Z)
    mu = (math.sqrt(n - 1) + math.sqrt(n)) ** 2
    q = math.sqrt(mu) * (1 / math.sqrt(n - 1) + 1 / math.sqrt(n)) ** (1 / 3)
    top_sq = float(norm(W)) ** 2
    form = lambda Y: (mu / (4 * n) + n ** (-2 / 3) * q / (4 * n ** (1 / 3)) * Y) / (2 * r * r)
    printed = lambda Y: (1 + n ** (-2 / 3) * Y / math.sqrt(2)) / (2 * r * r)
    Y = (float(norm(K)) ** 2 - mu) / q
    assert top_sq == pytest.approx(form(Y))
    for above in (0, abs(Y), 10):
        assert form(above) <= printed(above)
    slopes = q / (4 * n ** (1 / 3)), 1 / math.sqrt(2)
    crossing = -(1 - mu / (4 * n)) * n ** (2 / 3) / (slopes[1] - slopes[0])
    assert form(1.01 * crossing - 1e-3) > printed(1.01 * crossing - 1e-3)


@pytest.mark.parametrize("r", [0.8, 1.0, 1.5])
def test_the_chance_that_the_symmetric_part_is_too_negative_at_width_2(r):
    """Exactly: `λ_max(K + Kᵀ) = √2 (g + χ₂)`, by quadrature, against draws."""
    level = r * math.sqrt(16)
    inner = lambda g: (
        scipy.stats.norm.pdf(g) * math.exp(-(max(level / math.sqrt(2) - g, 0) ** 2) / 2)
    )
    exact = scipy.integrate.quad(inner, -12, 12, points=[level / math.sqrt(2)])[0]
    count = 40_000
    lam = torch.linalg.eigvalsh((lambda K: K + K.mT)(gaussian(count, 2, 2, seed=3)))
    ends = weight_spread(2, r) * lam
    rare = [float((side > 1).double().mean()) for side in (-ends[:, 0], ends[:, -1])]
    error = math.sqrt(exact * (1 - exact) / count)
    assert rare == pytest.approx([exact, exact], abs=4 * error)
    assert chance_of_negative(2, r) == pytest.approx(exact, abs=0.02)  # the law of wide layers


@pytest.mark.parametrize("r", [1.2, 1.5, 2.0])
def test_exceptions_become_rare_as_layers_widen(r):
    """(119) and (120), below bounds that are proved at every width."""
    for chance, proved in (
        (chance_of_negative, lambda n: math.exp(-((r - 1) ** 2) * n)),
        (chance_of_norm, lambda n: math.exp(-((r * math.sqrt(8) - 2) ** 2) * n / 2)),
    ):
        found = [chance(n, r) for n in (5, 20, 80, 320)]
        assert found == sorted(found, reverse=True)
        assert all(f <= proved(n) + 1e-15 for f, n in zip(found, (5, 20, 80, 320), strict=True))
        assert found[-1] < 1e-3
    # of weights on the other side they become certain
    assert chance_of_negative(320, 0.9) > 0.999
    assert chance_of_norm(320, 0.6) > 0.999


@pytest.mark.parametrize(
    ("r", "n", "most"), [(0.8, 5, 1), (0.8, 80, 0.08), (1.0, 20, 0.01), (1.2, 20, 0), (2.0, 5, 0)]
)
def test_exceptions_of_weights_that_are_drawn_are_rarer_than_is_proved(r, n, most):
    """Shares of 500 matrices, below `exp(-(√8 r - 2)² n / 2)` and `exp(-(r - 1)² n)`."""
    K = gaussian(500, n, n, seed=n)
    W = weight_spread(n, r) * K
    large = float((norm(W) >= 1).double().mean())
    assert large <= min(most, math.exp(-((r * math.sqrt(8) - 2) ** 2) * n / 2) + 0.02)
    low = torch.linalg.eigvalsh(W + W.mT)[:, 0]
    negative = float((low <= -1).double().mean())
    if r > 1:
        assert negative <= min(most, math.exp(-((r - 1) ** 2) * n) + 0.02)
    elif n == 80:
        assert negative > 0.9  # at r < 1 it becomes certain, where the norm is still small


@given(SEEDS, st.integers(2, 6), st.floats(1.1, 4))
def test_signs_on_both_sides_leave_the_bounds_of_a_skip(seed, n, r):
    """(117) and (118), with the ends of `D₁ W`; those of `W` are other ones."""
    W = weight_spread(n, r) * gaussian(n, n, seed=seed)
    D1, D = gaussian(2, n, seed=seed + 1).sign()
    Mo = D1[:, None] * W
    skip = Skip.of(Mo)
    found = skip_condition_bounds(skip)
    kappa = float(torch.linalg.cond((Mo + eye(n)) * D))
    assert torch.allclose(svdvals(Mo), svdvals(W), atol=ROUNDING)
    if math.isfinite(found.kappa) and found.kappa < 1e6:
        assert kappa == pytest.approx(found.kappa, rel=1e-6)
        for bound in (found.by_norm, found.by_norm_alone, found.by_symmetric_part_alone):
            assert kappa <= bound * (1 + 1e-9)


def test_the_signs_of_a_network_are_not_independent_of_its_weights():
    """Of ends of `D₁ W` the law is that of `W` for signs that are given, not for those of Wz.

    At width 1 the network's `D₁ W` is |W|: its symmetric part is never negative.
    """
    W = weight_spread(1, 0.5) * gaussian(4000, seed=0)
    given_signs, own_signs = -W, W.sign() * W
    below = lambda M: float((2 * M <= -1).double().mean())
    assert below(given_signs) == pytest.approx(below(W), abs=0.03)
    assert below(own_signs) == 0 < 0.1 < below(W)


@pytest.mark.parametrize("r", [0.8, 1.2, 2.0, 3.0])
def test_bounds_of_the_condition_number_tend_to_their_limits(r):
    """(121) and (122) from single draws; from r = 1/√2 the second is there alone."""
    top = r * r + r + 0.5
    by_norm = math.sqrt(top) / (r - math.sqrt(0.5))
    gaps = []
    for n in (50, 200, 500):
        W = weight_spread(n, r) * gaussian(n, n, seed=n)
        low, high = Skip.of(W).ends
        s = float(norm(W))
        wide = s * s + high + 1
        assert math.sqrt(wide) / (1 - s) == pytest.approx(
            by_norm, rel=12 * n ** (-2 / 3) / (r - 0.6)
        )
        if r > 1:
            limits = condition_limits(r)
            assert limits == pytest.approx((math.sqrt(top / (r * r - r)), by_norm))
            found = math.sqrt(wide / (low + 1))
            gaps.append(abs(found / limits[0] - 1))
            assert gaps[-1] < 4 * n ** (-2 / 3) / (r - 1)
        elif n > 100:
            assert low + 1 < 0  # what (121) takes the root of
    assert not gaps or gaps[-1] < 0.05


# ------------------------------------------------------------------------------
# What two activations take.


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_what_two_activations_take_is_between_one_and_the_width(n):
    """Exactly, and `n ν` entries of `D₁ W D - W` are not zero; without a unit off it is 0."""
    for m, before in product(range(n + 1), repeat=2):
        nu = m + before - Fraction(m * before, n)
        inner, outer = torch.arange(n) >= before, torch.arange(n) >= m
        kept = torch.outer(inner.double(), outer.double())
        assert int((kept == 0).sum()) == n * nu
        assert (1 <= nu <= n) if m + before else nu == 0
        assert nu >= m


@given(SEEDS, st.integers(1, 7), st.data())
def test_what_two_activations_change_is_three_sums(seed, n, data):
    """(130) and (131): squares, m doubled diagonal entries and m; then (137) and (138)."""
    off = st.lists(st.booleans(), min_size=n, max_size=n)
    inner, outer = (torch.tensor(data.draw(off)).logical_not().double() for _ in range(2))
    W = 0.1 * gaussian(n, n, seed=seed)
    A, B = W + eye(n), (inner[:, None] * W + eye(n)) * outer
    gone = torch.outer(inner, outer) == 0
    V1, V2 = W[gone].square().sum(), 2 * W.diagonal()[outer == 0].sum()
    m = int((outer == 0).sum())
    assert float((A - B).square().sum()) == pytest.approx(float(V1 + V2 + m))
    s, t = svdvals(A), svdvals(B)
    assert float((s - t).square().sum()) <= float(V1 + V2 + m) * (1 + ROUNDING) + ROUNDING
    low = Skip.of(W).ends[0]
    top = float(norm(W))
    most = (s - t)[: n - m].square()
    assert bool((most <= float(V1 + V2 - m * low) + ROUNDING).all())
    if top < 1:
        assert bool((most <= float(V1 + V2 + 2 * m * top) + ROUNDING).all())


def test_tails_of_chi_squares_and_of_gaussians():
    """(132), (133) and (134), exactly; without the root of k the second would fail."""
    for q in (0.1, 1.0, 4.5, 8.0, 12.5, 50.0):
        for k in (1, 2, 5, 20, 100, 10_000):
            level = k + 2 * math.sqrt(k * q) + 2 * q
            assert scipy.stats.chi2.sf(level, k) <= math.exp(-q)
        assert scipy.stats.chi2.sf(10_000 + 2 * q, 10_000) > math.exp(-q) or q < 1
        assert scipy.stats.norm.sf(math.sqrt(2 * q)) <= math.exp(-q)


def test_steps_of_the_proof_for_two_activations():
    """(140) to (143), and (149), for all widths and counts up to 12; (140) needs θ ≤ 2√k."""
    for n in range(5, 13):
        for m, before in product(range(n), range(n + 1)):
            if m + before == 0:
                continue
            k, nu = n * (m + before) - m * before, m + before - m * before / n
            for theta in np.linspace(4, 2 * math.sqrt(n), 5)[1:]:
                assert (k + math.sqrt(2 * k) * theta + theta**2) / (8 * n) <= nu
                assert 1 + theta / math.sqrt(2) <= theta
                r = 1.001 * (2 + 2 * nu + theta)
                taken, first = (2 * nu + theta) / r, 1 - 1 / r
                printed = (1 - (2 + 2 * nu + theta) / r) / 2
                inner = math.sqrt(1 - 2 / r) - math.sqrt(taken)
                assert inner >= (1 - 2 / r - taken) / (1 + math.sqrt(taken)) >= printed - ROUNDING
                assert first - math.sqrt(taken) >= printed > 0
    k, theta = 5, 4 * math.sqrt(5)
    assert (k + math.sqrt(2 * k) * theta + theta**2) / 8 > k


@given(st.integers(1, 10**6), st.floats(0.1, 50), st.floats(1, 10), st.floats(1e-3, 1e3))
def test_printed_bounds_for_relu_follow_from_the_norm_alone(n, theta, nu, more):
    """With chance `1 - exp(-θ²/2)`, at every width, for all regions at once.

    `s₁(W) ≤ a/r` with that chance, and then interlacing is sharper than (128), (129) and (151);
    and than (148) and (149), for no value moves by more than `2 s₁(W)`.
    """
    a = math.sqrt(0.5) + theta / math.sqrt(8 * n)
    assert (2 * math.sqrt(n) + theta) * weight_spread(n, 1.0) == pytest.approx(a)
    nu = min(nu, n)
    for taken in (nu, n):
        r = (2 + 2 * taken + theta) * (1 + more)
        assert a < 2 + 2 * taken + theta
        sharper = (1 + a / r) / (1 - a / r)
        assert sharper <= 2 * (1 + 1 / r) / (1 - (2 + 2 * taken + theta) / r)
        moved = math.sqrt((2 * taken + theta) / r)
        assert 2 * a / r <= moved
        assert 1 - a / r >= 1 - 1 / r - moved
        for s in (0, a / r / 2, a / r):
            printed = 2 * (1 + s) / (1 - (1 + taken + theta) / r)  # r' = 1, the least
            assert (1 + s) / (1 - s) <= printed


@given(SEEDS, st.integers(1, 7), st.floats(0.01, 0.99), st.data())
def test_two_activations_move_no_value_by_more_than_twice_the_norm(seed, n, size, data):
    """Of those that are not zero, from `W + Id` to `(D₁ W + Id) D`; slopes -1 attain it."""
    off = st.lists(st.booleans(), min_size=n, max_size=n)
    inner, outer = (torch.tensor(data.draw(off)).logical_not().double() for _ in range(2))
    W = gaussian(n, n, seed=seed)
    W = size / float(norm(W)) * W
    kept = int(outer.sum())
    s, t = svdvals(W + eye(n)), svdvals((inner[:, None] * W + eye(n)) * outer)
    assert float((s - t)[:kept].abs().max() if kept else 0) <= 2 * size + ROUNDING
    shared = svdvals(eye(n) - size * eye(n)) - svdvals(eye(n) + size * eye(n))
    assert float(shared.abs().max()) == pytest.approx(2 * size)


@pytest.mark.parametrize("law", ["gaussian", "uniform"])
@pytest.mark.parametrize("n", [5, 10, 25])
def test_layers_are_worse_conditioned_than_their_norm_makes_of_a_skip(law, n):
    """(152) of every draw at r = 2, for any signs; of weights of norm near 1 it often fails."""
    K = gaussian(400, n, n, seed=n)
    if law == "uniform":
        g = torch.Generator().manual_seed(n)
        K = math.sqrt(3) * (2 * torch.rand(400, n, n, generator=g, dtype=torch.float64) - 1)
    signs = gaussian(400, n, seed=n + 1).sign()
    s = svdvals(signs[:, :, None] * K)
    assert torch.allclose(s, svdvals(K), atol=1e-10)
    kappa = s[:, 0] / s[:, -1]

    def share(r):
        top = weight_spread(n, r) * s[:, 0]
        return float(((top < 1) & (kappa >= (1 + top) / (1 - top))).double().mean())

    assert share(2.0) == 1
    near = float(s[:, 0].median()) / math.sqrt(8 * n)
    assert share(near) < 0.5
    # what the limit law leaves below the limit of the right side
    limit = (math.sqrt(2) * 2 + 1) / (math.sqrt(2) * 2 - 1)
    assert EdelmanCondition().cdf(limit / n) < 1e-6


def test_where_the_condition_fails_a_skip_may_make_a_layer_worse():
    """An orthogonal layer has κ = 1, and `(1 + s₁)/(1 - s₁)` is above it."""
    W = 0.5 * torch.diag(matrix([1, -1])[0])
    layer = ResidualLayer.of(W, torch.ones(2), torch.ones(2), r=2.0)
    assert layer.condition(layer.plain).value == pytest.approx(1)
    assert layer.condition(layer.skipped).value == pytest.approx(3)


@pytest.mark.parametrize("n", [2, 5, 20])
def test_small_entries_bound_no_condition_number_without_a_skip(n):
    """The example of Sec. 6.3 has κ = n with entries up to 1/n; another has any κ."""
    example = torch.diag(1 / (n * torch.arange(1, n + 1, dtype=torch.float64)))
    assert float(example.max()) <= 1 / n
    assert float(torch.linalg.cond(example)) == pytest.approx(n)
    for kappa in (1.5, 1e3, 1e6):
        any_kappa = torch.ones(n, dtype=torch.float64) / (2 * n)
        any_kappa[-1] /= kappa
        assert float(torch.linalg.cond(torch.diag(any_kappa))) == pytest.approx(kappa)
        after = float(torch.linalg.cond(torch.diag(any_kappa) + eye(n)))
        assert after <= (1 + 1 / (2 * n)) / (1 - 1 / (2 * n))


def test_the_limit_law_is_concentrated_a_little_below_zero():
    law = TracyWidom()
    assert (law.mean, law.std) == pytest.approx((-1.2065, 1.2680), abs=5e-5)
    assert law.cdf(2.5) - law.cdf(-5) > 0.99
    tails = [law.tail(x) for x in (1, 2, 3, 4)]  # falling faster than geometrically
    shrink = [b / a for a, b in pairwise(tails)]
    assert all(b < a < 0.25 for a, b in pairwise(shrink))


def test_steps_of_the_proofs_for_small_weights():
    """(92) to (99) and (103) to (105), of weights that are as large as they may be.

    The last step of (99) holds as far as its proviso goes, and no further.
    """
    for n, m, share in product((2, 3, 5, 8), (1, 2, 4, 7), (0.05, 0.1, 0.5, 0.99)):
        if m >= n:
            continue
        c = share / n
        for seed in range(4):
            Mo = c * gaussian(n, n, seed=seed).sign() if seed else c * torch.ones(n, n).double()
            M, on = Mo + eye(n), torch.arange(n) >= m
            s, t = svdvals(M), svdvals(M * on)
            gone = (M * on - M).square().sum()
            assert float(gone) <= m * (c * c * n + 2 * c + 1) * (1 + ROUNDING)
            assert float(s[n - m :].square().sum()) >= m * (1 - c * n) ** 2 - ROUNDING
            apart = (s.square() - t.square())[: n - m].abs()
            assert float(apart.max()) <= 2 * m * c * (1 + n) + ROUNDING
            assert float((s - t)[: n - m].abs().max()) ** 2 <= 2 * m * c * (1 + n) + ROUNDING
            assert float((s - t).square().sum()) <= m * (c * c * n + 2 * c + 1) + ROUNDING
            taken = math.sqrt(2 * m * c * (1 + n))
            assert float(t[n - m - 1]) >= 1 - c * n - taken - ROUNDING
            assert (taken <= math.sqrt(m / n)) == (2 * c * n * (1 + n) <= 1)
            least = float(t[n - m - 1]) ** 2 + ROUNDING
            under = (1 - c * n) ** 2 - 2 * m * c * (1 + n)
            assert least >= under >= 1 - 2 * c * (n * n + n) - ROUNDING
            assert under >= 1 - 2 * c * n * (1 + 2 * m) - ROUNDING
            A = M.mT @ M
            size = torch.where(eye(n) > 0, 3 * c + 1, 3 * c)
            assert bool((A.abs() <= size + ROUNDING).all())
            for eta in (0.2, 0.9):
                D = torch.where(on, 1.0, eta).double()
                changed = (A - D[:, None] * A * D).square().sum()
                assert float(changed) <= 4 * (1 - eta) ** 2 * m * (15 / n + 1)
                moved = (svdvals(M * D) - s).square().sum()
                assert float(moved) <= (1 - eta) ** 2 * m * (c * c * n + 2 * c + 1) + ROUNDING
