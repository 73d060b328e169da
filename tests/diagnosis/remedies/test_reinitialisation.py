"""Weights that are drawn again, and weights whose mean is taken out."""

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.remedies import Reinitialise
from tests.diagnosis.remedies.networks import network


@pytest.mark.parametrize("scheme", ["orthogonal", "he", "xavier"])
def test_reinitialise_draws_from_its_own_generator(digits, scheme):
    model = network(6)
    g = torch.Generator().manual_seed(3)
    first = Reinitialise(scheme=scheme).apply(model, digits.inputs)
    again = Reinitialise(scheme=scheme).apply(model, digits.inputs)
    other = Reinitialise(scheme=scheme, generator=g).apply(model, digits.inputs)
    W = [m.hidden[2].linear.weight for m in (first, again, other)]
    assert torch.equal(W[0], W[1])
    assert not torch.equal(W[0], W[2])


def test_orthogonal_weights_have_he_s_gain_but_for_the_last():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    new = Reinitialise(scheme="orthogonal").apply(model, torch.eye(9, 6))
    for layer, gain in ((new[0], 2**0.5), (new[2], 2**0.5), (new[4], 1.0)):
        sigma = torch.linalg.svdvals(layer.weight)
        assert torch.allclose(sigma, torch.full_like(sigma, gain), atol=1e-5)
