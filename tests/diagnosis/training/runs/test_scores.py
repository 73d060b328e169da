"""Scores at the end of training, and the probability that it gets under way."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.programs import recipe_of
from sigmascope.diagnosis.training import TrainingSamples
from sigmascope.diagnosis.training.runs import UNDERWAY, boundary, chance_below, score_of, started
from sigmascope.records import Estimate

G = torch.Generator().manual_seed(0)
X = torch.randn(64, 5, generator=G)
Y = X[:, :1] - 2 * X[:, 1:2]


@pytest.mark.parametrize(
    ("loss", "at"),
    [(F.binary_cross_entropy, 0.5), (F.binary_cross_entropy_with_logits, 0.0), (F.mse_loss, 0.5)],
)
def test_where_yes_begins(loss, at):
    y = (Y > 0).float()
    assert boundary(torch.full((64, 1), 0.3), TrainingSamples(X, y, loss, 16)) == at


def test_scores_are_accuracies_of_classes():
    model = nn.Sequential(nn.Linear(5, 3))
    classes = torch.arange(64) % 3
    run = started(model, recipe_of("sgd", model, 0.0), 64)
    data = TrainingSamples(X, classes, F.cross_entropy, 64)
    run.go_on(data, 1)
    right = (model(X).argmax(1) == classes).double().mean().item()
    assert score_of(run, data) == right


@pytest.mark.parametrize("targets", [(Y > 0).float(), torch.ones(64, 1)])
def test_scores_are_accuracies_of_yes_and_no(targets):
    model = nn.Sequential(nn.Linear(5, 1))
    with torch.no_grad():  # says yes to some and no to others, whatever was drawn before
        model[0].weight.copy_(torch.tensor([[1.0, -1.0, 0.0, 0.0, 0.0]]))
        model[0].bias.zero_()
    data = TrainingSamples(X, targets, F.binary_cross_entropy_with_logits, 64)
    run = started(model, recipe_of("sgd", model, 0.0), 64)
    run.go_on(data, 1)
    right = ((model(X) > 0) == (targets > 0)).double().mean().item()
    assert 0 < right < 1
    assert score_of(run, data) == right


def test_the_probability_is_that_of_a_normal_logarithm():
    assert chance_below(Estimate.exactly(UNDERWAY)).value == pytest.approx(0.5)
    wide = Estimate(1.0, 0.25, 4.0, "made up")  # a standard deviation of log(4) / 1.645
    z = math.log(UNDERWAY) / (math.log(4.0) / 1.645)
    assert chance_below(wide).value == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)), rel=1e-3)
    values = [chance_below(Estimate.exactly(v)).value for v in (0.0, 0.3, 0.54, 0.56, 1.0, 9.0)]
    assert values == sorted(values, reverse=True)
    assert (values[0], values[-1]) == (0.995, 0.005)
