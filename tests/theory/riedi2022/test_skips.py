import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.core.records import Verdict
from sigmascope.theory.riedi2022 import OF_SKIPS, Skip, checks, skip_condition_bounds
from tests.theory.riedi2022.told import PART, SKIPS, gaussian, known, structured


def test_the_four_condition_bounds_of_a_skip():
    """`M = [[0.3, 0.4], [0, 0]]`: `s` of 0.5 and 0, `τ` of 0.8 and -0.2."""
    found = skip_condition_bounds(Skip.of(torch.tensor([[0.3, 0.4], [0.0, 0.0]]).double(), 1.0))
    widest = math.sqrt(1 + 0.8 + 0.25)
    assert found.by_norm == pytest.approx(widest / 0.5)
    assert found.by_norm_alone == pytest.approx(1.5 / 0.5)
    assert found.by_symmetric_part == pytest.approx(widest / math.sqrt(1 - 0.2))
    assert found.by_symmetric_part_alone == pytest.approx(1.5 / math.sqrt(1 - 0.2))
    lam = [(1.3**2 + 0.4**2 + 1) / 2 + sign * math.sqrt(1.425**2 - 1.69) for sign in (1, -1)]
    assert found.kappa == pytest.approx(math.sqrt(lam[0] / lam[1]))


@pytest.mark.parametrize(("t", "finite"), [(1 - PART, True), (1.0, False), (1 + PART, False)])
def test_the_bound_by_the_norm_ends_where_the_norm_reaches_the_strength(t, finite):
    skip = Skip.of(torch.diag(torch.tensor([t, 0.5], dtype=torch.float64)), 1.0)
    found = skip_condition_bounds(skip)
    assert math.isfinite(found.by_norm) is math.isfinite(found.by_norm_alone) is finite
    met = SKIPS["skip-condition-norm"](skip).assumptions()[1].met
    assert met is (None if t == 1 else finite)  # rounding hides on which side of the edge it is


def test_the_bound_by_the_symmetric_part_ends_where_it_takes_the_strength_away():
    """`M = -Id / 2`: `ρ² + ρ τ₋` is exactly zero, and only `sₙ` is left of the root."""
    found = skip_condition_bounds(Skip.of(-0.5 * torch.eye(3, dtype=torch.float64), 1.0))
    assert found.by_symmetric_part_alone == math.inf
    assert found.by_symmetric_part == pytest.approx(0.5 / 0.5)


@pytest.mark.parametrize("end", [0, 1])
def test_the_symmetric_part_is_known_half_as_well_as_the_layer(end):
    skip = Skip.of(gaussian(5, 5, seed=1))
    width = lambda e: e.high - e.low
    assert skip.first.low < skip.first.value < skip.first.high
    assert width(skip.tau[end]) == pytest.approx(2 * width(skip.first), rel=0.3, abs=0)


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


def test_a_negative_strength_and_a_rectangle_are_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`rho` must be above 0"):
        skip_condition_bounds(Skip.of(torch.eye(2), -1.0))
    with pytest.raises(ValueError, match="`M` must be square"):
        Skip.of(torch.ones(2, 3))


FINE = {Verdict.HOLDS, Verdict.CONSISTENT, Verdict.VACUOUS}


@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 7), scale=st.floats(0.01, 3), rho=st.floats(-2, 2)
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
    for rho in (-1.0, 0.0):
        found = {c.theorem: c for c in checks(Skip.of(0.1 * gaussian(6, 6, seed=2), rho))}
        for name in ("skip-condition-norm", "skip-condition-symmetric"):
            assert found[name].verdict is Verdict.INAPPLICABLE
            assert any(a.met is False and "ρ > 0" in a.says for a in found[name].assumptions)


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


@pytest.mark.parametrize(
    ("name", "measured", "limit"),
    [
        ("skip-growth", 5 / 16, 5 / 16),
        ("skip-fall", -7 / 16, -7 / 16),
        ("skip-top", 9 / 16, 21 / 16),
        ("skip-bottom", 9 / 16, -3 / 16),
    ],
)
def test_a_skip_that_subtracts_changes_the_ends(name, measured, limit):
    """`M = diag(1, -1/2)`, `ρ = -1/4`: `ρ² + ρ τ` is 1/16 + 1/4 and 1/16 - 1/2."""
    found = SKIPS[name](Skip.of(torch.diag(torch.tensor([1.0, -0.5])), -0.25)).check()
    assert found.limit.value == pytest.approx(limit, rel=1e-12)
    assert found.measured.value == pytest.approx(measured, rel=1e-12)
