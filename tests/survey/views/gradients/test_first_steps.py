"""The first loss in nats, the step that would take it away, and the power of a test of targets."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import sources, survey
from sigmascope.survey.views.gradients import neighbour_limits
from sigmascope.survey.views.task import target_rows


def read(model, x, y, loss):
    found = survey.profile(model, x, targets=y, loss=loss, views=["setup"])
    return {r.quantity: r.estimate.value for r in found.readings if r.site == "(loss)"}


def test_nats_and_the_polyak_step():
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 3), torch.randn(30, 4), torch.randint(3, (30,))
    found = read(model, x, y, F.cross_entropy)
    value = F.cross_entropy(model(x), y)
    value.backward()
    square = sum(float(p.grad.double().square().sum()) for p in model.parameters())
    assert found["nats over equal scores"] == pytest.approx(value.item() - math.log(3), rel=1e-4)
    assert found["Polyak step"] == pytest.approx(value.item() / square, rel=1e-4)


def test_places_count_as_samples_and_other_losses_not_in_nats():
    torch.manual_seed(0)
    x, y = torch.randn(6, 5, 4), torch.randint(3, (6, 5))
    by = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten())
    assert "nats over equal scores" in read(nn.Linear(4, 3), x, y, by)
    bits = lambda o, t: by(o, t) / math.log(2)
    assert "nats over equal scores" not in read(nn.Linear(4, 3), x, y, bits)
    values = torch.randn(6, 5, 3)
    assert "nats over equal scores" not in read(nn.Linear(4, 3), x, values, F.mse_loss)


@pytest.mark.parametrize("samples", [128, 256])
def test_digits_are_told_and_shuffled_ones_are_not(samples):
    limits = []
    for seed in range(5):
        g = torch.Generator().manual_seed(seed)
        data = sources.open_data("digits", samples=samples, generator=g)
        x = data.inputs.flatten(1)
        told, power = neighbour_limits(x, target_rows(data.targets, samples))
        assert told > 0.5
        assert power > 8
        shuffled = data.targets[torch.randperm(samples, generator=g)]
        limit, same = neighbour_limits(x, target_rows(shuffled, samples))
        assert same == power
        limits.append(limit)
    assert sorted(limits)[3] < (0.05 if samples == 128 else 0.04)


def test_inputs_without_neighbours_have_no_power():
    """Independent numbers in many dimensions: all samples are equally far from one another."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3000, generator=g)
    _, power = neighbour_limits(x, target_rows(torch.arange(64) % 4, 64))
    assert power < 4


def test_equal_rows_tell_nothing():
    assert neighbour_limits(torch.ones(60, 3), target_rows(torch.arange(60) % 2, 60)) is None
