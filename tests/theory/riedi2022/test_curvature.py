"""The quadratic form of the loss in one layer's weights, by hand."""

import math

import pytest
import torch

from sigmascope.theory.riedi2022 import loss_curvature, neuron_limit


def test_the_quadratic_form_of_two_samples_by_hand():
    """`M₁ = 2`, `M₂ = 1`, `z₁ = (3, 0)`, `z₂ = (0, 1)`: eigenvalues 36/2 and 1/2."""
    Ms, Z = [torch.tensor([[2.0]]), torch.tensor([[1.0]])], torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    found = loss_curvature(Ms, Z)
    assert found.lam.tolist() == pytest.approx([18, 0.5])
    assert found.condition == pytest.approx(6)
    assert (found.layer_factor, found.data_factor) == pytest.approx((2, 3))
    assert found.limit == pytest.approx(6)
    assert found.printed_block_diagonal is None


def test_the_limit_of_units_by_hand():
    """Unit 0 is on at samples of singular values 4 and 2, unit 1 at one of 3; `C/c` is 5."""
    Ms = [torch.diag(torch.tensor([5.0, 1.0])), torch.eye(2)]
    Z = torch.tensor([[4.0, 0.0], [0.0, 2.0]])
    on = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    assert neuron_limit(Ms, on, Z) == pytest.approx(5 * 4 / 2)
    # of a unit that is on at the first alone, and one that is never on
    assert neuron_limit(Ms, torch.tensor([[1.0, 0.0], [0.0, 0.0]]), Z) == pytest.approx(5)
    assert neuron_limit(Ms, torch.zeros(2, 2), Z) == math.inf
    small = 0.1 * Z  # below one, and of a scale that falls out
    assert neuron_limit(Ms, on, small) == pytest.approx(10)


@pytest.mark.parametrize("M", [torch.diag(torch.tensor([1.0, 0.0])), torch.ones(1, 2)])
def test_matrices_that_drop_a_direction_bound_nothing(M):
    assert neuron_limit([M], torch.ones(1, 2), torch.ones(1, 2)) == math.inf
    assert loss_curvature([M], torch.ones(1, 2)).layer_factor == math.inf
