"""The view of conditioning says what the landscape does."""

import torch
from torch.nn import functional as F

from sigmascope import sources, survey
from sigmascope.models import networks
from sigmascope.theory import landscape


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
