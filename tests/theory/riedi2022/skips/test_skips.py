from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.records import Verdict
from sigmascope.theory.riedi2022 import OF_SKIPS, Skip, checks
from tests.theory.riedi2022.matrices import gaussian, structured
from tests.theory.riedi2022.told import PART, SKIPS, known

FINE = {Verdict.HOLDS, Verdict.CONSISTENT, Verdict.VACUOUS}


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 7),
    scale=st.floats(0.01, 3),
    rho=st.floats(-2, 2),
)
def test_they_hold_for_any_matrix_and_strength(seed, n, scale, rho):
    for check in checks(Skip.of(scale * gaussian(n, n, seed=seed), rho)):
        assert check.verdict in FINE | {Verdict.INAPPLICABLE}, check
        if check.verdict is Verdict.INAPPLICABLE:
            assert check.theorem.startswith("skip-condition")


@pytest.mark.parametrize("kind", structured(5))
def test_they_hold_for_matrices_with_multiple_values(kind):
    for rho in (-1.0, 0.0, 0.5, 1.0):
        for check in checks(Skip.of(structured(5)[kind], rho)):
            assert check.verdict is not Verdict.VIOLATED, check


@pytest.mark.parametrize("theorem", OF_SKIPS, ids=lambda t: t.name)
def test_they_have_teeth(theorem):
    """Facts that no matrix has: the largest value too large, or the smallest too small."""
    skip = Skip.of(0.1 * gaussian(6, 6, seed=1), 1.0)
    sigma = skip.after.sigma.clone()
    if theorem.sense == "at most":
        sigma[0] += 2.0
    else:
        sigma[-1] *= 0.1
    wrong = replace(skip, after=replace(skip.after, sigma=sigma, low=sigma, high=sigma))
    assert theorem(skip).check().verdict in FINE
    assert theorem(wrong).check().verdict is Verdict.VIOLATED


def test_a_smallest_value_above_less_than_zero_goes_without_saying():
    verdicts = {
        scale: {c.theorem: c for c in checks(Skip.of(scale * gaussian(6, 6, seed=2), 1.0))}
        for scale in (0.01, 5)
    }
    assert verdicts[0.01]["skip-bottom"].verdict is Verdict.HOLDS
    assert verdicts[5]["skip-bottom"].limit.high < 0
    assert verdicts[5]["skip-bottom"].verdict is Verdict.VACUOUS


def test_condition_bounds_decline_outside_their_conditions():
    large = {c.theorem: c for c in checks(Skip.of(5 * gaussian(6, 6, seed=2), 1.0))}
    assert large["skip-condition-norm"].verdict is Verdict.INAPPLICABLE
    backwards = {c.theorem: c for c in checks(Skip.of(0.1 * gaussian(6, 6, seed=2), -1.0))}
    for name in ("skip-condition-norm", "skip-condition-symmetric"):
        assert backwards[name].verdict is Verdict.INAPPLICABLE
        assert any(a.met is False and "ρ > 0" in a.says for a in backwards[name].assumptions)


def test_a_rectangle_is_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`M` must be square"):
        Skip.of(torch.ones(2, 3))


@pytest.mark.parametrize("theorem", OF_SKIPS, ids=lambda t: t.name)
@pytest.mark.parametrize(("t", "rho"), [(0.25, 1.0), (0.125, 0.5)])
def test_every_bound_of_a_skip_is_attained_and_flips_next_to_it(theorem, t, rho):
    """`M = diag(t, -t)`: all inequalities are equalities there."""
    skip = Skip.of(torch.diag(torch.tensor([t, -t])), rho)
    wide = [(rho + t) * (1 + PART), (rho - t) * (1 - PART)]
    narrow = [(rho + t) * (1 - PART), (rho - t) * (1 + PART)]
    assert theorem(skip).check().verdict in {Verdict.CONSISTENT, Verdict.HOLDS}
    for sigma, verdict in ((wide, Verdict.VIOLATED), (narrow, Verdict.HOLDS)):
        moved = replace(skip, after=known(skip.after, *sigma))
        assert theorem(moved).check().verdict is verdict


@pytest.mark.parametrize("name", ["skip-growth", "skip-fall", "skip-top", "skip-bottom"])
def test_a_skip_that_subtracts_changes_the_ends(name):
    """`M = diag(1, -1/2)`, `ρ = -1/4`: values 3/4 and 3/4, τ of 2 and -1."""
    skip = Skip.of(torch.diag(torch.tensor([1.0, -0.5])), -0.25)
    found = SKIPS[name](skip).check()
    # ρ² + ρ τ is 1/16 + 1/4 for τ₋ and 1/16 - 1/2 for τ⁺
    limit = {
        "skip-growth": 5 / 16,
        "skip-fall": -7 / 16,
        "skip-top": 21 / 16,
        "skip-bottom": -3 / 16,
    }
    assert found.limit.value == pytest.approx(limit[name], rel=1e-12)
    assert found.measured.value == pytest.approx(
        {"skip-growth": 5 / 16, "skip-fall": -7 / 16, "skip-top": 9 / 16, "skip-bottom": 9 / 16}[
            name
        ],
        rel=1e-12,
    )
