from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.records import Verdict
from sigmascope.theory.riedi2022 import OF_SKIPS, Skip, checks, skip_condition_bounds
from tests.theory.riedi2022.matrices import gaussian, structured

FINE = {Verdict.HOLDS, Verdict.CONSISTENT}


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


def test_condition_bounds_decline_outside_their_conditions():
    large = {c.theorem: c for c in checks(Skip.of(5 * gaussian(6, 6, seed=2), 1.0))}
    assert large["skip-condition-norm"].verdict is Verdict.INAPPLICABLE
    backwards = {c.theorem: c for c in checks(Skip.of(0.1 * gaussian(6, 6, seed=2), -1.0))}
    for name in ("skip-condition-norm", "skip-condition-symmetric"):
        assert backwards[name].verdict is Verdict.INAPPLICABLE
        assert any(a.met is False and "ρ > 0" in a.says for a in backwards[name].assumptions)


def test_bounds_are_ordered_and_above_the_truth():
    for seed in range(200):
        found = skip_condition_bounds(Skip.of(0.15 * gaussian(5, 5, seed=seed)))
        assert found.kappa <= found.by_norm <= found.by_norm_alone
        assert found.kappa <= found.by_symmetric_part <= found.by_symmetric_part_alone


def test_bounds_of_a_weaker_skip_are_those_of_a_larger_layer():
    M = 0.1 * gaussian(5, 5, seed=3)
    weak, strong = (skip_condition_bounds(Skip.of(a * M, a)) for a in (0.5, 1.0))
    assert weak.by_norm == pytest.approx(strong.by_norm)
    assert weak.by_symmetric_part == pytest.approx(strong.by_symmetric_part)


def test_the_second_bound_needs_less_than_is_printed():
    """`τ₋ < -1` and still `1 + τ₋ + sₙ² > 0`."""
    M = torch.tensor([[-0.9, -0.6], [0.6, -0.9]])
    skip = Skip.of(M)
    assert skip.ends[0] < -1
    found = skip_condition_bounds(skip)
    assert found.by_symmetric_part_alone == float("inf")
    assert found.kappa <= found.by_symmetric_part < float("inf")


def test_a_negative_strength_and_a_rectangle_are_refused():
    with pytest.raises(ValueError, match="`rho` must be above 0"):
        skip_condition_bounds(Skip.of(torch.eye(2), -1.0))


def test_a_rectangle_is_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`M` must be square"):
        Skip.of(torch.ones(2, 3))
