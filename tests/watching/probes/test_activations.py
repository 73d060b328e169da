"""What layers read and write in a training step."""

import copy
import math

import pytest
import torch
from torch import nn

from tests.watching.made import Shelf, at_leisure, passed, stack


def watched(model, *batches):
    """Readings of a step in which these batches pass, the second of all."""
    found = passed(model, *batches, only=["activations"]).estimates()
    return {at: estimate.value for at, estimate in found.items()}


def test_sizes_and_variation_are_those_of_what_each_layer_reads():
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    found = watched(model, x)
    h = model[:2](x).detach()
    for site, rows in (("0", x), ("2", h)):
        apart = (rows - rows.mean(0)).norm() / rows.norm()
        assert found["mean square", site] == pytest.approx(float(rows.square().mean()), rel=1e-12)
        assert found["relative variation", site] == pytest.approx(float(apart), rel=1e-9)
    dead = float((h == 0).all(0).double().mean())
    assert found["dead units", "2"] == dead
    assert ("dead units", "0") not in found  # inputs are no units


def test_passes_of_one_step_add_up():
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    assert watched(model, x[:2], x[2:]) == pytest.approx(watched(model, x), rel=1e-12)


def test_channels_are_units_where_there_are_positions():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)).double()
    with torch.no_grad():
        model[0].bias[1:3] = -100.0
    found = watched(model, torch.randn(3, 2, 8, 8, dtype=torch.float64))
    assert found["dead units", "2"] == 0.5


def test_saturation_is_the_share_near_the_ends():
    model = nn.Sequential(nn.Linear(1, 1), nn.Tanh()).double()
    nn.init.ones_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    x = torch.tensor([[0.1], [9.0], [-9.0], [0.5]], dtype=torch.float64)
    assert watched(model, x)["saturated share", "1"] == 0.5


def test_drift_is_between_batch_and_running_statistics():
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4, momentum=0.0)).double()
    x = torch.randn(4000, 4, dtype=torch.float64)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    assert watched(model, 2.0 * x + 3.0)["statistics drift", "0"] == pytest.approx(
        math.hypot(1.5, math.log(2.0)), rel=1e-9
    )
    assert watched(model, x)["statistics drift", "0"] == pytest.approx(0.0, abs=1e-12)


def test_validation_passes_and_copies_are_not_heard():
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x = torch.randn(6, 5, dtype=torch.float64)
    shelf = Shelf()
    with at_leisure(model, optimizer, sinks=[shelf], only=["activations"]):
        for _ in range(2):
            with torch.no_grad():
                model(100 * x)
            copy.deepcopy(model)(100 * x)
            model(x).sum().backward()
            optimizer.step()
    assert shelf.estimates()["mean square", "0"].value == pytest.approx(
        float(x.square().mean()), rel=1e-12
    )


def test_what_is_not_a_number_is_read_as_such():
    model = stack(3, 4, 2)
    x = torch.randn(5, 3)
    x[0, 0] = math.nan
    found = watched(model, x)
    assert ("non-finite entries", "0") in found


def test_a_unit_is_dead_where_it_is_zero_on_every_sample_and_nowhere_else():
    rows = torch.tensor(
        [[0.0, -1, 0, 2, 0], [0, 0, 3, 2, 0], [0, -1, 0, 2, 0]], dtype=torch.float64
    )
    model = nn.Sequential(nn.Linear(5, 5, bias=False), nn.Linear(5, 2)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(5))
    assert watched(model, rows)["dead units", "1"] == 2 / 5
