import pytest
import torch
from affine_zoo import D, Doubled, Reversed, hooked, through
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.theory.piecewise_affine import (
    jacobian,
    local_affine,
    region_distance,
    regions_along,
)


def test_a_function_with_its_own_derivative_is_tried_by_differences():
    model, x, _ = through(Doubled.apply)
    J = 2 * model.last.weight @ model.first.weight
    assert torch.allclose(jacobian(model, x).dense(), J)
    with pytest.raises(Refusal, match="got other differences with `Reversed`"):
        jacobian(through(Reversed.apply)[0], x)


def test_hooks_on_gradients_do_not_pass_for_slopes():
    model, x, y = through(hooked)
    with pytest.raises(Refusal, match="evaluated again, got other numbers"):
        local_affine(model, x)
    with pytest.raises(Refusal, match="evaluated again, got other numbers"):
        regions_along(model, x, y)


def test_a_sample_on_a_boundary_has_no_map():
    model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 2)).double()
    zero = torch.zeros(1, 4, dtype=D)
    with pytest.raises(Refusal, match=r"must lie inside a region, got one where `relu`.*Move it"):
        local_affine(model, zero)
    assert region_distance(model, zero) == 0
