"""Neighbours without an activation between are seen by their numbers."""

import pytest
import torch
from torch import nn

from sigmascope.probes import Subject


def pairs(*parts, x=None):
    torch.manual_seed(0)
    x = torch.randn(12, 8) if x is None else x
    found = Subject(nn.Sequential(*parts), x).linear_pairs
    return [(p.first, p.second, p.spare) for p in found]


def lin(a, b):
    return nn.Linear(a, b)


def conv(a, b, **options):
    return nn.Conv2d(a, b, 3, padding=1, **options)


IMAGES = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def test_two_linear_layers_are_one():
    assert pairs(lin(8, 16), lin(16, 4)) == [("0", "1", 4.0)]
    assert pairs(lin(8, 2), lin(2, 8)) == [("0", "1", 0.25)]  # narrow on purpose


@pytest.mark.parametrize("part", [nn.ReLU(), nn.GELU(), nn.Tanh(), nn.LayerNorm(16), nn.PReLU()])
def test_an_activation_makes_two_of_them(part):
    assert pairs(lin(8, 16), part, lin(16, 4)) == []


@pytest.mark.parametrize("part", [nn.Dropout(0.5), nn.Identity(), nn.BatchNorm1d(16)])
def test_what_is_linear_between_does_not(part):
    assert pairs(lin(8, 16), part, lin(16, 4)) == [("0", "2", 4.0)]


def test_a_normaliser_with_an_activation_inside():
    class Acts(nn.BatchNorm1d):
        def forward(self, x):
            return super().forward(x).relu()

    assert pairs(lin(8, 16), Acts(16), lin(16, 4)) == []


def test_convolutions_and_what_flattens_them():
    assert pairs(conv(3, 8), nn.BatchNorm2d(8), conv(8, 4), x=IMAGES) == [("0", "2", 8 / 3)]
    found = pairs(conv(3, 8), nn.Flatten(), lin(8 * 36, 4), x=IMAGES)
    assert [f[:2] for f in found] == [("0", "2")]


def test_factors_by_design_are_left_out():
    assert pairs(conv(3, 6, groups=3), nn.Conv2d(6, 8, 1), x=IMAGES) == []
    ids = torch.randint(9, (12, 5))
    assert pairs(nn.Embedding(9, 8), lin(8, 8), x=ids) == []
    assert pairs(nn.ConvTranspose2d(3, 8, 2, 2), conv(8, 4), x=IMAGES) == []


def test_equal_numbers_tell_nothing():
    """A layer that writes zeros, and another that reads zeros, have nothing to do with another."""
    off = lin(8, 16)
    nn.init.zeros_(off.weight)
    nn.init.zeros_(off.bias)
    assert pairs(off, nn.ReLU(), lin(16, 4)) == []


def test_residual_sums_are_no_pairs():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = lin(8, 8), lin(8, 8)

        def forward(self, x):
            return self.b(x + self.a(x))

    assert pairs(Adds()) == []


def test_a_shortcut_beside_an_activation_is_no_pair():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = lin(8, 16), nn.LayerNorm(16)
            self.inner, self.short = lin(16, 16), lin(16, 16)

        def forward(self, x):
            h = self.first(x)
            return self.short(h) + self.inner(self.norm(h).relu())

    assert pairs(Block()) == []


BENDS = [
    nn.ReLU(), nn.LeakyReLU(0.2), nn.ReLU6(), nn.Hardtanh(0, 60), nn.ELU(), nn.CELU(), nn.PReLU(),
    nn.Threshold(0.0, 0.0), nn.Hardswish(), nn.RReLU(),
]  # fmt: skip


@pytest.mark.parametrize("part", BENDS, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("normed", [False, True])
def test_an_activation_that_does_nothing_on_this_batch_is_one(part, normed):
    first, x = lin(8, 16), torch.rand(12, 8)
    with torch.no_grad():  # all units between 0 and 6, where these leave numbers as they are
        first.weight.abs_().mul_(0.3)
        first.bias.fill_(3.5)
    norm = [nn.BatchNorm1d(16).eval()] if normed else []
    assert pairs(first, *norm, part, lin(16, 4), x=x) == []
    assert len(pairs(first, *norm, lin(16, 4), x=x)) == 1


def test_a_model_that_refuses_other_numbers_has_no_pairs():
    class Checks(nn.Module):
        def forward(self, x):
            assert float(x.detach().abs().max()) < 100
            return x

    assert pairs(lin(8, 16), Checks(), lin(16, 4)) == []
