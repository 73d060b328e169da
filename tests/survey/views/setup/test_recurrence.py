"""The step factor is read of recurrent layers, and of nothing else."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from tests.survey.views.setup.test_dependences import read


class Reads(nn.Module):
    def __init__(self, layer, packs=False):
        super().__init__()
        self.layer, self.packs = layer, packs
        self.last = nn.Linear(layer.hidden_size, 2)

    def forward(self, x):
        if self.packs:
            lengths = torch.full((len(x),), x.shape[1])
            return self.last(self.layer(pack_padded_sequence(x, lengths, batch_first=True))[1][0])
        return self.last(self.layer(x)[0][:, -1])


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_factor_of_each_step_is_read(factor):
    layer = nn.RNN(3, 4, nonlinearity="relu", batch_first=True)
    with torch.no_grad():
        layer.weight_ih_l0.abs_()
        layer.weight_hh_l0.copy_(factor * torch.eye(4))
        layer.bias_ih_l0.zero_()
        layer.bias_hh_l0.zero_()
    found = read(Reads(layer), torch.rand(12, 20, 3))
    assert found["layer", "steps"].estimate.value == 20
    e = found["layer", "step factor"].estimate
    assert e.low <= factor * (1 + 1e-9)
    assert e.high >= factor * (1 - 1e-9)
    assert e.value == pytest.approx(factor, rel=1e-6)


def test_its_interval_holds_the_norm_of_the_derivative():
    for seed in range(8):
        torch.manual_seed(seed)
        model, x = Reads(nn.LSTM(3, 16, batch_first=True)), torch.randn(16 + seed, 30, 3)
        e = read(model, x)["layer", "step factor"].estimate
        layer, rows = model.layer.double(), x.double().requires_grad_()
        total = torch.zeros(16 + seed, 30, dtype=torch.float64)
        last = layer(rows)[0][:, -1]
        for unit in range(16):
            (g,) = torch.autograd.grad(last[:, unit].sum(), rows, retain_graph=True)
            total += g.square().sum(2)
        logs = total.log().mean(0).flip(0) / 2
        back = torch.arange(30.0).double() - 14.5
        exact = float((back @ logs / back.square().sum()).exp())
        assert e.low <= exact <= e.high
        assert e.high / e.low < 1 + 1e-9


def test_what_is_short_or_packed_has_none():
    layer = nn.GRU(3, 4, batch_first=True)
    assert ("layer", "step factor") not in read(Reads(layer), torch.rand(12, 7, 3))
    assert ("layer", "step factor") in read(Reads(layer), torch.rand(12, 8, 3))
    assert ("layer", "step factor") not in read(Reads(layer, packs=True), torch.rand(12, 9, 3))
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert not [q for _, q in read(plain, torch.rand(12, 3)) if q == "step factor"]


@pytest.mark.parametrize(("off", "factor"), [(3, 0.5), (5, 0.0)])
def test_samples_that_pass_nothing_back_count_where_they_are_most(off, factor):
    layer = nn.RNN(1, 1, nonlinearity="relu", batch_first=True, bias=False)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1.0)
        layer.weight_hh_l0.fill_(0.5)
    x = torch.ones(8, 20, 1)
    x[:off] = -1.0
    found = read(Reads(layer), x)["layer", "step factor"].estimate
    assert found.value == pytest.approx(factor, abs=1e-9)
