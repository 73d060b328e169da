"""Residual branches get one over the root of their number."""

import pytest
import torch

from sigmascope import networks
from sigmascope.diagnosis.remedies import RescaleResidual
from sigmascope.probes.samples import prepared
from sigmascope.probes.structure import branches
from tests.models_zoo import MODELS


def test_residual_branches_of_images_are_scaled():
    g = torch.Generator().manual_seed(0)
    model = networks.resnet(inputs=(1, 8, 8), outputs=3, depth=8, width=4, generator=g)
    new = RescaleResidual().apply(model, torch.randn(4, 1, 8, 8, generator=g))
    blocks = [m for m in model.modules() if isinstance(m, networks.ResidualBlock)]
    scaled = [m for m in new.modules() if isinstance(m, networks.ResidualBlock)]
    for old, now in zip(blocks, scaled, strict=True):
        parts = [p for p in old.second.children() if next(p.parameters(), None) is not None]
        after = [p for p in now.second.children() if next(p.parameters(), None) is not None]
        assert torch.allclose(after[-1].weight, parts[-1].weight / len(blocks) ** 0.5)


@pytest.mark.parametrize(
    "name", ["inplace-residual", "transformer-pre-norm", "vision-transformer", "small-resnet"]
)
def test_rescaled_branches_have_one_over_the_root_of_their_number(name):
    model, batch = MODELS[name]()
    batch = prepared(model, batch)
    before, after = branches(model, batch), branches(RescaleResidual().apply(model, batch), batch)
    assert after[0].strength == pytest.approx(before[0].strength / len(before) ** 0.5, rel=1e-3)
