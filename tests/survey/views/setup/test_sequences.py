"""Readings of sequence models next to direct computations."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import sources, survey

N, T, V, D = 8, 12, 11, 16


class Model(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.read, self.cell = nn.Embedding(V, D), nn.GRU(D, D, 1, batch_first=True)
        self.back = None if causal else nn.GRU(D, D, 1, batch_first=True)
        self.write = nn.Linear(D, V)

    def forward(self, ids):
        x = self.read(ids)
        h = self.cell(x)[0]
        if self.back is not None:
            h = h + self.back(x.flip(1))[0].flip(1)
        return self.write(h)


def loss(o, t):
    return F.cross_entropy(o.flatten(0, 1), t.flatten())


def text():
    g = torch.Generator().manual_seed(0)
    return torch.randint(1, V, (N, T + 1), generator=g)


def read(model, x, t, by=loss):
    torch.manual_seed(0)
    found = survey.profile(model, x, targets=t, loss=by, views=["setup"])
    return {r.quantity: r for r in found.readings if r.site.startswith("(")}


def test_a_language_model():
    rows = text()
    found = read(Model(), rows[:, :-1], rows[:, 1:])
    assert found["next inputs"].estimate.value == 1.0
    assert found["next inputs"].site == "(input)"
    assert found["targets that are inputs"].estimate.value < 0.3
    assert found["dependence on later inputs"].estimate.value == 0.0
    assert "counted padding" not in found
    assert (
        read(Model(causal=False), rows[:, :-1], rows[:, 1:])[
            "dependence on later inputs"
        ].estimate.value
        > 1e-2
    )


def test_a_loss_that_shifts_by_itself():
    rows = text()[:, :-1]
    by = lambda o, t: loss(o[:, :-1], t[:, 1:])
    found = read(Model(), rows, rows, by)
    assert found["next inputs"].estimate.value == 1.0
    assert found["targets that are inputs"].estimate.value < 0.3


def test_copies_have_no_order_to_ask_for():
    rows = text()[:, :-1]
    found = read(Model(), rows, rows)
    assert found["targets that are inputs"].estimate.value == 1.0
    assert "dependence on later inputs" not in found


def test_filling_counts_unless_it_is_left_out():
    rows = text()
    for row, length in enumerate((4, 6, 8, 10, 5, 7, 9, 12)):
        rows[row, length:] = 0
    x, t = rows[:, :-1], rows[:, 1:]
    found = read(Model(), x, t)["counted padding"]
    assert found.form == "id 0"
    assert found.estimate.value == pytest.approx(float((t == 0).double().mean()), abs=0.03)
    assert "counted padding" not in read(Model(), x, t.masked_fill(t == 0, -100))
    by = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten(), ignore_index=0)
    assert "counted padding" not in read(Model(), x, t, by)


def test_other_tasks_are_not_spoken_of():
    digits = sources.open_data("digits", samples=32)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    found = read(model, digits.inputs, digits.targets, F.cross_entropy)
    assert not {"next inputs", "counted padding", "dependence on later inputs"} & set(found)
