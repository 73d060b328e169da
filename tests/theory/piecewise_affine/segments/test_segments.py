import pytest
import torch
from affine_zoo import PIECEWISE, D, built, through
from torch import nn
from torch.nn import functional as F

from sigmascope.theory.piecewise_affine import (
    local_affine,
    region_distance,
    regions_along,
)


def test_a_part_of_a_network():
    model, x, _ = built("relu")
    found = local_affine(model, x, start="hidden.1", stop="hidden.2.linear")
    z = model.hidden[0](x)
    assert found.matrix.shape == (7, 7)
    assert torch.allclose(found.output, model.hidden[2].linear(model.hidden[1](z)).flatten())
    W1, W2 = model.hidden[1].linear.weight, model.hidden[2].linear.weight
    on = (model.hidden[1].linear(z) > 0).double()
    assert torch.allclose(found.matrix.dense(), W2 @ (on.T * W1), atol=1e-14)


def test_large_maps_are_products_and_agree(monkeypatch):
    from sigmascope.theory.piecewise_affine import segments

    model, x, _ = built("max-pooling")
    dense = local_affine(model, x).matrix.dense()
    monkeypatch.setattr(segments, "DENSE", 0)
    free = local_affine(model, x).matrix
    v, y = torch.randn(200, 3, dtype=D), torch.randn(4, 2, dtype=D)
    assert torch.allclose(free.apply(v), dense @ v, atol=1e-13)
    assert torch.allclose(free.adjoint(y), dense.mT @ y, atol=1e-13)


def test_an_output_is_taken_before_it_is_changed_in_place():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)).double()
    x = torch.randn(1, 4, dtype=D)
    found = local_affine(model, x, stop="0")
    assert torch.equal(found.matrix.dense(), model[0].weight)
    assert torch.allclose(found.output, model[0](x)[0])
    inner = local_affine(model, x, start="1")
    assert inner.matrix.shape == (2, 6)


def test_float32_is_answered_as_the_same_network_in_float64():
    model, x, y = through(F.relu, PIECEWISE["clip"])
    wide = region_distance(model, x), regions_along(model, x, y).at
    J = local_affine(model, x).matrix.dense()
    narrow = model.float()
    state = torch.get_rng_state()
    found = local_affine(narrow, x.float())
    assert found.matrix.like.dtype == found.offset.dtype == found.output.dtype == torch.float32
    assert torch.allclose(found.matrix.dense().double(), J, atol=1e-6)
    assert region_distance(narrow, x.float()) == pytest.approx(wide[0], rel=1e-5)
    assert regions_along(narrow, x.float(), y.float()).at == pytest.approx(wide[1], rel=1e-4)
    assert torch.equal(torch.get_rng_state(), state)
    assert next(narrow.parameters()).dtype == torch.float32
