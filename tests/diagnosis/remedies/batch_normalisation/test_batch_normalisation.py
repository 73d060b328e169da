"""Batch normalisation goes before each activation, with statistics of the batch."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.remedies import BatchNormalisation
from sigmascope.networks import UncentredBatchNorm
from tests.diagnosis.remedies.networks import network


@pytest.mark.parametrize("centred", [True, False])
def test_batch_norm_goes_before_each_activation(digits, centred):
    new = BatchNormalisation(centred=centred).apply(network(4), digits.inputs)
    kind = nn.BatchNorm1d if centred else UncentredBatchNorm
    assert [type(b.linear.norm) for b in new.hidden] == [kind] * 4
    assert isinstance(new.readout, nn.Linear)
    with torch.no_grad():
        block = new.hidden[0]
        written = block.linear(digits.inputs.flatten(1))
    assert torch.allclose(written.square().mean(0), torch.ones(64), atol=2e-3)


def test_batch_norm_on_images_and_functional_activations():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Conv2d(1, 4, 3)
            self.b = nn.Conv2d(4, 8, 3)
            self.c = nn.Linear(8 * 16, 5)

        def forward(self, x):
            return self.c(F.relu(self.b(F.relu(self.a(x)))).flatten(1))

    x = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    new = BatchNormalisation().apply(Plain().eval(), x)
    assert isinstance(new.a.norm, nn.BatchNorm2d)
    assert not new.a.norm.training
    assert float(new.a.norm.running_var.min()) != 1  # estimated from the batch
    assert new(x).shape == (6, 5)
    assert torch.equal(new.a.weight, new.a.layer.weight)


def test_eval_mode_statistics_make_the_new_model_do_the_same_in_both_modes(digits):
    new = BatchNormalisation().apply(network(3).eval(), digits.inputs)
    with torch.no_grad():
        still = new(digits.inputs)
        for module in new.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.train()
        moving = new(digits.inputs)
    assert torch.allclose(still, moving, atol=0.05)
