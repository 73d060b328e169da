"""Readings of what outputs depend on next to direct computations."""

import pytest
import torch
from torch import nn

from sigmascope import survey


def read(model, x, seed=0):
    torch.manual_seed(seed)
    found = survey.profile(model, x, views=["setup"])
    return {(r.site, r.quantity): r for r in found.readings}


class Crosses(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.b(self.a(x).t().reshape(x.shape).tanh())


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 4), nn.Linear(5, 4)

    def forward(self, x, y):
        return self.a(x) @ self.b(y).mT


def test_samples_that_mix():
    torch.manual_seed(0)
    x = torch.randn(12, 5)
    r = read(Crosses(), x)["(model)", "dependence on other samples"]
    assert r.estimate.value > 0.1
    assert r.form == "rows"
    r = read(Towers(), (x, x.flip(0)))["(model)", "dependence on other samples"]
    assert r.form == "pairs"
    plain = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    assert ("(model)", "dependence on other samples") not in read(plain, x)


def test_layers_without_use():
    class Some(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 5)
            self.tied, self.off = nn.Linear(5, 5), nn.Linear(5, 5).requires_grad_(False)
            self.tied.weight = self.a.weight

        def forward(self, x):
            return nn.functional.linear(self.a(x).relu(), self.b.weight)

    found = read(Some(), torch.randn(6, 5))
    assert [site for site, q in found if q == "times called"] == ["c"]


def test_statistics_that_do_not_fit():
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(6)
    model = nn.Sequential(nn.Linear(5, 6), norm, nn.ReLU(), nn.Linear(6, 3))
    x = torch.randn(200, 5)
    for _ in range(200):
        model(x)
    fits = read(model.eval(), x)["1", "normalised square"].estimate.value
    assert fits == pytest.approx(1.0, abs=0.1)
    norm.running_var.mul_(0.04)
    assert read(model, x)["1", "normalised square"].estimate.value == pytest.approx(25 * fits, 0.05)
    assert ("1", "normalised square") not in read(model.train(), x)
    norm.reset_running_stats()  # which is another fault
    assert ("1", "normalised square") not in read(model.eval(), x)


def test_batch_statistics_are_counted():
    parts = [nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.BatchNorm1d(6), nn.Linear(6, 3)]
    model, x = nn.Sequential(*parts), torch.randn(9, 5)
    assert read(model, x)["(model)", "batch statistics"].estimate.value == 2.0
    assert ("(model)", "batch statistics") not in read(model.eval(), x)


def test_dropout_and_pairs_are_read():
    model = nn.Sequential(nn.Linear(5, 300), nn.Dropout(0.9), nn.Linear(300, 3))
    found = read(model, torch.randn(9, 5))
    assert found["1", "dropped share"].estimate.value == pytest.approx(0.9, abs=0.03)
    pair = found["2", "spare width"]
    assert pair.form == "after 0"
    assert pair.estimate.value == 100.0
