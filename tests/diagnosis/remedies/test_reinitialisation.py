"""Weights that are drawn again, and weights whose mean is taken out."""

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.remedies import Inapplicable, Reinitialise
from sigmascope.diagnosis.remedies.reinitialisation import RecentreWeights
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


@pytest.mark.parametrize(
    ("scheme", "spreads"),
    [  # of fans 40 to 60, 60 to 30 and 30 to 50; the last has no activation behind it
        ("he", [(2 / 40) ** 0.5, (2 / 60) ** 0.5, (2 / 30) ** 0.5]),
        ("xavier", [(4 / 100) ** 0.5, (4 / 90) ** 0.5, (2 / 80) ** 0.5]),
    ],
)
def test_drawn_weights_have_the_spread_of_their_law_and_no_bias(scheme, spreads):
    sizes = [nn.Linear(40, 60), nn.ReLU(), nn.Linear(60, 30), nn.ReLU(), nn.Linear(30, 50)]
    new = Reinitialise(scheme=scheme).apply(nn.Sequential(*sizes), torch.ones(9, 40))
    for layer, spread in zip(new[::2], spreads, strict=True):
        assert float(layer.weight.detach().std()) == pytest.approx(spread, rel=0.05)
        assert not layer.bias.any()


@pytest.mark.parametrize(("shift", "taken"), [(-2.01, True), (2.01, True), (1.99, False)])
def test_a_mean_is_taken_out_where_it_is_twice_as_large_as_chance_makes_any(shift, taken):
    """Of spread 1 entries make a norm of about `√m + √n`, a mean `a` one of `|a| √(mn)`."""
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(12).view(4, 6)
    model[0].weight.data = signs + shift * (2 + 6**0.5) / 24**0.5
    model[2].weight.data = signs[:2, :4].clone()
    if not taken:
        with pytest.raises(Inapplicable, match="needs weights whose mean is large"):
            RecentreWeights().apply(model, torch.ones(3, 6).double())
        return
    new = RecentreWeights().apply(model, torch.ones(3, 6).double())
    torch.testing.assert_close(new[0].weight.data, signs)
    assert torch.equal(new[2].weight, model[2].weight)
    assert torch.equal(new[0].bias, model[0].bias)
