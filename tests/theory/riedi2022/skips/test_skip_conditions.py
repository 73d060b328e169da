"""Every bound of the condition number with a skip connection, beside the number itself."""

import math

import pytest
import torch

from sigmascope.theory.riedi2022 import Skip, skip_condition_bounds
from tests.theory.riedi2022.matrices import gaussian
from tests.theory.riedi2022.told import PART, SKIPS


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
