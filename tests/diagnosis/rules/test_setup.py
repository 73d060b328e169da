"""Rules on the setup that no planted fault shows, and where they stay silent."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import networks, records, sources, survey
from sigmascope.diagnosis.rules import diagnose
from sigmascope.records import Estimate, Reading


@pytest.fixture(scope="module")
def digits():
    return sources.open_data("digits", samples=128)


def found(model, data, views=records.ALL):
    measured = survey.profile(
        model, data.inputs, targets=data.targets, loss=F.cross_entropy, views=views
    )
    return {f.name: f for f in diagnose(measured)}


def mlp(depth=3, seed=0, **options):
    g = torch.Generator().manual_seed(seed)
    return networks.mlp(inputs=64, outputs=10, depth=depth, width=64, generator=g, **options)


class Times(nn.Module):
    """Times a constant."""

    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return self.by * x


def test_normalisation_that_hides_a_collapse(digits):
    """A deep default network collapses; a normaliser at its end blows the rest up."""
    deep = mlp(12)
    deep.hidden[-1].add_module("norm", nn.BatchNorm1d(64))
    one = found(deep, digits)["hidden-collapse"]
    assert one.site == "hidden.11.linear"
    assert "hidden-collapse" not in found(mlp(12, norm="batch"), digits)


def test_loud_outputs(digits):
    model = mlp()
    model.readout.weight.data.mul_(1000)
    assert found(model, digits)["loud-output"].severity == "warning"
    assert "loud-output" not in found(mlp(), digits)


def test_targets_that_the_network_forgets(digits):
    """Random rotations between coarse steps leave nothing of what tells the digits apart."""

    class Scramble(nn.Module):
        def forward(self, x):
            return (1e4 * x).sin()

    parts = [nn.Flatten()]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        for _ in range(3):
            layer = nn.Linear(64, 64)
            nn.init.normal_(layer.weight)
            parts += [layer, Scramble()]
        model = nn.Sequential(*parts, nn.Linear(64, 10))

    def told(network, chance):
        measured = survey.profile(
            network, digits.inputs, targets=digits.targets, loss=F.cross_entropy, views=["setup"]
        )
        p = Estimate(chance, chance, chance, "said")
        one = Reading("(model)", "probability of fitting", p, "setup")
        return [f.name for f in diagnose(replace(measured, readings=(*measured.readings, one)))]

    assert "forgotten-targets" in told(model, 0.1)
    assert "forgotten-targets" not in told(model, 0.9)  # it was seen to learn all the same
    assert "forgotten-targets" not in told(mlp(), 0.1)


@pytest.mark.parametrize(("size", "spoken"), [(1.0, False), (1e4, True), (1e-4, True)])
def test_values_of_unusual_size(digits, size, spoken):
    values = size * digits.inputs.flatten(1)[:, 10:12]
    measured = survey.profile(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 2)),
        digits.inputs,
        targets=values,
        loss=F.mse_loss,
        views=["setup"],
    )
    assert ("unscaled-targets" in [f.name for f in diagnose(measured)]) == spoken


def test_denormal_numbers(digits):
    model = mlp(2, bias=False)
    model.hidden[1].linear.weight.data.mul_(1e-42)
    assert "denormal-values" in found(model, digits)


def test_a_network_that_no_weight_moves(digits):
    class Nothing(nn.Module):
        def forward(self, x):
            return 0 * x

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Linear(8, 8), nn.Linear(8, 10))
    model.append(Nothing())
    assert "no-tangents" in found(model, digits)


@pytest.mark.parametrize(("scale", "spoken"), [(1e-6, True), (1.0, False), (1e5, True)])
def test_tangents_too_small_and_too_large(digits, scale, spoken):
    measured = found(nn.Sequential(mlp(2), Times(scale)), digits, ["features"])
    assert ("tangent-size" in measured) == spoken


def test_a_network_that_passes_more_than_it_uses():
    """The function reads two of the dimensions that wide linear layers pass on."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(128, 8, generator=g)
    layers = [nn.Linear(8, 8, bias=False) for _ in range(4)]
    for layer in layers:
        nn.init.eye_(layer.weight)
    last = nn.Linear(8, 2, bias=False)
    nn.init.eye_(last.weight)
    model = nn.Sequential(*layers, last)
    measured = survey.profile(model, x, views=["bottleneck"])
    names = [f.name for f in diagnose(measured)]
    assert names == ["rank-overestimated"]
    for layer in layers:
        layer.weight.data[2:] = 0
    assert "rank-overestimated" not in [
        f.name for f in diagnose(survey.profile(model, x, views=["bottleneck"]))
    ]


def test_ill_conditioned_layers(digits):
    g = torch.Generator().manual_seed(0)
    x = torch.logspace(-6, 0, 6) * torch.randn(100, 6, generator=g)
    data = sources.Data(x, digits.targets[:100], "stretched", 10)
    model = networks.mlp(inputs=6, outputs=10, depth=1, width=8, generator=g).double()
    one = found(model, data, views=["conditioning"])["ill-conditioned-layer"]
    assert one.site == "hidden.0.linear"
    assert "most of it is the data factor" in one.says
    even = sources.Data(x / x.std(0), data.targets, "even", 10)
    assert found(model, even, views=["conditioning"]) == {}


def test_a_branch_that_starts_at_zero_is_no_cut(digits):
    """Behind a zero that moves, gradients are zero in the first step only."""
    data = sources.Data(digits.inputs, digits.targets, "digits", 10)
    g = torch.Generator().manual_seed(0)
    model = networks.resnet(inputs=(1, 8, 8), outputs=10, depth=8, width=16, generator=g)
    for stage in model.stages:
        stage[0].second.norm.weight.data.zero_()
    assert not {"no-gradient", "zero-weights"} & set(found(model, data))


def test_all_frozen_is_an_error(digits):
    model = mlp().requires_grad_(False)
    assert found(model, digits, ["setup"])["frozen-layer"].severity == "error"


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_inputs_of_usual_size_are_not_blamed(digits, scale):
    data = sources.Data(scale * digits.inputs, digits.targets, "digits", 10)
    assert "unscaled-inputs" not in found(mlp(), data)


def test_four_of_the_normalisers_without_statistics_are_shown(digits):
    layers = [m for _ in range(6) for m in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())]
    model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10)).eval()
    finding = found(model, digits)["untouched-statistics"]
    assert finding.says.startswith("6 batch normalisers")
    assert [r.site for r in finding.evidence] == ["2", "5", "8", "11"]
