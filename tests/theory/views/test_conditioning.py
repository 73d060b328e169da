"""The view of conditioning says what the landscape does."""

import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import sources, survey
from sigmascope.models import networks
from sigmascope.theory import landscape
from sigmascope.theory.views.conditioning import FLAT


def test_readings_are_those_of_the_landscape():
    data = sources.open_data("digits", samples=24)
    g = torch.Generator().manual_seed(0)
    model = networks.mlp(inputs=64, outputs=10, depth=2, width=12, generator=g)
    options = {"targets": data.targets, "loss": F.cross_entropy}
    measured = survey.profile(model, data.inputs, views=["conditioning"], **options)
    found = {r.site: r.estimate for r in measured.series("condition of learning")}
    land = landscape.landscape(model, data.inputs, **options)
    assert found == {layer.site: layer.condition for layer in land.layers}
    assert len(measured.series("layer factor")) == len(measured.series("data factor")) == 3


def test_a_layer_whose_loss_is_flat_is_left_out_with_the_reason():
    """Behind it all weights are zero."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    nn.init.zeros_(net[2].weight)
    found = survey.profile(net, torch.randn(9, 3), views=["conditioning"])
    assert {s.site for s in found.skipped if s.why == FLAT} == {"0"}
    assert {r.site for r in found.readings} == {"2"}


def test_one_weight_is_learned_equally_well_in_all_directions():
    found = survey.profile(nn.Linear(1, 1, bias=False), torch.ones(1, 1), views=["conditioning"])
    assert [r.estimate.value for r in found.readings] == [1, 1, 1]
    assert [c.site for c in found.checks if c.theorem == "curvature-factors"] == [""]
