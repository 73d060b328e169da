"""Squared norms of all parameters at once."""

import math

import pytest
import torch
from torch import nn

from sigmascope.watching.parameters import places
from sigmascope.watching.probes.norms import Squares
from sigmascope.watching.processes import Processes
from tests.watching.made import stack


def made(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer, Squares(places(model, [optimizer]), Processes())


def norms(model, dtype=None):
    if dtype:
        model = model.to(dtype)
    optimizer, squares = made(model)
    out = squares.empty()
    with torch.no_grad():
        squares.add(out, optimizer, lambda i: squares.parameters[i])
    return squares, squares.norms(out.flatten(), all)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_norms_are_those_of_each_layer_within_their_error(dtype):
    model = stack(7, 5, 3)
    squares, found = norms(model, dtype)
    for site, value in found.items():
        layer = model.get_submodule(site)
        true = math.sqrt(sum(float(p.detach().double().square().sum()) for p in layer.parameters()))
        assert abs(value - true) <= true * squares.error
        assert squares.error < 1e-4


def test_norms_that_leave_the_format_are_not_infinite():
    model = nn.Linear(4, 4, bias=False)
    nn.init.constant_(model.weight, 1e25)
    _, found = norms(model)
    assert found["(model)"] == pytest.approx(4e25, rel=1e-6)


def test_half_precision_does_not_overflow():
    model = nn.Linear(4, 4, bias=False)
    nn.init.constant_(model.weight, 6e4)
    _, found = norms(model, torch.float16)
    assert found["(model)"] == pytest.approx(4 * 6e4, rel=1e-2)


def test_what_is_not_finite_shows():
    model = stack(3, 2, 2)
    with torch.no_grad():
        model[0].weight[0, 0] = math.nan
        model[2].weight[0, 0] = math.inf
    _, found = norms(model)
    assert math.isnan(found["0"])
    assert found["2"] == math.inf


def test_a_place_of_which_nothing_was_read_has_no_norm():
    model = stack(3, 2, 2)
    optimizer, squares = made(model)
    out = squares.empty()
    with torch.no_grad():
        squares.add(out, optimizer, lambda i: squares.parameters[i] if i == 0 else None)
    assert squares.norms(out.flatten(), all) == {}
    assert [*squares.norms(out.flatten(), any)] == ["0"]
