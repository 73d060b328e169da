"""What batch normalisation does, measured by switching it in copies."""

import math

import pytest
import torch
from torch import nn

from sigmascope import diagnosis
from sigmascope.diagnosis.remedies import Inapplicable
from sigmascope.diagnosis.remedies.batch_normalisation import _last_ratio, _uncentred
from tests.diagnosis.remedies.networks import network


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
