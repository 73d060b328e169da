"""Whether a network is one affine map is told by its operations, whatever the samples."""

import pytest
import torch
from torch import nn

from sigmascope.probes import Subject

X = torch.rand(6, 4, generator=torch.Generator().manual_seed(0)) + 0.5


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.b(self.a(x) * x)


class Masked(nn.Module):
    """A ReLU that is written as a product."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        z = self.a(x)
        return self.b(z * (z > 0).float())


class OffTape(nn.Module):
    """A ReLU network that the tape knows nothing of, and layers behind it."""

    def __init__(self, through):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4))
        self.b, self.c = nn.Linear(4, 4, bias=False), nn.Linear(4, 3)
        self.through = through

    def forward(self, x):
        return self.c(self.b(self.through(self.a(x), x)))


AFFINE = [
    nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)),
    nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)),
    nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2), nn.Softmax(-1)),
    nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(6, 1)),
]
CURVED = [
    nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
    nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2)),
    Product(),
    Masked(),
    OffTape(lambda h, x: h.detach()),
    OffTape(lambda h, x: torch.tensor(h.detach().numpy())),
    OffTape(lambda h, x: torch.cat([h.detach()[:, :2], x[:, :2]], 1)),
    nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.MaxPool1d(3), nn.Flatten(),
                  nn.Linear(2, 1)),
]  # fmt: skip


@pytest.mark.parametrize("model", AFFINE)
def test_affine(model):
    assert Subject(model, X).is_affine


@pytest.mark.parametrize("model", CURVED)
def test_not_affine(model):
    assert not Subject(model, X).is_affine


def test_units_that_are_never_off_do_not_make_it_affine():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        model[0].weight.abs_()
        model[0].bias.fill_(1.0)
    assert not Subject(model, X).is_affine
