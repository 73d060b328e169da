import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes import Subject


def slow_cosines(model, last, x, y, loss):
    """|cos| per row of the last weight matrix, one sample and one backward pass at a time."""
    grads = []
    for i in range(len(x)):
        model.zero_grad()
        loss(model(x[i : i + 1]), y[i : i + 1]).backward()
        grads.append(last.weight.grad.flatten(1).clone())
    G = F.normalize(torch.stack(grads, dim=1), dim=2)
    cos = (G @ G.mT).abs()
    i, j = torch.triu_indices(len(x), len(x), offset=1)
    model.zero_grad(set_to_none=True)
    return cos[:, i, j].flatten()


@pytest.mark.parametrize("kind", ["linear", "tokens", "conv"])
def test_cosines_equal_those_of_single_backward_passes(kind):
    torch.manual_seed(0)
    y = torch.randint(0, 3, (6,))
    if kind == "linear":
        last = nn.Linear(8, 3)
        model, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), last), torch.randn(6, 4)
    elif kind == "tokens":
        last = nn.Linear(8, 3)
        model, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), last, Mean(1)), torch.randn(6, 5, 4)
    else:
        last = nn.Conv2d(4, 3, 3)
        model, x = nn.Sequential(nn.Conv2d(2, 4, 1), last, Mean((2, 3))), torch.randn(6, 2, 5, 5)
    model, x = model.double(), x.double()
    found = Subject(model, x, y, F.cross_entropy).gradients
    expected = slow_cosines(model, last, x, y, F.cross_entropy)
    assert found.pairs == len(expected)
    assert found.least == pytest.approx(float(expected.min()), rel=1e-9)
    assert found.mean == pytest.approx(float(expected.mean()), rel=1e-9)
    assert all(p.grad is None for p in model.parameters())


class Mean(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.mean(self.dims)


def test_collapsed_network_has_parallel_gradients():
    """Sheet, section 6: min |cos| = 1 - 7e-16 for 32 default layers with biases."""
    torch.manual_seed(0)
    layers = [m for _ in range(32) for m in (nn.Linear(128, 128), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(128, 10)).double()
    y = torch.randint(0, 10, (64,))
    found = Subject(model, torch.randn(64, 128), y, F.cross_entropy).gradients
    assert 1 - found.least < 1e-14


def test_pairs_without_a_gradient_are_left_out():
    model = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))
    x = torch.tensor([[1.0, 2, 3], [-1, -1, -1], [3, 2, 1]])
    found = Subject(model, x, torch.zeros(3, 2), F.mse_loss).gradients
    assert found.pairs == 2  # one pair, two rows
    assert found.zero == 4


def test_a_loss_that_does_not_fit_is_refused():
    model = nn.Linear(3, 2)
    with pytest.raises(Refusal, match=r"one row for each of the 4 samples, got shape \(5,\)"):
        _ = Subject(model, torch.ones(4, 3), torch.zeros(5).long(), F.cross_entropy).gradients
    with pytest.raises(Refusal, match=r"accept the output \(4, 2\) and the targets \(4, 3\)"):
        _ = Subject(model, torch.ones(4, 3), torch.zeros(4, 3), F.cross_entropy).gradients
    with pytest.raises(Refusal, match="must return a scalar, got \\(4, 2\\)"):
        _ = Subject(model, torch.ones(4, 3), torch.zeros(4, 2), lambda o, t: o - t).gradients
