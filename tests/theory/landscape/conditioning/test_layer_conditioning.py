import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import networks, theory
from sigmascope.records import Estimate
from sigmascope.theory.landscape.conditioning import _rate


def net(*, depth=4, width=6, seed=0, activation="relu"):
    generator = torch.Generator().manual_seed(seed)
    return networks.mlp(
        inputs=5,
        outputs=3,
        depth=depth,
        width=width,
        init="he",
        activation=activation,
        generator=generator,
    ).double()


def data(seed=0, samples=12):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 5, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, 3, (samples,), generator=generator)


def test_the_numbers_belong_together():
    x, y = data()
    for layer in theory.landscape.landscape(net(), x, targets=y, loss=F.cross_entropy).layers:
        k = layer.condition.value
        assert layer.step_limit.value == pytest.approx(2 / layer.top.value)
        assert layer.rate.value == pytest.approx((k * k - 1) / (k * k + 1))
        assert layer.condition.low <= k <= layer.condition.high
        assert layer.data_factor.value >= 1
        assert layer.layer_factor.value >= 1
        assert k < layer.floor
        assert layer.flat.value >= 0


def test_a_single_linear_layer_has_the_condition_of_its_data():
    x, _ = data()
    (layer,) = theory.landscape.landscape(nn.Linear(5, 3, bias=False).double(), x).layers
    assert layer.layer_factor.value == pytest.approx(1)
    assert layer.condition.value == pytest.approx(layer.data_factor.value)
    s = torch.linalg.svdvals(x)
    assert layer.data_factor.value == pytest.approx(float(s[0] / s[-1]))
    assert layer.top.value == pytest.approx(2 * float(s[0]) ** 2 / len(x))


def test_layers_without_curvature_are_said():
    x, y = data()
    found = theory.landscape.landscape(net(), x, targets=y, loss=lambda out, _: out.sum())
    assert found.layers == ()
    assert {s.why for s in found.skipped} == {"the loss is flat in its weights, up to rounding"}


def test_a_dead_network_has_finite_numbers():
    model = net()
    with torch.no_grad():
        model.hidden[1].linear.bias.fill_(-100)
    found = theory.landscape.landscape(model, data()[0])
    assert {s.site for s in found.skipped} >= {"hidden.0.linear"}
    assert all(math.isfinite(v.condition.value) for v in found.layers)


@pytest.mark.parametrize("k", [1.0, 1.5, 1e4, 5e7, 6.7e7, 9.5e7, 1.4e8, 1e12, 1e200, math.inf])
def test_a_rate_of_any_condition_lies_within_its_ends(k):
    for ulps in range(40):
        rate = _rate(Estimate.rounded(k, ulps=ulps / 8).at_least(1.0))
        assert 0 <= rate.value <= rate.high <= 1
        assert rate.value == pytest.approx(1 - 2 / (1 + k * k), abs=1e-15)


def alone(model, site, x, y, rate, steps):
    """Losses of gradient descent on one layer's weights, squared error summed over the outputs."""
    for name, p in model.named_parameters():
        p.requires_grad_(requires_grad=name.startswith(site))
    trained = [p for p in model.parameters() if p.requires_grad]
    losses = []
    for _ in range(steps):
        loss = (model(x) - y).square().sum() / len(x)
        losses.append(loss.item())
        grads = torch.autograd.grad(loss, trained)
        with torch.no_grad():
            for p, g in zip(trained, grads, strict=True):
                p -= rate * g
    return losses


@pytest.mark.parametrize("site", ["hidden.0.linear", "hidden.2.linear", "readout"])
def test_gradient_descent_on_a_layer_diverges_above_its_step_limit(site):
    x = data(samples=40)[0]
    y = torch.randn(40, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    layers = theory.landscape.landscape(net(activation="linear"), x).layers
    limit = next(v.step_limit.value for v in layers if v.site == site)
    below = alone(net(activation="linear"), site, x, y, 0.98 * limit, 400)
    above = alone(net(activation="linear"), site, x, y, 1.02 * limit, 1200)
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(below))
    assert above[-1] > 1e3 * above[0]


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_the_slowest_error_shrinks_at_the_predicted_rate(activation):
    """At the best step `2 / (λ_max + λ_min)`, within one region for ReLU."""
    x = data(samples=40)[0]
    model = net(activation=activation, depth=2)
    layer = next(v for v in theory.landscape.landscape(model, x).layers if v.site == "readout")
    y = model(x).detach()  # the optimum is the model itself; it starts a little off it
    slowest = 2 / layer.condition.value**2 / layer.step_limit.value
    with torch.no_grad():
        noise = torch.Generator().manual_seed(1)
        model.readout.weight += 1e-6 * torch.randn(
            model.readout.weight.shape, generator=noise, dtype=torch.float64
        )
    losses = alone(model, "readout", x, y, 2 / (layer.top.value + slowest), 3000)
    kept = [a for a in losses if a > 1e-24]
    rate = (kept[-1] / kept[-101]) ** 0.005  # of the error, whose square the loss is
    assert rate == pytest.approx(layer.rate.value, rel=1e-3)
