import copy
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate
from sigmascope.models import networks
from sigmascope.theory import landscape
from sigmascope.theory.landscape.conditioning import FLAT, _rate
from tests.models_zoo import Net


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
    for layer in landscape.landscape(net(), x, targets=y, loss=F.cross_entropy).layers:
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
    (layer,) = landscape.landscape(nn.Linear(5, 3, bias=False).double(), x).layers
    assert layer.layer_factor.value == pytest.approx(1)
    assert layer.condition.value == pytest.approx(layer.data_factor.value)
    s = torch.linalg.svdvals(x)
    assert layer.data_factor.value == pytest.approx(float(s[0] / s[-1]))
    assert layer.top.value == pytest.approx(2 * float(s[0]) ** 2 / len(x))


def test_layers_without_curvature_are_said():
    x, y = data()
    found = landscape.landscape(net(), x, targets=y, loss=lambda out, _: out.sum())
    assert found.layers == ()
    assert {s.why for s in found.skipped} == {"the loss is flat in its weights, up to rounding"}


def test_a_dead_network_has_finite_numbers():
    model = net()
    with torch.no_grad():
        model.hidden[1].linear.bias.fill_(-100)
    found = landscape.landscape(model, data()[0])
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
    layers = landscape.landscape(net(activation="linear"), x).layers
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
    layer = next(v for v in landscape.landscape(model, x).layers if v.site == "readout")
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


def skipped(block, rho):
    """A block with the skip connection written into its code."""
    return Net(lambda net, x: net.block(x) + rho * x, block=block)


@given(seed=st.integers(0, 10**6), rho=st.floats(0.05, 2), at=st.integers(1, 3))
@settings(max_examples=5)
def test_a_skip_that_is_imagined_is_the_skip_that_is_built(seed, rho, at):
    model, (x, y) = net(seed=seed), data(seed)
    (found,) = landscape.what_if(
        model, x, skip=f"hidden.{at}", rhos=[rho], targets=y, loss=F.cross_entropy
    )[1:]
    built = copy.deepcopy(model)
    built.hidden[at] = skipped(built.hidden[at], rho)
    true = landscape.landscape(built, x, targets=y, loss=F.cross_entropy)
    assert len(found.layers) == len(true.layers)
    for a, b in zip(found.layers, true.layers, strict=True):
        assert a.site == b.site.replace(f"hidden.{at}.block", f"hidden.{at}")
        for quantity in ("condition", "layer_factor", "data_factor", "top", "flat"):
            one, other = getattr(a, quantity), getattr(b, quantity)
            assert one.value == pytest.approx(other.value, rel=1e-6)


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 100.0])
def test_a_network_that_is_sure_of_its_answers_is_measured_or_flat(scale):
    model, (x, y) = net(), data()
    for block in model.hidden:
        block.linear.weight.data.mul_(scale)
    skips = [f"hidden.{i}" for i in range(1, len(model.hidden))]
    found = landscape.what_if(
        model, x, skip=skips, rhos=[0.5, 1.0], targets=y, loss=F.cross_entropy
    )
    for variant in found:
        assert variant.layers or {s.why for s in variant.skipped} == {FLAT}


def over_two(first, second, third, last):
    return nn.Sequential(first, skipped(nn.Sequential(second, third), 0.5), last)


def dense(first, second, third, last):
    inner = nn.Sequential(second, skipped(third, 0.5))
    return nn.Sequential(first, skipped(inner, 0.5), last)


@pytest.mark.parametrize(
    ("skips", "build"),
    [(["hidden.1:hidden.2"], over_two), (["hidden.1:hidden.2", "hidden.2"], dense)],
)
def test_skips_over_several_layers_and_the_model_as_it_is(skips, build):
    model = net()
    none, one = landscape.what_if(model, data()[0], skip=skips, rhos=[0, 0.5])
    assert (none.says, one.says) == ("as it is", f"skip 0.5 around {', '.join(skips)}")
    plain = landscape.landscape(model, data()[0])
    assert [v.condition for v in none.layers] == [v.condition for v in plain.layers]
    built = copy.deepcopy(model)
    built.hidden = build(*built.hidden)
    true = landscape.landscape(built, data()[0])
    assert [v.condition.value for v in one.layers] == pytest.approx(
        [v.condition.value for v in true.layers], rel=1e-9
    )


def test_another_activation_alone_and_with_a_skip():
    model, (x, y) = net(), data()
    before, after = landscape.what_if(model, x, activation="leaky", targets=y, loss=F.cross_entropy)
    true = landscape.landscape(net(activation="leaky"), x, targets=y, loss=F.cross_entropy)
    assert (before.says, after.says) == ("as it is", "with leaky")
    assert [v.condition for v in after.layers] == [v.condition for v in true.layers]
    assert isinstance(model.hidden[0].activation, nn.ReLU)  # the model is as it was
    both = landscape.what_if(net(), x, activation="abs", skip="hidden.2", rhos=[0, 1])
    assert [v.says for v in both] == ["as it is", "with abs", "skip 1 around hidden.2, abs"]


@pytest.mark.parametrize(
    ("model", "asked", "says"),
    [
        (net, {}, "something to change"),
        (net, {"skip": "hidden.9"}, "must name one module, or two as first:last, got 'hidden.9'"),
        (net, {"skip": "hidden.0"}, r"shape of its input, got \(12, 5\) in and \(12, 6\) out"),
        (net, {"skip": ""}, "`skip` must name one module"),
        (net, {"skip": "hidden.1:hidden.2:readout"}, "`skip` must name one module, or two"),
        (lambda: nn.Linear(5, 3), {"activation": "leaky"}, "activations that are modules"),
        (
            lambda: Net(lambda net, x: net.a(x), a=nn.Linear(5, 5), spare=nn.Linear(5, 5)),
            {"skip": "spare", "rhos": [1.0]},
            "must name modules that the model calls, got 'spare'",
        ),
    ],
)
def test_what_cannot_be_imagined_is_refused_and_leaves_no_hook(model, asked, says):
    model = model().double()
    with pytest.raises(Refusal, match=says):
        landscape.what_if(model, data()[0], **asked)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
