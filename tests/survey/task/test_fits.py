"""Outputs, targets and losses side by side."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.probes import Subject
from sigmascope.survey.task import fit_of
from sigmascope.survey.task.fits import _end

N = 64
G = torch.Generator().manual_seed(0)
X = torch.randn(N, 6, generator=G)
CLASSES = torch.randint(4, (N,), generator=G)
YES = torch.randint(2, (N, 1), generator=G).float()


def fit(last, loss, targets, width=4):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, width), *last)
    return fit_of(Subject(model, X, targets, loss), loss, targets)


@pytest.mark.parametrize(
    ("last", "least", "most"),
    [
        ([], -math.inf, math.inf),
        ([nn.ReLU()], 0.0, math.inf),
        ([nn.Sigmoid()], 0.0, 1.0),
        ([nn.Tanh()], -1.0, 1.0),
        ([nn.Hardtanh(-2, 3)], -2.0, 3.0),
        ([nn.Softmax(-1)], 0.0, 1.0),
        ([nn.LogSoftmax(-1)], -math.inf, 0.0),
        ([nn.Softplus()], 0.0, math.inf),
    ],
)
def test_the_range_is_measured(last, least, most):
    found = fit(last, F.mse_loss, torch.randn(N, 4, generator=G))
    assert found.least == pytest.approx(least, abs=1e-3)
    assert found.most == pytest.approx(most, abs=1e-3)
    assert found.shares is isinstance((last or [0])[0], nn.Softmax)
    assert not found.constant


def test_a_softmax_over_one_unit_is_one():
    found = fit([nn.Softmax(-1)], F.binary_cross_entropy, YES, width=1)
    assert found.constant
    assert (found.least, found.most) == (1.0, 1.0)


def test_double_softmax_leaves_what_arithmetic_says():
    """Scores between 0 and 1: log(1 + 3/e) is the least of any of four classes."""
    found = fit([nn.Softmax(-1)], F.cross_entropy, CLASSES)
    assert found.reach == pytest.approx(math.log(1 + 3 / math.e), rel=1e-4)
    assert found.beyond == pytest.approx(math.log(1 + 3 / math.e) / found.same, rel=1e-3)
    assert found.undecided == 0.0  # the classes can be told apart all the same


@pytest.mark.parametrize("scale", [0.5, 1.0 - 1e-4, 1.0 + 1e-2, 2.0, 100.0])
def test_how_far_targets_are_beyond_a_tanh(scale):
    targets = scale * torch.tensor([1.0, -1.0]).repeat(N // 2)[:, None]
    found = fit([nn.Tanh()], F.mse_loss, targets, width=1)
    assert found.beyond == pytest.approx(max(0.0, 1 - 1 / scale) ** 2, abs=2e-4)


def test_outputs_that_are_spread_over():
    loss = lambda o, y: (o - y).square().mean()
    assert fit([], loss, torch.randn(N, 1, generator=G)).spread
    assert not fit([], loss, torch.randn(N, 4, generator=G)).spread
    assert not fit([], F.cross_entropy, CLASSES).spread


def test_healthy_ends_reach_everything():
    for last, loss, targets, width in (
        ([], F.cross_entropy, CLASSES, 4),
        ([nn.LogSoftmax(-1)], F.nll_loss, CLASSES, 4),
        ([nn.Sigmoid()], F.binary_cross_entropy, YES, 1),
        ([], F.binary_cross_entropy_with_logits, YES, 1),
        ([], F.mse_loss, 100 * torch.randn(N, 1, generator=G), 1),
        ([nn.Sigmoid()], F.mse_loss, YES, 1),
    ):
        found = fit(last, loss, targets, width)
        assert not found.beyond > 1e-3, (last, loss)


@pytest.mark.parametrize(
    ("reached", "sign", "end"),
    [
        ([1.0, 5.0, 50.0], 1.0, 50.0),  # ten times is no growth without end
        ([1.0, 5.0, 50.1], 1.0, math.inf),
        ([1.0, 5.0, 50.1], -1.0, -math.inf),
        ([0.0, 0.1, 10.0], 1.0, 10.0),  # below one, one counts
        ([0.0, 0.1, 10.1], 1.0, math.inf),
        ([7.0, 5.0, 6.0], -1.0, -7.0),  # the farthest, whenever it was reached
    ],
)
def test_an_end_of_the_range(reached, sign, end):
    assert _end(reached, sign) == end
