import math

import pytest
import torch
from torch import nn

from sigmascope.models.networks.layers import convolution, linear


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(init, inputs=400, outputs=300):
    return linear(inputs, outputs, init=init, bias=True, generator=generator())


@pytest.mark.parametrize(
    ("init", "mean", "variance"),
    [
        ("torch", 0, 1 / (3 * 400)),
        ("he", 0, 2 / 400),
        ("xavier", 0, 2 / 700),
        ("asymmetric", 1 / math.sqrt(400), 1 / (3 * 400)),
    ],
)
def test_weights_have_the_mean_and_variance_of_their_law(init, mean, variance):
    weight = drawn(init).weight.detach().double()
    error = math.sqrt(variance / weight.numel())
    assert abs(float(weight.mean()) - mean) < 4 * error
    assert float(weight.var()) == pytest.approx(variance, rel=0.02)


def test_orthogonal_rows_are_orthonormal():
    weight = drawn("orthogonal").weight.detach()
    torch.testing.assert_close(weight @ weight.mT, torch.eye(300), atol=1e-5, rtol=0)


def test_asymmetric_weights_fill_their_interval():
    weight = drawn("asymmetric").weight.detach()
    assert float(weight.min()) >= 0
    assert 0.099 < float(weight.max()) <= 0.1


@pytest.mark.parametrize("init", ["he", "xavier", "orthogonal", "asymmetric"])
def test_only_torch_draws_a_bias(init):
    assert (drawn(init).bias == 0).all()
    assert 0 < float(drawn("torch").bias.detach().abs().max()) <= 1 / math.sqrt(400)


def test_torch_is_what_torch_itself_would_draw():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        theirs = nn.Linear(5, 7), nn.Conv2d(2, 3, 3)
        torch.manual_seed(3)
        ours = (
            linear(5, 7, init="torch", bias=True, generator=None),
            convolution(2, 3, init="torch", bias=True, generator=None),
        )
    for a, b in zip(theirs, ours, strict=True):
        torch.testing.assert_close(a.weight, b.weight, rtol=1e-6, atol=0)
        torch.testing.assert_close(a.bias, b.bias, rtol=1e-6, atol=0)


def test_a_generator_alone_decides():
    before = torch.get_rng_state()
    first, second = drawn("torch"), drawn("torch")
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_fan_in_of_a_convolution_counts_its_window():
    conv = convolution(64, 64, init="he", bias=False, generator=generator())
    assert float(conv.weight.detach().var()) == pytest.approx(2 / (9 * 64), rel=0.03)
