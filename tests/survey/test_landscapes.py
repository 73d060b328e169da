import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope import networks, survey
from sigmascope.probes import Refusal


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


class Skipped(nn.Module):
    """A block with the skip connection written into its code."""

    def __init__(self, block, rho):
        super().__init__()
        self.block, self.rho = block, rho

    def forward(self, x):
        return self.block(x) + self.rho * x


@given(seed=st.integers(0, 10**6), rho=st.floats(0.05, 2), at=st.integers(1, 3))
@settings(max_examples=30)
def test_a_skip_that_is_imagined_is_the_skip_that_is_built(seed, rho, at):
    model, (x, y) = net(seed=seed), data(seed)
    (found,) = survey.what_if(
        model, x, skip=f"hidden.{at}", rhos=[rho], targets=y, loss=F.cross_entropy
    )[1:]
    built = copy.deepcopy(model)
    built.hidden[at] = Skipped(built.hidden[at], rho)
    true = survey.landscape(built, x, targets=y, loss=F.cross_entropy)
    assert len(found.layers) == len(true.layers)
    for a, b in zip(found.layers, true.layers, strict=True):
        assert a.site == b.site.replace(f"hidden.{at}.block", f"hidden.{at}")
        for quantity in ("condition", "layer_factor", "data_factor", "top", "flat"):
            one, other = getattr(a, quantity), getattr(b, quantity)
            assert one.value == pytest.approx(other.value, rel=1e-6)


def test_a_skip_over_several_layers_and_the_model_as_it_is():
    model, (x, _) = net(), data()
    none, one = survey.what_if(model, x, skip="hidden.1:hidden.2", rhos=[0, 1.0])
    assert (none.says, one.says) == ("as it is", "skip 1 around hidden.1:hidden.2")
    plain = survey.landscape(model, x)
    assert [v.condition for v in none.layers] == [v.condition for v in plain.layers]
    built = copy.deepcopy(model)
    built.hidden = nn.Sequential(
        built.hidden[0], Skipped(nn.Sequential(*built.hidden[1:3]), 1.0), built.hidden[3]
    )
    true = survey.landscape(built, x)
    assert [v.condition.value for v in one.layers] == pytest.approx(
        [v.condition.value for v in true.layers], rel=1e-9
    )


def test_another_activation():
    model, (x, y) = net(), data()
    before, after = survey.what_if(model, x, activation="leaky", targets=y, loss=F.cross_entropy)
    true = survey.landscape(net(activation="leaky"), x, targets=y, loss=F.cross_entropy)
    assert (before.says, after.says) == ("as it is", "with leaky")
    assert [v.condition for v in after.layers] == [v.condition for v in true.layers]
    assert isinstance(model.hidden[0].activation, nn.ReLU)  # the model is as it was


def test_both_at_once():
    found = survey.what_if(net(), data()[0], activation="abs", skip="hidden.2", rhos=[0, 1])
    assert [v.says for v in found] == ["as it is", "with abs", "skip 1 around hidden.2, abs"]


def test_the_numbers_belong_together():
    x, y = data()
    for layer in survey.landscape(net(), x, targets=y, loss=F.cross_entropy).layers:
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
    (layer,) = survey.landscape(nn.Linear(5, 3, bias=False).double(), x).layers
    assert layer.layer_factor.value == pytest.approx(1)
    assert layer.condition.value == pytest.approx(layer.data_factor.value)
    s = torch.linalg.svdvals(x)
    assert layer.data_factor.value == pytest.approx(float(s[0] / s[-1]))
    assert layer.top.value == pytest.approx(2 * float(s[0]) ** 2 / len(x))


def test_layers_without_curvature_are_said():
    x, y = data()
    found = survey.landscape(net(), x, targets=y, loss=lambda out, _: out.sum())
    assert found.layers == ()
    assert {s.why for s in found.skipped} == {"the loss does not depend on its weights"}


def test_a_dead_network_has_finite_numbers():
    model = net()
    with torch.no_grad():
        model.hidden[1].linear.bias.fill_(-100)
    found = survey.landscape(model, data()[0])
    assert {s.site for s in found.skipped} >= {"hidden.0.linear"}
    assert all(math.isfinite(v.condition.value) for v in found.layers)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "something to change"),
        ({"skip": "hidden.9"}, "`skip` must name one module, or two as first:last, got 'hidden.9'"),
        ({"skip": "hidden.0"}, r"the shape of its input, got \(12, 5\) in and \(12, 6\) out"),
        ({"skip": ""}, "`skip` must name one module"),
    ],
)
def test_what_cannot_be_imagined_is_refused_and_leaves_no_hook(asked, says):
    model = net()
    with pytest.raises(Refusal, match=says):
        survey.what_if(model, data()[0], **asked)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_activations_that_are_functions_cannot_be_exchanged():
    with pytest.raises(Refusal, match="activations that are modules"):
        survey.what_if(nn.Linear(5, 3).double(), data()[0], activation="leaky")


def test_a_module_that_is_never_called_has_no_skip():
    model = nn.Sequential(nn.Linear(5, 5)).double()
    model.spare = nn.Linear(5, 5).double()
    model.forward = lambda x: model[0](x)
    with pytest.raises(Refusal, match="must name modules that the model calls, got 'spare'"):
        survey.what_if(model, data()[0], skip="spare", rhos=[1.0])
