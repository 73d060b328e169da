"""Batch normalisation goes before each activation, with statistics of the batch."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis
from sigmascope.diagnosis.remedies import BatchNormalisation, Inapplicable
from sigmascope.diagnosis.remedies.batch_normalisation import _last_ratio, _uncentred
from sigmascope.models.networks import UncentredBatchNorm
from tests.diagnosis.remedies.networks import network
from tests.models_zoo import Net


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
    run = lambda self, x: self.c(F.relu(self.b(F.relu(self.a(x)))).flatten(1))
    plain = Net(run, a=nn.Conv2d(1, 4, 3), b=nn.Conv2d(4, 8, 3), c=nn.Linear(8 * 16, 5))
    x = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    new = BatchNormalisation().apply(plain.eval(), x)
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


def test_normalisers_are_switched_in_copies(digits):
    model = network(16, norm="batch")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    effect = diagnosis.remedies.normalisation_effect(model, digits.inputs)
    assert effect.count == 16
    assert effect.as_is.value > 5 > effect.uncentred.value > 1.5 > effect.removed.value
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    with pytest.raises(Inapplicable):
        diagnosis.remedies.normalisation_effect(network(2), digits.inputs)


@pytest.mark.parametrize("kept", [True, False])
def test_a_normaliser_that_does_not_centre_takes_over_what_the_other_knew(kept):
    """In evaluation mode it divides by the root of the second moment: 3² + 7 = 16."""
    old = nn.BatchNorm1d(2, eps=0.0, track_running_stats=kept).double()
    with torch.no_grad():
        old.weight.copy_(torch.tensor([2.0, 3.0]))
        if kept:
            old.running_mean.fill_(3.0)
            old.running_var.fill_(7.0)
    new = _uncentred(old)
    x = torch.tensor([[4.0, 8.0], [4.0, 0.0]], dtype=torch.float64)
    if kept:
        assert torch.allclose(new.eval()(x), torch.tensor([[2.0, 6.0], [2.0, 0.0]]).double())
    else:
        roots = x.square().mean(0).sqrt()
        assert torch.allclose(new.train()(x), x / roots * torch.tensor([2.0, 3.0]))


def test_a_last_representation_of_zeros_has_no_known_ratio():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias.fill_(-1)
    found = _last_ratio(net, torch.ones(5, 3).double())
    assert (found.value, found.low, found.high) == (1, 1, math.inf)
    with torch.no_grad():
        net[0].bias.fill_(1)
    assert _last_ratio(net, torch.ones(5, 3).double()).value == pytest.approx(1)


@pytest.mark.parametrize("affine", [True, False])
def test_without_a_mean_the_running_square_is_of_what_was_not_centred(affine):
    torch.manual_seed(0)
    old = nn.BatchNorm1d(3, affine=affine)
    x = 5 + 2 * torch.randn(400, 3)
    for _ in range(200):
        old(x)
    if affine:
        nn.init.constant_(old.weight, 3.0)
    new = _uncentred(old)
    assert torch.allclose(new.running_var, x.square().mean(0), rtol=1e-2)
    assert all(torch.equal(p, dict(old.named_parameters())[n]) for n, p in new.named_parameters())
