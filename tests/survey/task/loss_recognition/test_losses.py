"""What a loss asks of outputs is told by what it does with outputs that are made up."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.survey.task import Needs, labels_of, needs_of

N, K, EPS = 48, 5, 1e-7
CLASSES = torch.arange(N).remainder(K)
HOT = torch.eye(K)[CLASSES]
YES = torch.arange(N).remainder(2).float()[:, None]
VALUES = torch.linspace(-2, 3, N)[:, None]


def clipped(p, y):
    p = p.clamp(EPS, 1 - EPS)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()


def shares(p, y):
    p = (p / p.sum(-1, keepdim=True)).clamp(EPS, 1 - EPS)
    return -(F.one_hot(y, K) * p.log()).sum(-1).mean()


PROBABILITIES = {
    "binary": (F.binary_cross_entropy, 1, YES, "each"),
    "binary, clipped": (clipped, 1, YES, "each"),
    "binary of each": (clipped, K, HOT, "each"),
    "shares": (shares, K, CLASSES, "shares"),
    "picked": (lambda p, y: F.nll_loss(p.clamp_min(EPS).log(), y), K, CLASSES, "picked"),
    "scores of logarithms": (
        lambda p, y: F.cross_entropy(p.clamp(EPS, 1 - EPS).log(), y), K, CLASSES, "shares",
    ),
    "focal": (
        lambda p, y: (-(1 - p) ** 2 * y * p.clamp_min(EPS).log()
                      - p**2 * (1 - y) * (1 - p).clamp_min(EPS).log()).mean(), 1, YES, "each",
    ),
}  # fmt: skip
OTHERS = {
    "cross-entropy": (F.cross_entropy, K, CLASSES, "scores"),
    "soft cross-entropy": (F.cross_entropy, K, HOT, "scores"),
    "binary of logits": (F.binary_cross_entropy_with_logits, 1, YES, "each"),
    "squared": (F.mse_loss, 1, VALUES, "each"),
    "squared of classes": (F.mse_loss, K, HOT, "each"),
    "absolute": (F.l1_loss, 1, VALUES, "each"),
    "hinge": (F.multi_margin_loss, K, CLASSES, "scores"),
    "negative log likelihood": (F.nll_loss, K, CLASSES, "picked"),
    "cosine": (lambda o, y: -F.cosine_similarity(o, y).mean(), K, HOT, "each"),
}


SOFT = 0.9 * HOT + 0.1 / K


@pytest.mark.parametrize(
    ("loss", "targets", "logarithms"),
    [
        (F.nll_loss, CLASSES, True),
        (nn.KLDivLoss(reduction="batchmean"), SOFT, True),
        (lambda o, y: 7 * F.kl_div(o, y, reduction="sum"), SOFT, True),
        (nn.KLDivLoss(reduction="batchmean", log_target=True), SOFT.log(), True),
        (lambda o, y: -(torch.arange(N)[:, None] * y * o).sum(), SOFT, True),  # weighted samples
        (lambda o, y: -(y * o).sum(), 2 * SOFT, False),  # no probabilities
        (lambda o, y: (y * o).sum(), SOFT, False),
        (lambda o, y: -(y * o.log_softmax(-1)).sum(), SOFT, False),
        (F.mse_loss, SOFT, False),
    ],
)
def test_losses_of_logarithms(loss, targets, logarithms):
    assert asked(loss, K, targets).logarithms is logarithms


def test_rounding_is_no_logarithm():
    """Of directions alone: outputs that are all the same have the same one, but for rounding."""
    ids = YES[:, 0]
    pairs = lambda o, y: F.cosine_embedding_loss(o[:, :8], o[:, 8:], y)
    found = needs_of(pairs, torch.zeros(N, 16), ids, labels_of(torch.zeros(N, 16), ids))
    assert not found.probabilities


def asked(loss, width, targets):
    output = torch.zeros(N, width)
    return needs_of(loss, output, targets, labels_of(output, targets))


@pytest.mark.parametrize("name", PROBABILITIES)
def test_losses_of_probabilities(name):
    loss, width, targets, coupling = PROBABILITIES[name]
    found = asked(loss, width, targets)
    assert found.probabilities
    assert (found.least, found.coupling) == (0.0, coupling)


@pytest.mark.parametrize("name", OTHERS)
def test_losses_of_other_numbers(name):
    loss, width, targets, coupling = OTHERS[name]
    found = asked(loss, width, targets)
    assert not found.probabilities
    assert found.coupling == coupling
    assert not found.indifferent


def test_a_loss_of_positive_numbers_is_none_of_probabilities():
    found = asked(lambda o, y: (o - y * (o + EPS).log()).mean(), 1, VALUES.abs())
    assert (found.least, found.most, found.probabilities) == (0.0, math.inf, False)


@pytest.mark.parametrize(
    ("loss", "width", "targets", "stepped"),
    [
        (F.cross_entropy, 1, torch.zeros(N, dtype=torch.long), False),  # a softmax over one score
        (lambda o, y: (0 * o).sum() + y.sum(), 1, VALUES, False),
        (lambda o, y: (o.detach() - y).square().mean(), 1, VALUES, True),
        (lambda o, y: (o.round() - y).square().mean(), 1, VALUES, True),
        (lambda z, y: F.mse_loss(z.argmax(-1).float(), y.float()), K, CLASSES, True),
        (lambda z, y: (z.argmax(-1) != y).float().mean(), K, CLASSES, True),
    ],
)
def test_indifferent_losses(loss, width, targets, stepped):
    assert asked(loss, width, targets) == Needs(indifferent=True, stepped=stepped)


def test_a_loss_that_bears_nothing_made_up_is_not_known():
    def loss(o, y):
        raise ValueError

    assert asked(loss, 1, VALUES) is None
