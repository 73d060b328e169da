"""An adversary for the theorems about matrices: hostile ones, at equality, and on the edge."""

import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from mpmath import diag, eigsy, eye, mpf, sqrt, workdps

from sigmascope.core.records import Verdict
from sigmascope.theory import riedi2022
from sigmascope.theory.riedi2022.random_weights import OF_RESIDUAL_LAYERS
from tests.theory.adversary import precise

MADE = {
    "gaussian": lambda draw: draw,
    "orthogonal": lambda draw: torch.linalg.qr(draw)[0],
    "symmetric": lambda draw: draw + draw.mT,
    "minus identity": lambda draw: -torch.eye(len(draw), dtype=torch.float64),
    "rank one": lambda draw: draw[:, :1] @ draw[:1],
    "diagonal": lambda draw: torch.diag(draw[0]),
    "constant": lambda draw: draw[0, 0].sign().expand(draw.shape),
    "nilpotent": lambda draw: torch.diag(torch.ones(len(draw) - 1, dtype=torch.float64), 1),
    "graded": lambda draw: draw * torch.logspace(0, -10, len(draw), dtype=torch.float64),
    "zero": lambda draw: 0 * draw,
    "small entries": lambda draw: draw.sign() / (2 * len(draw)),
}


def matrix(kind, n, scale, seed):
    g = torch.Generator().manual_seed(seed)
    return scale * MADE[kind](torch.randn(n, n, generator=g, dtype=torch.float64))


SCALES = (1e-6, 1e-3, 0.25, 0.5, 1.0, 2.0, 1e3, 1e6)
SLOPES = ((0.0, 1.0), (-1.0, 1.0), (0.1, 1.0), (1.0, 1.0), (0.0, 0.0), (1e-6, 1.0))
RHOS = (1.0, -1.0, 0.0, 0.5, 1e-6, 1e6, 2.0, -0.25)
DRAWN = next(t for t in OF_RESIDUAL_LAYERS if t.name == "residual-drawn")
FAMILIES = ("skip", "activation", "weights", "residual layer")
MATRICES = st.builds(
    matrix,
    st.sampled_from(tuple(MADE)),
    st.integers(1, 6),
    st.sampled_from(SCALES),
    st.integers(0, 10**6),
)


def facts(kind, A, slopes, rho, seed):
    """What the theorems of one family are about, made of one matrix."""
    n = len(A)
    g = torch.Generator().manual_seed(seed)
    pick = lambda: torch.tensor(slopes, dtype=torch.float64)[torch.randint(2, (n,), generator=g)]
    if kind == "skip":
        return riedi2022.Skip.of(A, rho)
    if kind == "activation":
        return riedi2022.Activation.of(A, pick())
    if kind == "weights":
        off, inner = torch.rand(n, generator=g) < 0.5, pick()
        return riedi2022.Weights.of([A], [inner], off=off, eta=slopes[0]), (off, inner)
    return riedi2022.random_weights.ResidualLayer.of(A, pick(), pick(), r=abs(rho) + 1.5)


def skip_sides(name, A, rho):
    """Both sides of a theorem on skip connections, written again from the paper."""
    M, n, rho = precise.exact(A), len(A), mpf(rho)
    before, after = precise.singular(M), precise.singular(M + rho * eye(n))
    tau = sorted(eigsy(M + M.T, eigvals_only=True))
    least = rho**2 + min(rho * tau[0], rho * tau[-1])
    most = rho**2 + max(rho * tau[0], rho * tau[-1])
    grown = [a**2 - b**2 for a, b in zip(after, before, strict=True)]
    if name == "skip-growth":
        return max(grown), most
    if name == "skip-fall":
        return min(grown), least
    if name == "skip-roots":
        low = [sqrt(max(mpf(0), b**2 + least)) for b in before]
        high = [sqrt(max(mpf(0), b**2 + most)) for b in before]
        pairs = zip(low, after, high, strict=True)
        return max(max(lo - a, a - hi) for lo, a, hi in pairs), mpf(0)
    if name == "skip-reach":
        return max(abs(a - abs(rho)) for a in after), before[0]
    if name == "skip-top":
        return after[0] ** 2, before[0] ** 2 + most
    if name == "skip-bottom":
        return after[-1] ** 2, before[-1] ** 2 + least
    kappa = after[0] / after[-1] if after[-1] > mpf(10) ** -50 else mpf("inf")
    widest = sqrt(max(mpf(0), most + before[0] ** 2))
    if name == "skip-condition-norm":
        return kappa, widest / (rho - before[0])
    return kappa, widest / sqrt(least + before[-1] ** 2)


def activation_sides(name, A, slopes):
    M, n = precise.exact(A), A.shape[1]
    D = diag([mpf(v) for v in slopes.tolist()])
    before, after = precise.singular(M), precise.singular(M * D)
    other = precise.singular(D * M.T)
    eta = min(abs(mpf(v)) for v in slopes.tolist())
    deleted = sum((M[i, j] ** 2 for j in range(n) if slopes[j] == 0 for i in range(M.rows)), mpf(0))
    zero_one = all(v in (0, 1, -1) for v in slopes.tolist())
    pairs = list(zip(before, after, strict=True))
    ratio = lambda s, k: s[0] / s[k - 1] if s[k - 1] > mpf(10) ** -50 else mpf("inf")
    on = n - sum(v == 0 for v in slopes.tolist())
    return {
        "absolute-value-keeps": lambda: (max(abs(a - b) for b, a in pairs), mpf(0)),
        "activation-shrinks": lambda: (max(a - b for b, a in pairs), mpf(0)),
        "activation-leaks": lambda: (min(a - eta * b for b, a in pairs), mpf(0)),
        "activation-condition": lambda: (
            ratio(after, on),
            ratio(before, n) / (1 if zero_one else eta),
        ),
        "activation-loss": lambda: (sum(abs(b**2 - a**2) for b, a in pairs), deleted),
        "activation-shift": lambda: (sum((b - a) ** 2 for b, a in pairs), deleted),
        "activation-sides": lambda: (
            max(abs(a - o) for (_, a), o in zip(pairs, other, strict=True)),
            mpf(0),
        ),
    }[name]()


def weights_sides(name, A, found, off, inner):
    """For one layer `W_1`, written again from the paper."""
    n, c, eta = found.n, mpf(A.abs().max().item()), mpf(found.eta)
    D = diag([mpf(found.eta) if o else mpf(1) for o in off.tolist()])
    Mo = diag([mpf(v) for v in inner.tolist()]) * precise.exact(A)
    M1 = Mo + eye(n)
    MD = M1 * D
    bypassed, skipped, read = (precise.singular(t) for t in (Mo, M1, MD))
    rank = n - (found.m if eta == 0 else 0)
    kappa = read[0] / read[rank - 1] if read[rank - 1] > mpf(10) ** -50 else mpf("inf")
    cn, m = c * n, found.m
    top = 1 + cn
    limits = {
        "hard-absolute": lambda: 1 - cn,
        "hard-relu-any": lambda: sqrt(1 - 2 * cn * (1 + n)),
        "hard-relu-share": lambda: 1 - cn - sqrt(mpf(m) / n),
        "hard-relu-count": lambda: sqrt(1 - 2 * cn * (1 + 2 * m)),
        "hard-leaky-squares": lambda: sqrt((1 - cn) ** 2 - 4 * (1 - eta) * sqrt(mpf(m))),
        "hard-leaky": lambda: 1 - cn - (1 - eta) * sqrt(m * (3 * c + 1)),
        "hard-any": lambda: (1 - cn) * (abs(eta) if eta != 0 and m > 0 else 1),
    }
    if name == "entries-norm":
        return bypassed[0], cn
    if name == "entries-product":
        return max(abs(v) for v in Mo), c
    if name == "entries-skip":
        return max(abs(v - 1) for v in skipped), cn
    return kappa, top / limits[name]()


def residual_sides(name, A, found):
    """Of one layer `W` between slopes, written again from the statements; none of the others."""
    n, W = found.n, precise.exact(A)
    D1, D = (diag([mpf(v) for v in d.tolist()]) for d in (found.inner, found.outer))
    on = [abs(mpf(v)) for v in found.outer.tolist() if v != 0]
    after, plain = precise.singular((D1 * W + eye(n)) * D), precise.singular(D1 * W * D)
    ratio = lambda s: s[0] / s[len(on) - 1] if s[len(on) - 1] > mpf(10) ** -50 else mpf("inf")
    promised = lambda norm: (1 + norm) / (min(on) * (1 - norm))
    limit = {
        "residual-sure": lambda: promised(precise.singular(W)[0]),
        "residual-drawn": lambda: promised((2 * sqrt(mpf(n)) + 4.5) / (mpf(found.r) * sqrt(8 * n))),
        "residual-improves": lambda: ratio(plain),
    }.get(name)
    return limit and (ratio(after), limit())


def attacked(kind, A, slopes, rho, seed):
    found = facts(kind, A, slopes, rho, seed)
    drawn = None
    if kind == "weights":
        found, drawn = found
    checks = list(riedi2022.checks(found))
    if kind == "residual layer":
        # small weights are within what is promised of Gaussian ones of their scale
        told = replace(found, drawn=float(torch.linalg.matrix_norm(A, 2)) < 0.4 / found.r)
        checks = [c for c in checks if c.theorem != "residual-drawn"]
        checks.append(DRAWN(told).check())
    with workdps(60):
        for c in checks:
            assert c.verdict != Verdict.VIOLATED, c
            if c.verdict == Verdict.INAPPLICABLE:
                assert c.measured is None
                continue
            if any(a.met is None for a in c.assumptions):
                continue  # on the edge of a condition a limit is not defined
            if kind == "residual layer" and residual_sides(c.theorem, A, found) is None:
                continue
            measured, limit = {
                "residual layer": lambda c=c: residual_sides(c.theorem, A, found),
                "skip": lambda c=c: skip_sides(c.theorem, A, rho),
                "activation": lambda c=c: activation_sides(c.theorem, A, found.slopes),
                "weights": lambda c=c: weights_sides(c.theorem, A, found, *drawn),
            }[kind]()
            assert precise.said(str(c.verdict), c.sense, measured, limit), (c, measured, limit)
            assert precise.contains(c.measured, measured), (c, measured)
            assert precise.contains(c.limit, limit), (c, limit)
    return Counter((c.theorem, str(c.verdict)) for c in checks)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("kind", FAMILIES)
@settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)
@given(MATRICES, st.sampled_from(SLOPES), st.sampled_from(RHOS), st.integers(0, 10**6))
def test_no_verdict_is_false(kind, A, slopes, rho, seed):
    attacked(kind, A, slopes, rho, seed)


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_see_it")
def test_of_very_many_verdicts_none_is_false(capsys):
    numbers, counts = random.Random(0), Counter()
    while counts.total() < 20_000:
        pick = numbers.choice
        A = matrix(pick(tuple(MADE)), numbers.randint(1, 6), pick(SCALES), numbers.randrange(10**6))
        slopes, rho, seed = pick(SLOPES), pick(RHOS), numbers.randrange(10**6)
        for kind in FAMILIES:
            counts += attacked(kind, A, slopes, rho, seed)
    with capsys.disabled():
        print(f"\n{counts.total()} checks of matrices, none with a fault")
