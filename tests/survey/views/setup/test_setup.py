"""Readings of the setup are what they are defined as, on models of every kind."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey


def read(model, x, y=None, loss=None):
    measured = survey.profile(model, x, targets=y, loss=loss, views=["setup"])
    return {(r.site, r.quantity): r.estimate.value for r in measured.readings}


def test_gain_is_of_differences_and_ignores_biases():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    with torch.no_grad():
        for layer, scale in zip(model, (2.0, 0.5), strict=True):
            nn.init.eye_(layer.weight).mul_(scale)
            nn.init.constant_(layer.bias, 100.0)
    found = read(model, torch.randn(50, 3))
    assert found["0", "gain"] == pytest.approx(2.0)
    assert found["1", "gain"] == pytest.approx(0.5)
    assert found["1", "written variation"] < 0.03


def test_copies_are_counted():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    x = torch.randn(30, 4)
    assert read(model, x)["2", "distinct units"] == 1.0
    with torch.no_grad():
        model[0].weight[4:] = model[0].weight[:4]
        model[0].bias[4:] = model[0].bias[:4]
    assert read(model, x)["2", "distinct units"] == 0.5
    nn.init.constant_(model[0].weight, 0.1)
    nn.init.constant_(model[0].bias, 0.1)
    different = read(model, x)  # their gradients are, by what the next layer makes of them
    assert different["0.weight", "distinct units"] == 1.0
    assert different["2", "distinct units"] == 1 / 8
    nn.init.constant_(model[2].weight, 0.1)
    assert read(model, x)["0.weight", "distinct units"] == 1 / 8


def test_rows_that_are_equal_by_design_are_no_copies():
    """As the decays of a state space model: equal rows that meet different channels."""

    class Decays(nn.Module):
        def __init__(self):
            super().__init__()
            self.log = nn.Parameter(torch.arange(1.0, 5.0).log().expand(6, 4).clone())
            self.table = nn.Parameter(torch.arange(5.0).expand(6, 5).clone(), requires_grad=False)

        def forward(self, x):
            return (x[..., None] * (-self.log.exp())).sum(-1) + 0 * self.table.sum()

    torch.default_generator.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 6), Decays(), nn.Linear(6, 2)), torch.randn(30, 4)
    found = read(model, x)
    assert found["1.log", "distinct units"] == 1.0
    assert ("1.table", "distinct units") not in found


def test_gradients_are_those_of_autograd():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    found = read(model, x, y, F.cross_entropy)
    F.cross_entropy(model(x), y).backward()
    weight = model[0].weight
    relative = weight.grad.norm() / weight.detach().norm()
    assert found["0.weight", "relative gradient"] == pytest.approx(relative.item(), rel=1e-5)


def test_zeros_and_what_is_frozen():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    nn.init.zeros_(model[2].weight)
    model[0].bias.requires_grad_(False)
    found = read(model, x, y, F.cross_entropy)
    assert found["2.weight", "gradient of a zero weight"] > 0
    assert found["0.weight", "relative gradient"] == 0
    assert found["0.bias", "frozen entries"] == 8


@pytest.mark.parametrize(("training", "touched"), [(True, False), (False, True), (False, False)])
def test_untouched_statistics(training, touched):
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    if touched:
        model(torch.randn(30, 4))
    model.train(training)
    found = read(model, torch.randn(30, 4))
    assert (("1", "batches seen") in found) == (not training and not touched)


def test_denormal_numbers_are_counted():
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(8, 3))
    nn.init.constant_(model[0].weight, 1e-20)
    assert read(model, torch.full((6, 4), 1e-20))["0", "denormal entries"] == 48


def test_zeros_that_other_zeros_hold_are_told_from_those_that_constants_do():
    class Branch(nn.Module):
        def __init__(self, mask):
            super().__init__()
            self.a, self.b = nn.Linear(4, 6, bias=False), nn.Linear(6, 4, bias=False)
            self.mask = nn.Parameter(torch.full((4,), mask), requires_grad=False)
            nn.init.zeros_(self.a.weight)
            nn.init.zeros_(self.b.weight)

        def forward(self, x):
            return x + self.mask * self.b(self.a(x))

    torch.default_generator.manual_seed(0)
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    for mask, form in ((1.0, ""), (0.0, "cut")):
        model = nn.Sequential(Branch(mask), nn.Linear(4, 3))
        measured = survey.profile(model, x, targets=y, loss=F.cross_entropy, views=["setup"])
        forms = {r.site: r.form for r in measured.series("gradient of a zero weight")}
        assert forms["0.a.weight"] == forms["0.b.weight"] == form


class Last(nn.Module):
    """The last state of an LSTM, which holds a list of its weights beside their names."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0][:, -1]


def behind_zeros():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), Last(), nn.Linear(6, 3))
    nn.init.constant_(model[1].lstm.weight_ih_l0, -0.0)
    return model, torch.randn(20, 5, 4), torch.randint(3, (20,))


def test_what_lies_behind_zeros_is_seen_without_a_copy_of_the_model(monkeypatch):
    def refused(*_):
        raise MemoryError

    model, x, y = behind_zeros()
    monkeypatch.setattr(copy, "deepcopy", refused)
    measured = survey.profile(model, x, targets=y, loss=F.cross_entropy, views=["setup"])
    forms = {r.site: r.form for r in measured.series("relative gradient")}
    assert forms["0.weight"] == forms["0.bias"] == "behind zeros"
    assert forms["2.weight"] == ""


@pytest.mark.parametrize("end", ["success", "failure"])
def test_zeros_are_where_they_were_afterwards(end):
    model, x, y = behind_zeros()
    held = model[1].lstm.weight_ih_l0
    seen = set()

    def look(*_):
        seen.add(bool(held.any()))
        if end == "failure" and held.any():
            raise ValueError("not with these")

    model[2].register_forward_hook(look)
    places = [p.data_ptr() for p in model.parameters()]
    measured = survey.profile(model, x, targets=y, loss=F.cross_entropy, views=["setup"])
    assert seen == {False, True}  # it was run with other numbers
    assert any("not with these" in s.why for s in measured.skipped) == (end == "failure")
    assert [p.data_ptr() for p in model.parameters()] == places
    assert not held.any()
    assert held.signbit().all()
    assert held is model[1].lstm._flat_weights[0]
