"""Rules on the task speak from their thresholds on, as docs/findings.md has it."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import networks, sources, survey
from sigmascope.diagnosis.rules import diagnose
from sigmascope.diagnosis.rules.task import (
    forgotten_targets,
    overestimated_rank,
    repeated_inputs,
)
from sigmascope.records import Estimate, Reading
from tests.diagnosis.readings import ABOVE, BELOW, reading, said, series
from tests.diagnosis.rules.networks import found, mlp


@pytest.mark.parametrize(
    ("chance", "signal", "first", "last", "speaks"),
    [
        (0.4, 5.0, 0.5, 0.01 * BELOW, True),
        (0.4, 5.0, 0.5, 0.01, False),  # a fiftieth
        (0.5, 5.0, 0.5, 0.001, False),
        (0.5 * BELOW, 5.0, 0.5, 0.001, True),
        (0.4, 5.0 * BELOW, 0.5, 0.001, False),
        (0.4, 5.0, 0.05, 0.0001, False),
        (0.4, 5.0, 0.05 * ABOVE, 0.0001, True),
        (None, 5.0, 0.5, 0.001, False),
        (0.4, None, 0.5, 0.001, False),
    ],
)
def test_when_targets_are_forgotten(chance, signal, first, last, speaks):
    facts = series("target alignment", first, 0.1, last)
    facts += [reading("target signal", signal)] if signal is not None else []
    facts += (
        [reading("probability of fitting", chance, "(model)", "setup")]
        if chance is not None
        else []
    )
    assert (said(forgotten_targets, *facts, count=3) != {}) is speaks
    assert said(forgotten_targets, *[f for f in facts if f.site != "layer 1"], count=3) == {}


@pytest.mark.parametrize(("used", "speaks"), [(4.0, True), (5.0, False)])
def test_when_a_rank_is_more_than_is_used(used, speaks):
    ranks = series("representation rank", 2.0, 7.0, 5.0, 6.0)
    inner = reading("inner dimension", used, view="bottleneck")
    assert (said(overestimated_rank, *ranks, inner) != {}) is speaks
    assert said(overestimated_rank, *ranks[:3], inner) == {}


class Times(nn.Module):
    """Times a constant."""

    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return self.by * x


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


@pytest.mark.parametrize(("share", "speaks"), [(0.5, False), (0.5 * ABOVE, True)])
def test_equal_samples_whose_targets_differ(share, speaks):
    facts = (
        reading("contradicted targets", share, "(targets)", "setup"),
        reading("distinct samples", 9, "(inputs)", "setup"),
    )
    assert said(repeated_inputs, *facts) == ({"repeated-inputs": "warning"} if speaks else {})
    assert said(repeated_inputs, *facts[:1]) == {}


def test_an_index_that_does_not_move_on(digits):
    x, y = digits.inputs, digits.targets
    stuck = replace(digits, inputs=x[torch.arange(len(x)) // 32 * 32], targets=y)
    assert "repeated-inputs" in found(mlp(), stuck)
    assert "repeated-inputs" not in found(mlp(), digits)
