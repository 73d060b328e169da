"""Gradients over the steps of a recurrent layer, next to written-out derivatives."""

import math

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from sigmascope.probes.sequences import slope, step_gradients

KINDS = (nn.RNN, nn.LSTM, nn.GRU)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(
    kind=st.sampled_from(KINDS),
    batch_first=st.booleans(),
    both=st.booleans(),
    layers=st.integers(1, 2),
    steps=st.integers(2, 12),
    seed=st.integers(0, 99),
)
def test_with_one_unit_it_is_the_derivative(kind, batch_first, both, layers, steps, seed):
    """Signs of one unit square to one, so that nothing is left to chance."""
    torch.manual_seed(seed)
    layer = kind(2, 1, layers, batch_first=batch_first, bidirectional=both)
    x = torch.randn(steps, 3, 2)
    found = step_gradients(layer, x.transpose(0, 1) if batch_first else x, generator=generator())
    exact = layer.double()
    rows = x.double().requires_grad_()
    read = rows.transpose(0, 1) if batch_first else rows
    last = exact(read)[0].transpose(0, 1)[-1] if batch_first else exact(read)[0][-1]
    (g,) = torch.autograd.grad(last[:, 0].sum(), rows)
    expected = g.square().mean(2).sqrt().log().flip(0)
    for i, row in enumerate(found):
        torch.testing.assert_close(row, expected[:, i % 3], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("factor", [0.02, 0.5, 1.0, 1.6, 30.0])
def test_a_layer_that_multiplies_has_its_factor(factor):
    layer = nn.RNN(3, 4, nonlinearity="relu", bias=False)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.rand(4, 3, generator=generator()) + 0.1)
        layer.weight_hh_l0.copy_(factor * torch.eye(4))
    logs = step_gradients(layer, torch.rand(90, 5, 3, generator=generator()), generator=generator())
    for row in logs:  # 0.02^89 is no number of single precision
        assert math.exp(slope(row)) == pytest.approx(factor, rel=1e-6)


def test_projections_and_long_sequences():
    torch.manual_seed(0)
    layer = nn.LSTM(2, 6, proj_size=3)
    logs = step_gradients(layer, torch.randn(700, 40, 2), generator=generator())
    assert logs.shape == (16, 256)
    assert bool(logs.isfinite().all())


def test_gradients_that_are_zero():
    layer = nn.RNN(2, 3, nonlinearity="relu")
    with torch.no_grad():
        layer.bias_ih_l0.fill_(-100.0)
    logs = step_gradients(layer, torch.randn(9, 4, 2), generator=generator())
    assert bool((logs == -math.inf).all())
    assert slope(logs[0]) == -math.inf


def test_the_layer_is_left_as_it_was():
    torch.manual_seed(0)
    layer = nn.LSTM(2, 3, 2, dropout=0.5).half()
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    x, state = torch.randn(9, 4, 2), torch.random.get_rng_state()
    step_gradients(layer, x, generator=generator())
    assert layer.training
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(v, before[k]) for k, v in layer.state_dict().items())
    assert all(p.grad is None and p.dtype == torch.float16 for p in layer.parameters())


@given(st.floats(-5, 5), st.floats(-50, 50), st.integers(2, 40))
def test_the_slope_of_a_line_is_found_in_spite_of_gaps(rise, start, count):
    line = start + rise * torch.arange(count, dtype=torch.float64)
    line = torch.cat([line, torch.tensor([-math.inf], dtype=torch.float64)])
    assert slope(line) == pytest.approx(rise, abs=1e-9)
