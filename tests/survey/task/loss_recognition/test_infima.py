"""How low a loss gets, against what arithmetic says."""

import math

import pytest
import torch
from torch.nn import functional as F

from sigmascope.survey.task import constant_loss, free_starts, labels_of, least_loss, room_of
from sigmascope.survey.task.loss_recognition import _constants

N, K = 60, 3
G = torch.Generator().manual_seed(0)
CLASSES = torch.randint(K, (N,), generator=G)
YES = (torch.rand(N, 1, generator=G) < 0.3).float()
VALUES = 40 + 3 * torch.randn(N, 2, generator=G)


def entropy(p):
    return -(p * p.log()).sum().item()


def binary(p):
    p = float(p.mean())
    return -(p * math.log(p) + (1 - p) * math.log(1 - p))


SHARES = CLASSES.bincount().double() / N


@pytest.mark.parametrize(
    ("loss", "width", "targets", "least"),
    [
        (F.cross_entropy, K, CLASSES, entropy(SHARES)),
        (lambda p, y: F.nll_loss(p.log(), y), K, CLASSES, None),  # unbounded, and nan at zero
        (F.binary_cross_entropy, 1, YES, binary(YES)),
        (F.binary_cross_entropy_with_logits, 1, YES, binary(YES)),
        (F.mse_loss, 2, VALUES, float(VALUES.double().var(0, correction=0).mean())),
        (F.l1_loss, 2, VALUES, float((VALUES - VALUES.median(0).values).abs().mean())),
    ],
)
def test_the_best_constant(loss, width, targets, least):
    found = constant_loss(torch.full((N, width), 0.3), targets, loss)
    if least is None:
        assert math.isfinite(found)
    else:
        assert found == pytest.approx(least, rel=2e-3)


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_a_constant_is_one_for_all_samples_wherever_the_output_has_them(kind):
    """Time first is the same task as samples first, of which each place has its own constant."""
    steps, output = 7, torch.randn(N, 7, K, generator=G)
    if kind == "classes":
        targets = torch.randint(K, (N, steps), generator=G)
        loss = lambda o, y: F.cross_entropy(o.flatten(0, 1), y.flatten())
        late = lambda o, y: F.cross_entropy(o.flatten(0, 1), y.T.flatten())
    else:
        targets = torch.randn(N, steps, K, generator=G)
        loss, late = F.mse_loss, lambda o, y: F.mse_loss(o, y.transpose(0, 1))
    found = constant_loss(output, targets, loss)
    assert constant_loss(output.transpose(0, 1), targets, late) == pytest.approx(found, rel=1e-3)
    if kind == "values":
        truth = float(targets.double().var(0, correction=0).mean())
        assert found == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("dim", [0, 1])
def test_the_mean_of_the_targets_is_tried_wherever_the_samples_are(dim):
    targets = torch.randn(N, 7, K, generator=G)
    output = torch.zeros(N, 7, K).transpose(0, dim)
    mean = targets.mean(0, keepdim=True).transpose(0, dim)
    assert any(s.shape == mean.shape and s.equal(mean) for s in _constants(output, targets, dim))


def test_a_loss_that_is_nowhere_finite_has_none():
    loss = lambda o, y: (o - y).mean() / 0
    assert constant_loss(torch.zeros(N, 2), VALUES, loss) == math.inf


@pytest.mark.parametrize(
    ("loss", "width", "targets"),
    [
        (F.cross_entropy, K, CLASSES),
        (F.binary_cross_entropy, 1, YES),
        (F.binary_cross_entropy_with_logits, 1, YES),
        (F.mse_loss, 2, VALUES),
    ],
)
def test_the_best_of_all_outputs(loss, width, targets):
    output = torch.zeros(N, width)
    starts = free_starts(output, targets, labels_of(output, targets))
    found, best = least_loss(lambda o: o, starts, targets, loss)
    assert found == pytest.approx(0.0, abs=1e-4)
    assert float(loss(best, targets)) == pytest.approx(found, abs=1e-6)


def test_within_a_range_the_best_is_the_nearest():
    """Two labels at once under a softmax: (1, 1, 0) is nearest at (1/2, 1/2, 0)."""
    targets = torch.tensor([[1.0, 1.0, 0.0]]).expand(N, 3)
    starts = [torch.zeros(N, 3), torch.randn(N, 3, generator=G)]
    found, best = least_loss(lambda z: z.softmax(-1), starts, targets, F.mse_loss)
    assert found == pytest.approx(0.5 / 3, rel=1e-3)
    assert torch.allclose(best[0], torch.tensor([0.5, 0.5, 0.0]), atol=0.02)


@pytest.mark.parametrize("now", [1e12, math.nan, math.inf])
@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (F.cross_entropy, torch.arange(8) % 4),
        (F.mse_loss, torch.eye(4).repeat(2, 1)),
        (F.binary_cross_entropy, torch.eye(4).repeat(2, 1)),  # takes nothing beyond 0 and 1
    ],
)
def test_losses_are_told_apart_however_large_the_models_is(loss, targets, now):
    room = room_of(loss, torch.full((8, 4), 1e9), targets, now)
    assert 0 < room < 1e-5
    assert room_of(loss, torch.zeros(8, 4), targets, 1e-3) == pytest.approx(1e-9)


def test_a_loss_that_bears_nothing_made_up_is_measured_by_its_own_size():
    def picky(output, targets):
        raise ValueError

    assert room_of(picky, torch.zeros(3, 1), torch.zeros(3, 1), 5.0) == pytest.approx(5e-6)
